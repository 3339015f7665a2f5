"""The programs that run a net for :mod:`gluonops.export.compare`: MXNet and onnxruntime."""
from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator

import mxnet as mx
import numpy as np

from ..contract.errors import OpError
from . import passes
from .cut import HeadError
from .draws import Values
from .graph import VARIABLE, Entry, Graph, Node
from .model import ExportedModel
from .onnx.session import session
from .operators import having
from .sizes import Shapes, fits, known_shapes, last_line

NO_PACKAGE = ("ImportError", "ModuleNotFoundError", "NotImplemented")   # onnxruntime raises the last one


# MXNet orders equal numbers in any way, where a row has more than 16. So do suppressions with boxes of one score.
TIED = having("orders", "ranks_rows")
ONNX_TYPES = {"float": "float32", "double": "float64"}   # ONNX's names of types that NumPy calls otherwise
RANKS = having("ranks")
TIE = 1e-6   # Equal numbers become numbers that differ by so much.
NUDGES = 4   # Parameters are changed so often at whole numbers and halves, where nothing else is rounded.


class Obstacle(Exception):
    """Why outputs are not compared."""


def nudged(array: np.ndarray, drawing: np.random.RandomState) -> np.ndarray:
    """The array, changed by half a unit in the last place: half of its numbers move to a neighbour, above or below.

    Whole numbers stay: they may be indices, labels or zeros. Halves stay, at which operators may jump.
    """
    if array.dtype.kind != "f":
        return array
    towards = np.where(drawing.randint(0, 2, array.shape), np.inf, -np.inf).astype(array.dtype)
    is_moved = drawing.randint(0, 2, array.shape).astype(bool) & (2 * array % 1 != 0)
    return np.where(is_moved, np.nextafter(array, towards), array)


def without_ties(model: ExportedModel, shapes: Shapes, drawing: np.random.RandomState,
                 operators: Collection[str] = RANKS) -> ExportedModel | None:
    """The model, in which operators that rank numbers do not get equal ones; None if it has no such operator.

    Numbers that are equal but for rounding have another order in every program.
    """
    if not any(node.op in operators for node in model.graph.nodes()):
        return None
    model = model.copy()
    sizes = known_shapes(model.graph, model.shapes(shapes))
    dtype = model.metadata.get("dtype", "float32")
    for node in model.graph.nodes():
        if node.op in operators and node.inputs[0] in sizes:
            noise = Node(VARIABLE, f"{node.name}__noise")
            numbers = drawing.uniform(-TIE, TIE, sizes[node.inputs[0]])
            model.parameters[noise.name] = mx.nd.array(numbers, dtype=dtype)
            node.inputs[0] = Node("elemwise_add", f"{node.name}__untied", {}, [node.inputs[0], (noise, 0)]), 0
    return model


class InMXNet:
    """The net of a user, run by MXNet as it is. Labels that nobody has given are zeros.

    - ``model``: canonical.
    - ``entries``: what it returns; by default its outputs that are no losses.
    - ``names``: what MXNet calls these.
    """

    def __init__(self, model: ExportedModel, entries: list[Entry] | None = None):
        if None in _label_shapes(model, model.inputs).values():
            try:
                model = passes.inference(model)
            except HeadError as error:
                raise Obstacle(error.what) from error
        self.model, self._asked = model, entries
        model = ExportedModel(Graph(model.graph.outputs, model.graph.attrs), model.parameters, model.inputs,
                              model.metadata)
        if entries is not None:
            model.graph.outputs = _in_copy(model.graph, entries)
        elif kept := passes.predictions(model):
            model.graph.outputs = [model.graph.outputs[position] for position in kept]
        self.entries = model.graph.outputs
        lowered = passes.lower(model, "auto").graph
        symbol, self._mode = lowered.symbol(), lowered.mode
        self.names = symbol.list_outputs()
        self._inputs = symbol.list_inputs()
        self._values = {name: model.parameters[name] for name in self._inputs if name in model.parameters}
        for name, value in self._values.items():
            if value.dtype == np.int8:   # A Module loads them so.
                self._values[name] = value.astype("float32")
        # A CachedOp makes gradients, which not all operators have.
        self._run = mx.nd.CachedOp(mx.sym.Group([mx.sym.BlockGrad(output) for output in symbol]))

    def inside(self, entries: list[Entry]) -> InMXNet:
        """The same net, which returns other entries."""
        return InMXNet(self.model, entries)

    def others(self, values: Values, drawing: np.random.RandomState) -> Iterator[list[np.ndarray]]:
        """The outputs with other rounding errors: of nudged inputs and parameters, and then in float64."""
        yield self(values, drawing)
        yield from self.untied(values, drawing)
        with contextlib.suppress(mx.MXNetError, OpError):   # some operators have no float64
            yield InMXNet(self.model.in_type("float64"), self._asked)(values)

    def untied(self, values: Values, drawing: np.random.RandomState,
               operators: Collection[str] = RANKS) -> Iterator[list[np.ndarray]]:
        """The outputs without ties in what operators rank; nothing if the net has none of them."""
        shapes = {name: value.shape for name, value in values.items()}
        if model := without_ties(self.model, shapes, drawing, operators):
            yield InMXNet(model, self._asked)(values)

    def takes(self, shapes: Shapes) -> bool:
        label_shapes = {name: shape for name, shape in _label_shapes(self.model, shapes).items() if shape}
        return fits(self.model.graph, {**label_shapes, **self.model.shapes(shapes)})

    def __call__(self, values: Values, drawing: np.random.RandomState | None = None) -> list[np.ndarray]:
        """The outputs. ``drawing``: nudges the inputs and the parameters."""
        dtype = self.model.metadata.get("dtype", "float32")
        shapes = {name: value.shape for name, value in values.items()}
        arrays = dict(self._values)
        if drawing is not None:
            values = {name: nudged(value, drawing) for name, value in values.items()}
            arrays = {name: mx.nd.array(nudged(value.asnumpy(), drawing), dtype=value.dtype)
                      for name, value in arrays.items()}
        arrays.update((name, mx.nd.zeros(shape, dtype=dtype))
                      for name, shape in _label_shapes(self.model, shapes).items())
        arrays.update((name, mx.nd.array(value, dtype=dtype)) for name, value in values.items())
        with self._mode():
            results = self._run(*[arrays[name] for name in self._inputs])
        return [result.asnumpy() for result in (results if isinstance(results, list) else [results])]


class AtJumps:
    """MXNet at whole numbers and halves, which have no rounding errors: only those of the parameters may be others."""

    def __init__(self, theirs: InMXNet):
        self._theirs = theirs
        self.model, self.entries, self.names, self.inside = theirs.model, theirs.entries, theirs.names, theirs.inside

    def __call__(self, values: Values) -> list[np.ndarray]:
        return self._theirs(values)

    def others(self, values: Values, drawing: np.random.RandomState) -> Iterator[list[np.ndarray]]:
        for _ in range(NUDGES):
            yield self._theirs(values, drawing)
        yield from self._theirs.untied(values, drawing, TIED)


def _in_copy(graph: Graph, entries: list[Entry]) -> list[Entry]:
    """The entries in another copy of their graph."""
    nodes = {(node.is_variable, node.name): node for node in graph.nodes()}
    keys = [((node.is_variable, node.name), index) for node, index in entries]
    return [(nodes[key], index) for key, index in keys if key in nodes]


def _label_shapes(model: ExportedModel, shapes: Shapes) -> dict[str, tuple[int, ...] | None]:
    """The shapes of the labels that nobody has given; None for one that does not follow from the inputs."""
    shape_of = model.shapes(shapes)
    targets = model.labels()
    names = [name for name in model.graph.variables() if name in targets and name not in shape_of]
    inferred = known_shapes(model.graph, shape_of) if names else {}
    by_name = {node.name: shape for (node, _), shape in inferred.items() if node.is_variable}
    return {name: by_name.get(name) for name in names}


class InOnnxruntime:
    """An ONNX file, or the content of one, run by onnxruntime."""

    def __init__(self, where: str, source: str | bytes):
        self._where, self._path = where, source if isinstance(source, str) else "a part of the file"
        try:
            self._session = session(source, where)
        except OpError as error:
            if type(error.__cause__).__name__ in NO_PACKAGE:
                raise Obstacle(error.what) from error
            raise
        self._inputs = {one.name: one.shape for one in self._session.get_inputs()}
        names = {one.name: one.type[len("tensor("):-1] for one in self._session.get_inputs()}
        self._types = {name: ONNX_TYPES.get(kind, kind) for name, kind in names.items()}
        self.names = [one.name for one in self._session.get_outputs()]

    def takes(self, shapes: Shapes) -> bool:
        return all(not isinstance(size, int) or size == passed for name, sizes in self._inputs.items()
                   for size, passed in zip(sizes, shapes[name]))

    def __call__(self, values: Values) -> list[np.ndarray]:
        values = {name: values[name].astype(self._types[name]) for name in self._inputs}
        try:
            return self._session.run(None, values)
        except Exception as error:   # onnxruntime raises several classes
            raise OpError(self._where, f"onnxruntime fails to run {self._path}: {last_line(error)}",
                          "Report it with the net; nothing was written") from error
