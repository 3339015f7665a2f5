"""What the text of an argument is turned into; argparse calls these."""
from __future__ import annotations

import argparse
import json
from typing import Any

__all__ = ["data_shape", "json_file", "json_object", "named_sizes", "seconds", "sizes"]


def sizes(text: str) -> tuple[int, ...]:
    """A shape."""
    try:
        shape = tuple(int(part) for part in text.strip("()").split(",") if part.strip())
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise argparse.ArgumentTypeError(f"got {text!r}; expected sizes of at least 1, such as 1,3,416,416")
    return shape


def named_sizes(text: str) -> tuple[str | None, tuple[int, ...]]:
    """argparse's type for the shape of one input: its name, or None, and the sizes."""
    name, mark, numbers = text.rpartition("=")
    if mark and not name:
        raise argparse.ArgumentTypeError(f"got {text!r}; expected the input's name before '='")
    return name or None, sizes(numbers)


def data_shape(args: argparse.Namespace) -> tuple[int, ...] | dict[str, tuple[int, ...]] | None:
    """The options --data-shape as the functions of gluonops.export take them."""
    given = args.data_shape or []
    names = [name for name, _ in given]
    if len(given) > 1 and (None in names or len(set(names)) < len(names)):
        args.parser.error("--data-shape several times: name each input once, as in --data-shape left=1,3,32,32")
    if names == [None]:
        return given[0][1]
    return dict(given) or None


def json_object(text: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"got {text!r}; expected a JSON object, such as " + '\'{"range": [0, 255]}\'')
    return value


def seconds(text: str) -> float:
    """A duration."""
    try:
        duration = float(text)
    except ValueError:
        duration = 0
    if not 0 < duration < float("inf"):
        raise argparse.ArgumentTypeError(f"got {text!r}; expected seconds, more than 0")
    return duration


def json_file(text: str) -> str:
    """argparse's type for the name of a JSON file. An image after --json would be replaced."""
    if text != "-" and not text.endswith(".json"):
        raise argparse.ArgumentTypeError(f"got {text!r}; expected - or a file that ends in .json")
    return text
