"""The functions of net.py that take an image: ``preprocess``, and ``detect`` or ``classify``."""
from __future__ import annotations

import ast
import json
import textwrap

from .. import passes
from ..metadata import classes_of
from ..model import ExportedModel
from ..operators.forms import number
from ..preprocessing import Preprocessing
from .converters import WHERE, snippets
from .expressions import call_of, filled, literal, method_of, parsed, spliced
from .statements import INDENT, WIDTH, Statement, assigned, lines_of

DETECT = 0.25   # the least score, unless the net leaves out higher ones


def image_functions(model: ExportedModel) -> list[Statement]:
    """Return the functions and the table of classes. It is empty if the net lacks classes or how images are prepared.

    They are texts with comments, in which the values of this net stand in place of names in capitals.
    """
    metadata = passes.describe(model).metadata
    task = {"detection": "detect", "classification": "classify"}.get(metadata.get("task"))
    if task is None or not isinstance(metadata.get("preprocessing"), dict) or "classes" not in metadata:
        return []
    preprocessing = Preprocessing.from_metadata(metadata["preprocessing"])
    if preprocessing.layout != "NCHW":
        return []
    height, width = next(iter(model.inputs.values()))[2:]
    steps = [line for step in _steps(preprocessing, width, height) for line in lines_of(step, INDENT)]
    values = {"WIDTH": width, "HEIGHT": height, "THRESHOLD": max(DETECT, metadata.get("threshold", 0.0)),
              "INNER": f"inside(columns, rows, {width}, {height})" if preprocessing.resize == "letterbox"
              else f"({width}, {height})", "STEPS": "\n".join(steps).strip()}
    has_probabilities = metadata.get("output") == "probabilities"
    return [_classes(classes_of(WHERE, "the net", metadata["classes"])),
            *(_with_values(snippets()[name], values, has_probabilities) for name in ("preprocess", task))]


def _with_values(function: str, values: dict[str, object], has_probabilities: bool) -> str:
    """Return the source of a function with values in place of their names.

    The softmax of a net that returns probabilities is left out.
    """
    nodes = list(ast.walk(ast.parse(function)))
    others = {node: str(values[node.id]) for node in nodes if isinstance(node, ast.Name) and node.id in values}
    if has_probabilities:
        others.update((node, ast.unparse(node.func.value)) for node in nodes if method_of(node) == "softmax")
    return spliced(function, others)


def _classes(names: tuple[str, ...]) -> str:
    """Return the table of classes as text: its lines are full, and have a comma behind the last name."""
    texts = [json.dumps(name, ensure_ascii=False).replace(" ", "\0") + "," for name in names]   # each stays whole
    lines = textwrap.wrap(" ".join(texts), WIDTH - INDENT, break_long_words=False, break_on_hyphens=False)
    return "\n".join(["CLASSES = [", *(" " * INDENT + line for line in lines), "]"]).replace("\0", " ")


def _steps(preprocessing: Preprocessing, width: int, height: int) -> list[ast.stmt]:
    """Return the statements of ``preprocess`` that make ``x`` of an image, one for each step."""
    resize = {"stretch": "resize"}.get(preprocessing.resize, preprocessing.resize)
    pixels = parsed("grey(image).float() / 255" if preprocessing.channels == 1 else
                    "image.expand(3, -1, -1).float() / 255")
    sizes = [width, height, *([preprocessing.crop_ratio] if resize == "crop" else [])]
    steps = [call_of(resize, [pixels, *map(literal, sizes)])]
    if preprocessing.colours == "BGR":
        steps.append(parsed("x.flip(0)"))
    low, high = preprocessing.range
    if (low, high) != (0, 1):
        steps.append(filled(parsed("x * {scale} + {low}"),
                            {"scale": parsed(number(high - low)), "low": parsed(number(low))}))
    for text, values, default in (("x - torch.tensor({values}).reshape(-1, 1, 1)", preprocessing.mean, 0),
                                  ("x / torch.tensor({values}).reshape(-1, 1, 1)", preprocessing.std, 1)):
        if set(values) != {default}:
            steps.append(filled(parsed(text), {"values": literal(list(values))}))
    return [assigned("x", step) for step in steps]
