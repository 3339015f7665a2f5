"""Runs what was exported, and the net that it comes from in MXNet, on the same inputs, and compares all numbers.

This is the only comparer: for ONNX and symbol JSON (:func:`compare`), and for PyTorch (:mod:`.torch.verify`). A number
may differ by several times what rounding changes: MXNet runs again with inputs and parameters that are changed by half
a unit in the last place, and, where that is not enough, in float64.
"""
from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import mxnet as mx
import numpy as np

from ..contract.errors import OpError
from . import passes
from .begin import where_onnx_begins, where_symbols_begin
from .constants import is_random
from .draws import Values, drawn
from .graph import Entry, Graph
from .jumps import has_jumps
from .model import ExportedModel
from .onnx.builder import opset_of
from .onnx.write import serialized
from .operators.node_attributes import attributes_of
from .quantization.quantizable import steady
from .rows import groups_of_rows, in_the_order_of
from .sides import AtJumps, InMXNet, InOnnxruntime, Obstacle
from .sizes import DataShape, Shapes, last_line, with_batch
from .tolerance import GRADIENT, LEAST, Arrays, Look, differs, distances
from .warning import ExportWarning

WHERE = "export.compare"
DRAWS = 2        # Inputs are drawn so often: a ReLU or a maximum near its corner may go the other way in one of them.
BATCHES = (1, 3)
GROWTH = 32      # pixels that other images are higher and wider by
IMAGE = 4        # dimensions
REMEDY = "Report it with the net; nothing was written. --force, or force=True, writes it all the same"
Run = Callable[..., Arrays]
InDouble = Callable[[Values], "tuple[Arrays, Arrays] | None"]   # MXNet's numbers and ours; None if one side has none


class Difference(NamedTuple):
    """How far the output of a file is from MXNet's.

    Attributes
    ----------
    output : str
        Its name in the file.
    absolute : float
        The largest difference of two numbers.
    relative : float
        The same, divided by the largest number of the output.
    allowed : float
        The largest relative difference that is good.
    """

    output: str
    absolute: float
    relative: float
    allowed: float

    def __str__(self) -> str:
        what = "gradient" if self.output.startswith(GRADIENT) else "output"
        verdict = "good" if self.relative <= self.allowed else "too large"
        return (f"{self.output}: largest absolute difference {self.absolute:.2g}, relative to the largest {what} "
                f"{self.relative:.2g} ({verdict}: at most {self.allowed:.2g} is expected)")


class Result(NamedTuple):
    """What a comparison shows of the numbers that do not jump.

    - ``differences``: of each. ``finding``: the first that is too large; None if there is none. ``wrong``: the names
      of all that are.
    - ``values``: the inputs. ``expected``: position -> MXNet's numbers, and how far others may be from them.
    """
    differences: list[Difference]
    finding: Finding | None
    wrong: list[str]
    values: Values
    expected: dict[int, tuple[np.ndarray, float]]


class Finding(NamedTuple):
    """A difference that is too large.

    - ``position``: of the output.
    - ``place``: of the numbers that differ most, ``theirs`` in MXNet and ``ours``.
    - ``values``: the inputs.
    """
    position: int
    difference: Difference
    place: tuple[int, ...]
    theirs: float
    ours: float
    values: Values

    def __str__(self) -> str:
        at = f" at {list(self.place)}" if self.place else ""
        return (f"{self.difference.output}{at} is {self.ours:.7g}; MXNet's is {self.theirs:.7g}. The largest absolute "
                f"difference is {self.difference.absolute:.2g}, relative to the largest number "
                f"{self.difference.relative:.2g}; expected at most {self.difference.allowed:.2g}")


def compare(net: mx.gluon.HybridBlock | str | os.PathLike, path: str | os.PathLike,
            data_shape: DataShape | None = None, epoch: int | None = None, force: bool = False,
            outputs: Iterable[str] = (), inputs: Any = None) -> list[Difference]:
    """Run exported files and the net that they come from on the same inputs, and compare the outputs.

    The inputs are random numbers: one image, three, and larger ones, as far as both sides take them. Numbers of 0 to
    255 are drawn where the net subtracts a mean of pixels, and whole numbers in range where it reads indices, lengths
    or boxes. A net with operators that jump, such as a remainder or an argmax, is also compared at whole numbers and
    halves, where many numbers are equal. Losses are not compared. An ExportWarning says why nothing is compared:
    onnxruntime is not installed, the shape of an input is not known, MXNet itself does not run the net, or the net
    draws random numbers. Rows of detections are compared as sets. Outputs that jump, such as those of non-maximum
    suppression, are compared where MXNet's own do not jump if the inputs change by a rounding error. In front of them
    the outputs of the last layers are compared as well.

    Parameters
    ----------
    net, data_shape, inputs
        As in :func:`gluonops.export.onnx`.
    path : str or os.PathLike
        An ``.onnx`` file, or the path, without ``-symbol.json``, of symbol JSON and parameters.
    epoch : int, optional
        Number of the parameter file of ``net``, and of ``path``. The default is the highest number.
    force : bool, default False
        Warn of a difference that is too large, in place of the OpError.
    outputs : iterable of str, optional
        The nodes at which ``net`` was cut for the export; see :func:`gluonops.export.onnx`.

    Returns
    -------
    list of Difference
        One for each output; empty if nothing is compared.

    Raises
    ------
    OpError
        An output differs by more than 1e-5 of its largest number (float16: 2e-3, float64: 1e-9), and by more than 16
        times what rounding changes: a change of the inputs and parameters by half a unit in the last place, or float64.
        The message has both numbers, and the node where the two begin to differ.
    """
    path, differences_of_all = os.fspath(path), []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExportWarning)   # the export has said it
            for differences in _compared(net, path, data_shape, epoch, outputs, inputs):
                differences_of_all += differences
    except Obstacle as obstacle:
        warnings.warn(f"{os.path.basename(path)} is not compared with MXNet: {obstacle}", ExportWarning, stacklevel=2)
    except Differs as error:
        if not force:
            raise
        warnings.warn(error.what, ExportWarning, stacklevel=2)
        differences_of_all += error.differences
    return differences_of_all


class Differs(OpError):
    """A difference that is too large. ``differences`` are those of all outputs."""

    def __init__(self, where: str, what: str, differences: Sequence[Difference] = ()):
        super().__init__(where, what, REMEDY)
        self.differences = list(differences)

    def __reduce__(self) -> tuple:
        return type(self), (self.where, self.what, self.differences)


def _compared(net, path, data_shape, epoch, outputs, inputs):
    """The differences of the outputs, and before them those of the last layers in front of outputs that jump."""
    ours = InOnnxruntime(WHERE, path) if path.endswith(".onnx") else None   # while it reads, it takes the most memory
    try:
        model = ExportedModel.of(WHERE, net, data_shape, epoch, outputs=outputs, inputs=inputs)
    except OpError as error:
        if data_shape is None and "is not known" in error.what:
            raise Obstacle(error.what) from error
        raise
    check_comparable(model.graph)
    theirs = InMXNet(model)
    if ours is None:
        written = ExportedModel.from_files(path, epoch, WHERE)
        written.inputs = {name: model.inputs[name] for name in written.graph.variables() if name in model.inputs}
        ours = InMXNet(written)
        yield _of_all_shapes(path, theirs, ours, lambda finding: where_symbols_begin(
            theirs, ours, finding.position, finding.values, differs))
        return
    lowered = passes.lower(passes.describe(passes.inference(model)), "builtin")
    layers = steady(lowered)
    if layers is not lowered:
        content = b"".join(serialized(layers, False, opset_of(layers.graph, None), {}))
        of_layers = InMXNet(model, layers.graph.outputs)   # MXNet runs the user's own graph.
        if len(of_layers.names) == len(layers.graph.outputs):
            yield _of_all_shapes(path, of_layers, InOnnxruntime(WHERE, content), lambda finding: where_onnx_begins(
                of_layers, content, finding.position, finding.values, differs), most=1)
    yield _of_all_shapes(path, theirs, ours, lambda finding: where_onnx_begins(
        theirs, path, finding.position, finding.values, differs))


def check_comparable(graph: Graph) -> None:
    """Raise an Obstacle if MXNet does not compute the same twice, or not on a CPU."""
    for node in graph.nodes():
        if is_random(node):
            raise Obstacle(f"the node {node.name!r} draws random numbers")
        if node.op != "RNN":
            continue
        attributes = attributes_of(node)
        if attributes["use_sequence_length"]:
            raise Obstacle(f"the node {node.name!r} has use_sequence_length, which MXNet ignores on a CPU")
        if attributes["projection_size"] is not None:   # it crashes on a CPU
            raise Obstacle(f"the node {node.name!r} has projection_size, which MXNet computes on a GPU only")


def _of_all_shapes(path, theirs, ours, begin, most=None):
    """The largest difference of each output, over all shapes of the inputs, or the first ones.

    Differs if one is too large.
    """
    largest, obstacle = {}, "its outputs jump where the inputs change by a rounding error"
    model, file = theirs.model, os.path.basename(path)
    variables = set(model.graph.variables())
    inputs = {name: shape for name, shape in model.inputs.items() if name in variables}
    ways = [(shapes, False) for shapes in _shapes(inputs, theirs, ours)[:most]]
    if has_jumps(model.graph):
        ways.append((max((shapes for shapes, _ in ways), key=_batch), True))   # More numbers are equal in more rows.
    for shapes, at_jumps in ways:
        def draw(drawing, shapes=shapes, at_jumps=at_jumps):
            return in_range(model, shapes, drawing, at_jumps=at_jumps)
        try:
            side = AtJumps(theirs) if at_jumps else theirs
            result = differences(file, draw, side, ours, ours.names, theirs.entries)
        except mx.MXNetError as error:
            obstacle = f"MXNet does not run the net: {last_line(error)}"
            continue
        if result.finding is not None:
            sizes = ", ".join(map(str, shapes.values()))
            raise Differs(WHERE, f"{file} does not compute what MXNet does for inputs of {sizes}: "
                          f"{result.finding}{begin(result.finding)}", result.differences)
        for difference in result.differences:
            so_far = largest.get(difference.output, difference)
            largest[difference.output] = max(difference, so_far, key=lambda one: one.relative)
    if not largest:
        raise Obstacle(obstacle)
    return list(largest.values())


def in_range(model: ExportedModel, shapes: Shapes, drawing: np.random.RandomState, **options: Any) -> Values:
    """Inputs; an Obstacle if no indices in range are found, for which MXNet would read or write elsewhere."""
    draw = drawn(model, shapes, drawing, **options)
    if draw.out_of_range is not None:
        node = draw.out_of_range
        raise Obstacle(f"no inputs could be drawn for which the node {node.name!r} ({node.op}) reads indices, lengths "
                       "or boxes in range")
    return draw.values


def _shapes(inputs: Shapes, *sides: Any) -> list[Shapes]:
    """The shapes of the inputs to compare: those that all sides take, or else the given ones."""
    tried = [with_batch(inputs, lambda _, batch=batch: batch) for batch in BATCHES]
    tried.append({name: (*shape[:2], *[side + GROWTH for side in shape[2:]]) if len(shape) == IMAGE else shape
                  for name, shape in tried[0].items()})
    tried = [shapes for i, shapes in enumerate(tried) if shapes not in tried[:i]]
    return [shapes for shapes in tried if all(side.takes(shapes) for side in sides)] or [inputs]


def _batch(shapes: Shapes) -> int:
    return next((shape[0] for shape in shapes.values() if shape), 0)


def differences(what: str, draw: Callable, theirs: Any, ours: Run, names: Sequence[str], entries: Sequence[Entry] = (),
                gradients: range = range(0), in_double: InDouble | None = None) -> Result:
    """Compare all outputs that do not jump.

    - ``what``: what was exported. ``draw``: makes inputs, from a RandomState.
    - ``theirs``: MXNet. Its ``others`` are the numbers that it computes with other rounding errors.
    - ``entries``: the outputs in the graph, which say where rows of detections are.
    - ``gradients``: the positions of what shares a scale.
    - ``in_double``: computes both sides in float64, where all that differs are gradients and outputs that jump. A
      rounding error of float32 puts some numbers on the other side of the corner of a ReLU or of a maximum, and their
      whole gradients go another way. In float64 hardly any are so near to a corner, and the gradients have to agree.
    """
    groups, drawing = groups_of_rows(list(entries)), np.random.RandomState(0)
    for _ in range(DRAWS):
        values = draw(drawing)
        look = _look(what, theirs, ours, values, groups, gradients)
        for others in theirs.others(values, drawing) if look.wrong() else ():
            look.widen(in_the_order_of(look.expected, others, groups))
            doubtful = look.wrong()
            if not doubtful:
                break
            if in_double is not None and all(position in gradients or look.jumps(position) for position in doubtful):
                exact, in_double = in_double(values), None
                if exact is not None:
                    exact = Look(exact[0], in_the_order_of(*exact, groups), gradients, LEAST["float32"])
                    return _looked_again(look, exact, gradients, names, values)
        result = _result(look, look.wrong(), names, values)
        if result.finding is None and len(result.differences) == len(names):
            break
    return result


def _look(what: str, theirs: Any, ours: Run, values: Values, groups: list[list[int]], gradients: range) -> Look:
    """What both sides compute of the same inputs."""
    expected, computed = theirs(values), ours(values)
    _check_shapes(what, expected, computed)
    return Look(expected, in_the_order_of(expected, computed, groups), gradients)


def _result(look: Look, doubtful: Sequence[int], names: Sequence[str], values: Values) -> Result:
    """What a look shows. ``doubtful`` are the positions of what differs by too much, or jumps."""
    jumping = set(filter(look.jumps, doubtful))
    wrong = [position for position in doubtful if position not in jumping]
    differences = [Difference(name, *look.difference(position), look.allowed(position))
                   for position, name in enumerate(names)]
    finding = _finding(look, wrong[0], differences[wrong[0]], values) if wrong else None
    kept = [position for position in range(len(names)) if position not in jumping]
    allowed = {position: (look.expected[position], look.allowed(position) * look.scales[position]) for position in kept}
    return Result([differences[position] for position in kept], finding, [names[position] for position in wrong],
                  values, allowed)


def _looked_again(look: Look, exact: Look, gradients: range, names: Sequence[str], values: Values) -> Result:
    """What a look in float64 shows of what differs in float32. For the rest the first look counts.

    Gradients have to agree. An output that jumps in float32 is left out if it jumps in float64 as well.
    """
    again = look.wrong()
    differing = set(again).intersection(exact.wrong())
    wrong = [position for position in again if position in differing and position in gradients]
    first, second = _result(look, [], names, values), _result(exact, [], names, values)
    differences = {position: (second if position in again else first).differences[position]
                   for position in range(len(names)) if position not in differing or position in gradients}
    finding = _finding(exact, wrong[0], differences[wrong[0]], values) if wrong else None
    return Result(list(differences.values()), finding, [names[position] for position in wrong], values,
                  {position: pair for position, pair in first.expected.items() if position not in again})


def _check_shapes(what: str, expected: Arrays, computed: Arrays) -> None:
    shapes, right = ([value.shape for value in values] for values in (computed, expected))
    if shapes != right:
        raise Differs(WHERE, f"{what} has outputs of the shapes {shapes}; MXNet's have {right}")


def _finding(look: Look, position: int, difference: Difference, values: Values) -> Finding:
    expected, computed = look.expected[position], look.computed[position]
    apart = distances(expected, computed)
    place = tuple(map(int, np.unravel_index(apart.argmax(), apart.shape)))
    return Finding(position, difference, place, float(expected[place]), float(computed[place]), values)
