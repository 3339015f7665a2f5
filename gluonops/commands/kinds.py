"""Functions that argparse calls to convert the text of an argument into a value."""
from __future__ import annotations

import argparse
import json

from ..runtime.near import kind


def _integers(text):
    return tuple(int(part) for part in text.strip("()").split(",") if part.strip())


sizes = kind(_integers, lambda shape: min(shape, default=0) >= 1, "sizes of at least 1, such as 1,3,416,416")
json_object = kind(json.loads, lambda value: isinstance(value, dict),
                    "a JSON object, such as '{\"range\": [0, 255]}'")
seconds = kind(float, lambda duration: 0 < duration < float("inf"), "seconds, more than 0")
# An image after --json would be replaced.
json_file = kind(str, lambda name: name == "-" or name.endswith(".json"), "- or a file that ends in .json")


def named_sizes(text: str) -> tuple[str | None, tuple[int, ...]]:
    """argparse's type for the shape of one input: its name, or None, and the sizes."""
    name, mark, numbers = text.rpartition("=")
    if mark and not name:
        raise argparse.ArgumentTypeError(f"got {text!r}; expected the input's name before '='")
    return name or None, sizes(numbers)


def name_shapes(args: argparse.Namespace) -> None:
    """Join all options ``--data-shape`` to what the functions of gluonops.export take: a shape, a dict, or None."""
    pairs = args.data_shape or []
    names = [name for name, _ in pairs]
    if len(pairs) > 1 and (None in names or len(set(names)) < len(names)):
        args.parser.error("several --data-shape do not name each input once. Write for instance --data-shape "
                          "left=1,3,32,32")
    args.data_shape = pairs[0][1] if names == [None] else dict(pairs) or None
