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
from .expressions import method_of, spliced
from .source import WIDTH

DETECT = 0.25   # the least score, unless the net leaves out higher ones


def images_source(model: ExportedModel) -> str:
    """Return the source of the functions. It is empty if the net lacks its classes or how images are prepared."""
    metadata = passes.describe(model).metadata
    task = {"detection": "detect", "classification": "classify"}.get(metadata.get("task"))
    if task is None or not isinstance(metadata.get("preprocessing"), dict) or "classes" not in metadata:
        return ""
    preprocessing = Preprocessing.from_metadata(metadata["preprocessing"])
    if preprocessing.layout != "NCHW":
        return ""
    height, width = next(iter(model.inputs.values()))[2:]
    values = {"WIDTH": width, "HEIGHT": height, "THRESHOLD": max(DETECT, metadata.get("threshold", 0.0)),
              "INNER": f"inside(columns, rows, {width}, {height})" if preprocessing.resize == "letterbox"
              else f"({width}, {height})"}
    function = _with_values(snippets()[task], values, metadata.get("output") == "probabilities")
    return "\n\n\n".join([_classes(classes_of(WHERE, "the net", metadata["classes"])),
                          _preprocess(preprocessing, width, height), function])


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
    texts = [json.dumps(name, ensure_ascii=False).replace(" ", "\0") + "," for name in names]   # each stays whole
    lines = textwrap.wrap(" ".join(texts), WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    return "\n".join(["CLASSES = [", *(f"    {line}" for line in lines), "]"]).replace("\0", " ")


def _preprocess(preprocessing: Preprocessing, width: int, height: int) -> str:
    """Return the source of ``preprocess``."""
    resize = {"stretch": "resize"}.get(preprocessing.resize, preprocessing.resize)
    ratio = f", {preprocessing.crop_ratio!r}" if resize == "crop" else ""
    pixels = "grey(image)" if preprocessing.channels == 1 else "image.expand(3, -1, -1)"
    lines = ["if image.dtype != torch.uint8:",
             '    raise TypeError(f"the image is of {image.dtype}; expected torch.uint8, from 0 to 255")',
             f"x = {resize}({pixels}.float() / 255, {width}, {height}{ratio})"]
    if preprocessing.colours == "BGR":
        lines.append("x = x.flip(0)")
    low, high = preprocessing.range
    if (low, high) != (0, 1):
        lines.append(f"x = x * {number(high - low)} + {number(low)}")
    for text, values, default in (("x - ", preprocessing.mean, 0), ("x / ", preprocessing.std, 1)):
        if set(values) != {default}:
            lines.append(f"x = {text}torch.tensor({list(values)}).reshape(-1, 1, 1)")
    docstring = '"""A batch of one image: uint8 (3, rows, columns), RGB, as torchvision.io.read_image has it."""'
    return "\n    ".join(["def preprocess(image):", docstring, *lines, "return x.unsqueeze(0)"])
