"""Draws inputs that a net takes: numbers, pixels, indices, lengths of sequences, boxes and labels.

MXNet reads and writes outside of its arrays for indices, lengths and boxes that are out of range. So each of them is
followed back through all nodes that it comes from, and the variables that are found get whole numbers in its range.
"""
from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import mxnet as mx
import numpy as np

from ..contract import registry
from ..io import params
from .graph import Entry, Graph, Node, is_ours, our_name
from .jumps import halves
from .model import ExportedModel
from .operators import having, traits_of
from .operators.rule_registry import READINGS, Reading
from .parameters import is_layer
from .sizes import Shapes, known_shapes
from .values import NodeValues

Values = dict[str, np.ndarray]
# What passes on numbers as they are, perhaps in another shape, order or type.
PASSES_ON = having("moves", "joins")
ROW_OF_BOX = 5       # the number of an image, and two corners
ROW_OF_LABEL = 5     # a box, and its class
CORNERS = 4          # of a box, as two pairs
BOX, SIZE = "box", "size"   # kinds of readings
IMAGE = 4             # dimensions
LARGE = 16           # A net that subtracts or divides by so much begins with pixels.
PIXELS = (0.0, 255.0)
NUMBERS = (-2.0, 2.0)
UNIT = (0.0, 1.0)


class Need(NamedTuple):
    """What a node needs of an entry that it reads: whole numbers from ``first`` to below ``end``.

    ``reading``: what kind of numbers it reads there; the numbers of boxes are those of images.
    """
    node: Node
    entry: Entry
    end: int
    reading: Reading

    @property
    def first(self) -> int:
        return self.reading.first


class Drawn(NamedTuple):
    """Inputs.

    - ``values``: by name.
    - ``out_of_range``: the node that reads indices, lengths or boxes for which no numbers in range were found; None if
      there is none. MXNet must not run such a net.
    """
    values: Values
    out_of_range: Node | None


def drawn(model: ExportedModel, shapes: Shapes, drawing: np.random.RandomState, numbers: tuple[float, float] = NUMBERS,
          classes: int = 1, at_jumps: bool = False) -> Drawn:
    """Draw inputs of these shapes, in the type that the net takes.

    - ``numbers``: the bounds of the inputs that are no index, length, box, pixel or label.
    - ``classes``: Labels are below it.
    - ``at_jumps``: whether whole numbers and halves are drawn in place of numbers within the bounds.
    """
    needs = _needs(model.graph, known_shapes(model.graph, model.shapes(shapes)))
    sources = {need: _sources(need.entry, model.parameters) for need in needs}
    by_name: dict[str, list[Need]] = {}
    for need, (names, _) in sources.items():
        for name in names:
            by_name.setdefault(name, []).append(need)
    targets = model.labels() | _labels_of_ours(model.graph, model.parameters)
    dtype, values = np.dtype(model.metadata["dtype"]), {}
    for name, size in shapes.items():
        if name in targets:   # Its classes may be indices as well; the numbers of boxes beside them are not.
            array = _labels(size, min([classes, *(need.end for need in by_name.get(name, ()))]), drawing)
        elif name in by_name and not (at_jumps and all(need.reading.takes_any for need in by_name[name])):
            array = _in_range(by_name[name], size, drawing)
        elif dtype.kind != "f":
            array = drawing.randint(0, 128, size)
        elif at_jumps:
            array = halves(drawing, size, dtype)
        else:
            bounds = _beginning(model, name) if len(size) == IMAGE else None
            array = drawing.uniform(*(bounds or numbers), size).astype(np.float32)
        values[name] = array.astype(dtype)
    unsure = [need for need, (_, is_sure) in sources.items() if not is_sure and not need.reading.takes_any]
    return _checked(model, values, unsure, set(by_name))


def smooth_inputs(model: ExportedModel, shapes: Shapes) -> list[str]:
    """The inputs that are no index, length, box or label, and so have a gradient."""
    needs = _needs(model.graph, known_shapes(model.graph, model.shapes(shapes)))
    others = model.labels().union(*(_sources(need.entry, model.parameters)[0] for need in needs))
    is_float = np.dtype(model.metadata["dtype"]).kind == "f"
    return [name for name in shapes if is_float and name not in others]


def _checked(model: ExportedModel, values: Values, unsure: list[Need], names: Iterable[str]) -> Drawn:
    """The values, or smaller ones, for which what is computed of them is in range."""
    wrong = _first_out_of_range(model, values, unsure)
    for constant in (0, 1):
        if wrong is None:
            break
        values = {**values, **{name: np.full_like(values[name], constant) for name in names if name in values}}
        wrong = _first_out_of_range(model, values, unsure)
    return Drawn(values, wrong)


def _first_out_of_range(model: ExportedModel, values: Values, needs: list[Need]) -> Node | None:
    """The first node, inputs first, that reads something out of range. None of those behind it is computed."""
    for need in needs:
        indices = _computed(model, need.entry, values)
        if indices is None:
            continue
        if need.reading.kind == BOX:
            indices = indices.reshape(-1, indices.shape[-1])[:, 0]
        whole = np.trunc(indices)   # as MXNet does
        if not np.isfinite(indices).all() or whole.min(initial=need.first) < need.first or \
                whole.max(initial=need.first) >= need.end:
            return need.node
    return None


def _computed(model: ExportedModel, entry: Entry, values: Values) -> np.ndarray | None:
    """What MXNet computes for an entry; None if a label that nobody has given is needed for it."""
    part = Graph([entry], model.graph.attrs)
    arrays = {**model.parameters, **values}
    if not part.variables() or not arrays.keys() >= set(part.variables()):
        return None
    symbol = part.symbol()
    inputs = [arrays[name] for name in symbol.list_inputs()]
    with part.mode():
        result = mx.nd.CachedOp(symbol)(*[array if isinstance(array, mx.nd.NDArray) else
                                          mx.nd.array(array, dtype=array.dtype) for array in inputs])
    return (result[entry[1]] if isinstance(result, list) else result).asnumpy().astype(np.float64)


def _sources(entry: Entry, parameters: Iterable[str]) -> tuple[set[str], bool]:
    """The inputs that an index comes from, and whether it is sure to be in the range of the numbers of these."""
    names, is_sure, visited, waiting = set(), True, set(), [entry[0]]
    while waiting:
        node = waiting.pop()
        if node in visited:
            continue
        visited.add(node)
        if node.is_variable:
            is_sure = is_sure and node.name not in parameters
            names.update({node.name}.difference(parameters))
        elif is_layer(node):   # What it computes is no index.
            is_sure = False
        elif not traits_of(node).makes_indices:
            is_sure = is_sure and node.op in PASSES_ON
            ignored = traits_of(node).shape_inputs
            waiting += [source for position, (source, _) in enumerate(node.inputs) if position not in ignored]
    return names, is_sure


def _needs(graph: Graph, shape: dict[Entry, tuple[int, ...]]) -> list[Need]:
    """Every index, length and box in a graph, inputs first."""
    needs = []
    for node in graph.nodes():
        if any(entry not in shape for entry in node.inputs):   # It is computed from a label that nobody has given.
            continue
        reading = READINGS.get(node.op)
        if reading is not None and reading.position < len(node.inputs):
            end = reading.end(NodeValues(node, [shape[entry] for entry in node.inputs]))
            needs.append(Need(node, node.inputs[reading.position], end, reading))
    return needs


def _labels_of_ours(graph: Graph, parameters: Iterable[str]) -> set[str]:
    """The inputs that labels of our operators come from, whatever their names are."""
    names = set()
    for node in graph.nodes():
        if is_ours(node):
            arguments = registry.get(our_name(node)).op.inputs
            names.update(*(_sources(entry, parameters)[0] for entry, argument in zip(node.inputs, arguments)
                           if argument.name in ("label", "truth") and argument.values is not None))
    return names


def _in_range(needs: list[Need], shape: tuple[int, ...], drawing: np.random.RandomState) -> np.ndarray:
    """Whole numbers in the range of all needs; rows of boxes, where all of them are boxes."""
    first, end = max(need.first for need in needs), min(need.end for need in needs)
    kinds = {need.reading.kind for need in needs}
    if kinds == {BOX} and shape[-1] in (CORNERS, ROW_OF_BOX):
        return _boxes(shape, end, drawing)
    if kinds == {SIZE} and shape[-1] == 3:
        return np.broadcast_to([end - 1, end - 1, 1], shape)
    return drawing.randint(first, max(end, first + 1), shape)


def _boxes(shape: tuple[int, ...], images: int, drawing: np.random.RandomState) -> np.ndarray:
    """Rows of two corners, behind an image's number where there are five columns."""
    corner, side = (drawing.randint(8, 512, (*shape[:-1], 2)) / 64 for _ in range(2))
    numbers = [drawing.randint(0, images, (*shape[:-1], 1))] if shape[-1] == ROW_OF_BOX else []
    return np.concatenate([*numbers, corner, corner + side], axis=-1)


def _labels(shape: tuple[int, ...], classes: int, drawing: np.random.RandomState) -> np.ndarray:
    """The first classes; behind the numbers of a box in rows of five."""
    boxes = drawing.randint(0, classes, shape).astype(np.float64)
    if len(shape) == 3 and shape[-1] == ROW_OF_LABEL:
        boxes[..., :CORNERS] = drawing.randint(8, 40, boxes[..., :CORNERS].shape) / 64
    return boxes


def _beginning(model: ExportedModel, name: str) -> tuple[float, float] | None:
    """The bounds of the numbers that a net expects by what it subtracts first and divides by; None if it does neither.

    A net that subtracts 127.5, say, expects pixels; one that subtracts 0.485 expects numbers from 0 to 1.
    """
    zero, width, is_changed = 0.0, 1.0, False   # The net's own numbers are (x - zero) / width.
    readers = model.graph.readers()
    node = next(node for node in readers if node.is_variable and node.name == name)
    while True:
        before, node = node, next((reader for reader in readers[node] if reader is not None), None)
        if node is None or (node.op in PASSES_ON and len(node.inputs) > 1):
            break
        if node.op in PASSES_ON:
            continue
        affine = _affine(model, node, before)
        if affine is None:
            break
        factor, term = affine
        if factor == 0:
            break
        zero, width, is_changed = zero - term * width / factor, width / abs(factor), True
        if traits_of(node).uses_statistics:
            break
    if node is None or not is_layer(node):   # It is no net for images.
        return None
    if max(abs(zero), width) >= LARGE:
        return PIXELS
    return UNIT if is_changed and 0 < zero < 1 and width < 1 else None


def _affine(model: ExportedModel, node: Node, before: Node) -> tuple[float, float] | None:
    """(factor, term) of a node that computes ``factor * x + term`` of the node before it; None for other nodes."""
    operation = next((word for word in ("plus", "add", "minus", "sub", "mul", "div")
                      if node.op.startswith((f"_{word}_scalar", f"broadcast_{word}"))), None)
    if traits_of(node).uses_statistics:
        mean, variance = (model.parameters.get(node.source(position).name) for position in (3, 4))
        if mean is None or variance is None:
            return None
        width = math.sqrt(max(_middle(variance), 1e-12))
        return 1 / width, -_middle(mean) / width
    if operation is None or node.source() is not before:
        return None
    if node.op.endswith("_scalar"):
        value = float(node.attrs.get("scalar", 1))
    elif node.source(1).is_variable and node.source(1).name in model.parameters:
        value = _middle(model.parameters[node.source(1).name])
    else:
        return None
    return {"plus": (1, value), "add": (1, value), "minus": (1, -value), "sub": (1, -value), "mul": (value, 0),
            "div": (1 / value if value else 0, 0)}[operation]


def _middle(array: mx.nd.NDArray | np.ndarray) -> float:
    return float(np.median(params.as_numpy(array)))
