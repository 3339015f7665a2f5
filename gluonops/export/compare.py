"""Runs exported files, and the net that they come from, on the same inputs, and compares the outputs."""
from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import mxnet as mx
import numpy as np

from ..core.errors import OpError
from . import passes
from .constants import is_random
from .cut import HeadError
from .jumps import halves, has_jumps
from .model import ExportedModel
from .onnx.model import opset_of
from .onnx.write import serialized
from .quantization.layers import steady
from .quantization.running import Runner
from .running.onnx_net import session
from .sizes import DataShape, Shapes, fits, known_shapes, last_line
from .warning import ExportWarning

WHERE = "export.compare"
# The largest difference by the type of an output, of its largest number. Other types are equal.
TOLERANCES = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-9}
BATCHES = (1, 3)
GROWTH = 32   # pixels that other images are higher and wider by
DRAWS = 5     # Inputs are drawn so often, until the outputs agree.
NUDGES = 3    # An input is changed so often, to see whether outputs jump.
UNITS = 10    # A nudge goes so many units in the last place.
LENGTHS = (1, 3)
IMAGE = 4     # dimensions
WITH_LENGTHS = ("SequenceLast", "SequenceMask", "SequenceReverse", "softmax")
Values = dict[str, np.ndarray]


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
    """

    output: str
    absolute: float
    relative: float

    def __str__(self) -> str:
        return f"{self.output}: differs by at most {self.absolute:.2g}, {self.relative:.2g} of the largest number"


def compare(net: mx.gluon.HybridBlock | str | os.PathLike, path: str | os.PathLike,
            data_shape: DataShape | None = None, epoch: int | None = None,
            outputs: Iterable[str] = ()) -> list[Difference]:
    """Run exported files and the net that they come from on the same inputs, and compare the outputs.

    The inputs are random numbers: one image, three, and larger ones, as far as both sides take them. A net with
    operators that jump, such as a remainder or an argmax, is also compared at whole numbers and halves, where many
    numbers are equal. Losses are not compared. An ExportWarning says why nothing is compared: onnxruntime is not
    installed, the shape of an input is not known, MXNet itself does not run the net, or the net draws random numbers.
    Outputs that jump, such as those of non-maximum suppression, are compared where MXNet's own do not jump if the
    inputs change by a rounding error. In front of them the outputs of the last layers are compared as well.

    Parameters
    ----------
    net, data_shape
        As in :func:`gluonops.export.onnx`.
    path : str or os.PathLike
        An ``.onnx`` file, or the path, without ``-symbol.json``, of symbol JSON and parameters.
    epoch : int, optional
        Number of the parameter file of ``net``, and of ``path``. The default is the highest number.
    outputs : iterable of str, optional
        The nodes at which ``net`` was cut for the export; see :func:`gluonops.export.onnx`.

    Returns
    -------
    list of Difference
        One for each output; empty if nothing is compared.

    Raises
    ------
    OpError
        An output differs by more than 1e-4 of its largest number, for float32; 2e-2 for float16; 1e-9 for float64.
    """
    path, found = os.fspath(path), []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExportWarning)   # the export has said it
            for differences in _compared(net, path, data_shape, epoch, outputs):
                found += differences
    except _Obstacle as obstacle:
        warnings.warn(f"{os.path.basename(path)} is not compared with MXNet: {obstacle}", ExportWarning, stacklevel=2)
    return found


class _Obstacle(Exception):
    """Why outputs are not compared."""


def _compared(net, path, data_shape, epoch, outputs):
    """The differences of the outputs, and before them those of the last layers in front of outputs that jump."""
    ours = _InOnnxruntime(path) if path.endswith(".onnx") else None   # while it reads, it takes the most memory
    try:
        model = ExportedModel.of(WHERE, net, data_shape, epoch, outputs=outputs)
    except OpError as error:
        if data_shape is None and "is not known" in error.what:
            raise _Obstacle(error.what) from error
        raise
    drawing = [node for node in model.graph.nodes() if is_random(node)]
    if drawing:
        raise _Obstacle(f"the node {drawing[0].name!r} draws random numbers")
    projecting = [node for node in model.graph.nodes() if node.attrs.get("projection_size", "None") != "None"]
    if projecting:   # it crashes on a CPU
        raise _Obstacle(f"the node {projecting[0].name!r} has projection_size, which MXNet computes on a GPU only")
    theirs = _InMXNet(model)
    if ours is None:
        written = ExportedModel.from_files(path, epoch, WHERE)
        written.inputs = {name: model.inputs[name] for name in written.graph.variables() if name in model.inputs}
        yield _differences(model, theirs, _InMXNet(written), path)
        return
    lowered = passes.lower(passes.describe(passes.inference(model)), "builtin")
    layers = steady(lowered)
    if layers is not lowered:
        content = b"".join(serialized(layers, False, opset_of(layers.graph, None), {}))
        yield _differences(layers, _InMXNet(layers), _InOnnxruntime(content), path)
    yield _differences(model, theirs, ours, path)


class _InMXNet:
    """A model run by MXNet. Labels are zeros."""

    def __init__(self, model: ExportedModel):
        shapes = {name: shape for name, shape in model.inputs.items() if name not in model.labels()}
        if None in _labels(model, shapes).values():
            try:
                model = passes.inference(model)
            except HeadError as error:
                raise _Obstacle(error.what) from error
        kept = passes.predictions(model)
        model = passes.lower(model, "auto")
        if kept:
            model.graph.outputs = [model.graph.outputs[position] for position in kept]
        symbol = model.graph.symbol()
        self._model, self._symbol, self._runner = model, symbol, Runner(symbol, model.parameters)
        self.names = symbol.list_outputs()

    def rounded(self, drawing: np.random.RandomState) -> _InMXNet:
        """The same net with parameters that are changed by rounding errors."""
        other = copy.copy(self)
        other._runner = Runner(self._symbol, {name: mx.nd.array(_nudged(value.asnumpy(), drawing), dtype=value.dtype)
                                              for name, value in self._model.parameters.items()})
        return other

    def takes(self, shapes: Shapes) -> bool:
        labels = {name: shape for name, shape in _labels(self._model, shapes).items() if shape}
        return fits(self._model.graph, {**labels, **self._model.shapes(shapes)})

    def __call__(self, values: Values) -> list[np.ndarray]:
        dtype = self._model.metadata.get("dtype", "float32")
        shapes = {name: value.shape for name, value in values.items()}
        batch = {name: mx.nd.zeros(shape, dtype=dtype) for name, shape in _labels(self._model, shapes).items()}
        batch.update((name, mx.nd.array(value, dtype=dtype)) for name, value in values.items())
        return self._runner(batch)


def _labels(model: ExportedModel, shapes: Shapes) -> dict[str, tuple[int, ...] | None]:
    """The shapes of the labels that nobody has given; None for one that does not follow from the inputs."""
    known = model.shapes(shapes)
    names = model.labels() - known.keys()
    labels = [node for node in model.graph.nodes() if node.is_variable and node.name in names]
    found = known_shapes(model.graph, known) if labels else {}
    return {label.name: found.get((label, 0)) for label in labels}


class _InOnnxruntime:
    """An ONNX file, or the content of one, run by onnxruntime."""

    def __init__(self, source: str | bytes):
        self._path = source if isinstance(source, str) else "the part of the file in front of its outputs"
        try:
            self._session = session(source, WHERE)
        except OpError as error:
            if type(error.__cause__).__name__ in ("ImportError", "ModuleNotFoundError", "NotImplemented"):
                raise _Obstacle(error.what) from error
            raise
        self._inputs = {one.name: one.shape for one in self._session.get_inputs()}
        self.names = [one.name for one in self._session.get_outputs()]

    def takes(self, shapes: Shapes) -> bool:
        return all(not isinstance(size, int) or size == given for name, sizes in self._inputs.items()
                   for size, given in zip(sizes, shapes[name]))

    def __call__(self, values: Values) -> list[np.ndarray]:
        try:
            return self._session.run(None, {name: values[name] for name in self._inputs})
        except Exception as error:   # onnxruntime raises several classes
            raise OpError(WHERE, f"onnxruntime fails to run {self._path}: {last_line(error)}",
                          "Report it with the net; nothing was written") from error


def _differences(model, theirs, ours, path):
    """The largest difference of each output, over all shapes of the inputs. An OpError if one is too large."""
    largest, obstacle = {}, "its outputs jump where the inputs change by a rounding error"
    for shapes in _shapes(model.inputs, theirs, ours):
        try:
            found = _of_shapes(model, shapes, theirs, ours, path)
            if has_jumps(model.graph):
                _check_jumps(model, shapes, theirs, ours, path)
        except mx.MXNetError as error:
            obstacle = f"MXNet does not run the net: {last_line(error)}"
            continue
        for difference in found:
            known = largest.get(difference.output, difference)
            largest[difference.output] = max(difference, known, key=lambda one: one.relative)
    if not largest:
        raise _Obstacle(obstacle)
    return list(largest.values())


def _shapes(inputs: Shapes, *sides: Any) -> list[Shapes]:
    """The shapes of the inputs to compare: those that all sides take, or else the given ones."""
    tried = [{name: (batch, *shape[1:]) for name, shape in inputs.items()} for batch in BATCHES]
    tried.append({name: (*shape[:2], *[side + GROWTH for side in shape[2:]]) if len(shape) == IMAGE else shape
                  for name, shape in tried[0].items()})
    tried = [shapes for i, shapes in enumerate(tried) if shapes not in tried[:i]]
    return [shapes for shapes in tried if all(side.takes(shapes) for side in sides)] or [inputs]


def _of_shapes(model, shapes, theirs, ours, path):
    """The difference of each output; none if MXNet's own jump. An OpError if one that does not jump is too large."""
    drawing, refusal = np.random.RandomState(0), None
    for _ in range(DRAWS):
        values = _examples(model, shapes, drawing)
        expected, found = theirs(values), ours(values)
        if [value.shape for value in found] != [value.shape for value in expected]:
            raise OpError(WHERE, f"{os.path.basename(path)} has outputs of the shapes "
                          f"{[value.shape for value in found]}; MXNet's have {[value.shape for value in expected]}",
                          "Report it with the net; nothing was written")
        differences = [Difference(name, *_difference(*pair)) for name, pair in zip(ours.names, zip(expected, found))]
        wrong = _wrong(differences, expected)
        if wrong is None:
            return differences
        if _is_steady(theirs, values, expected, drawing):
            refusal = _refusal(path, shapes, wrong)
    if refusal is not None:
        raise refusal
    return []


def _refusal(path, shapes, wrong):
    """The OpError for a difference that is too large."""
    difference, most = wrong
    return OpError(WHERE, f"{os.path.basename(path)} does not compute what MXNet does for inputs of "
                   f"{', '.join(map(str, shapes.values()))}: {difference}; expected at most {most:g} of it",
                   "Report it with the net; nothing was written")


def _check_jumps(model, shapes, theirs, ours, path):
    """Raise an OpError if an output differs at whole numbers and halves, and rounding is not the reason.

    The inputs have no rounding errors. What the parameters make of them may have some, and jump.
    """
    drawing = np.random.RandomState(0)
    values = _examples(model, shapes, drawing, at_jumps=True)
    expected = theirs(values)

    def wrong_of(outputs, names):
        return _wrong([Difference(name, *_difference(*pair)) for name, pair in zip(names, zip(expected, outputs))],
                      expected)

    wrong = wrong_of(ours(values), ours.names)
    if wrong and not any(wrong_of(theirs.rounded(drawing)(values), theirs.names) for _ in range(NUDGES)):
        raise _refusal(path, shapes, wrong)


def _wrong(differences, expected):
    """The first difference that is too large, and the largest one that is not; None if there is none."""
    for difference, value in zip(differences, expected):
        most = TOLERANCES.get(value.dtype.name, 0)
        if not difference.relative <= most:
            return difference, most
    return None


def _difference(expected, found):
    """The largest difference, and the same divided by the largest number. Infinities and NaN have to be the same."""
    expected, found = (np.asarray(value, np.float64) for value in (expected, found))
    finite = np.isfinite(expected)
    if not np.array_equal(expected[~finite], found[~finite], equal_nan=True):
        return np.inf, np.inf
    absolute = float(np.abs(found[finite] - expected[finite]).max(initial=0))
    largest = float(np.abs(expected[finite]).max(initial=0))
    if not absolute:
        return 0.0, 0.0
    return absolute, absolute / largest if largest else np.inf


def _is_steady(net, values, expected, drawing):
    """Whether MXNet's own outputs stay the same where the inputs change by rounding errors."""
    for _ in range(NUDGES):
        outputs = net({name: _nudged(value, drawing) for name, value in values.items()})
        if _wrong([Difference("", *_difference(*pair)) for pair in zip(expected, outputs)], expected):
            return False
    return True


def _nudged(value, drawing):
    if value.dtype.kind != "f":
        return value
    nudge = UNITS * np.finfo(value.dtype).eps * drawing.uniform(-1, 1, value.shape)
    return (value * (1 + nudge * (value % 1 != 0))).astype(value.dtype)   # an index stays one


def _examples(model, shapes, drawing, at_jumps=False):
    """Numbers of 8 bits for each input; indices that an embedding reads, and the lengths of sequences.

    ``at_jumps``: draw whole numbers and halves in place of numbers of 8 bits.
    """
    dtype, limits = np.dtype(model.metadata["dtype"]), {}
    for node in model.graph.nodes():
        if node.op == "Embedding":
            limits[node.source().name] = 0, int(node.attrs["input_dim"])
        elif node.op in WITH_LENGTHS and len(node.inputs) > 1:
            limits[node.source(1).name] = LENGTHS
    values = {}
    for name, shape in shapes.items():
        if name in model.labels():
            continue
        is_whole = name in limits or dtype.kind != "f"
        numbers = drawing.randint(*limits.get(name, (0, 128) if is_whole else (-128, 128)), shape)
        values[name] = (numbers if is_whole else numbers / 64).astype(dtype)
        if at_jumps and not is_whole:
            values[name] = halves(drawing, shape, dtype)
    return values
