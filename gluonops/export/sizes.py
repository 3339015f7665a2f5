"""Shapes and types of a graph's inputs, and of every output, with the batch size left open.

Shapes are inferred for fixed sizes only. So they are inferred at several batch sizes and compared: a size that changes
must be a linear function of the batch size.
"""
from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, Union

import numpy as np

from ..core.errors import OpError
from ..runtime import importing
from . import rules
from .graph import Entry, Graph, Node
from .values import NodeValues

if importing.is_imported():
    import mxnet as mx

Arrays = dict[str, "mx.nd.NDArray"]   # NumPy's where MXNet is not installed
Shapes = dict[str, tuple[int, ...]]
DataShape = Union[tuple, dict]   # the only input's shape, or every input's by name
BATCHES = (2, 3, 7)   # two give a line; the third shows whether it is one


@dataclasses.dataclass(frozen=True)
class Batch:
    """A size that depends on the batch size: ``factor * batch + offset``."""
    factor: int = 1
    offset: int = 0

    def __mul__(self, factor: int) -> Batch:
        return Batch(self.factor * factor, self.offset * factor)

    def __str__(self) -> str:
        text = "batch" if self.factor == 1 else f"{self.factor}*batch"
        return f"{text}+{self.offset}" if self.offset else text


Size = Union[int, Batch]


def type_name(where: str, dtype: str | type | np.dtype) -> str:
    """NumPy's name of a type. An OpError if there is no such type."""
    try:
        return np.dtype(dtype).name
    except TypeError as error:
        raise OpError(where, f"dtype is {dtype!r}; expected a type such as 'float32'", "Use NumPy's names") from error


def input_shapes(where: str, data_shape: DataShape) -> dict[str, tuple[int, ...]]:
    """The shape of every input by name; a single shape is that of ``data``. An OpError for anything else."""
    shapes = data_shape if isinstance(data_shape, dict) else {"data": data_shape}
    for name, shape in shapes.items():
        is_sequence = isinstance(shape, (tuple, list)) and len(shape) > 0
        if not is_sequence or not all(isinstance(size, int) and size > 0 for size in shape):
            raise OpError(where, f"the shape of {name} is {shape!r}; expected a tuple of sizes of at least 1, batch "
                          "included", "Pass for instance (1, 3, 224, 224), or for several inputs a dict such as "
                          "{'left': (1, 3, 32, 32), 'right': (1, 9)}")
    return {name: tuple(shape) for name, shape in shapes.items()}


def mismatch_reason(graph: Graph, shapes: dict) -> str | None:
    """Why variables cannot have these shapes; None if they can."""
    try:
        found = _Outputs(graph).partial(rules.infer_shapes, "infer_shape_partial", shapes)
    except rules.Misfit as misfit:
        return str(misfit)
    for (node, _), shape in found.items():   # MXNet silently overwrites shapes of a batch norm's parameters
        if node.is_variable and node.name in shapes and tuple(shape) != shapes[node.name]:
            return f"{node.name} is {shapes[node.name]}; expected {tuple(shape)}"
    return None


def type_mismatch(graph: Graph, dtypes: dict) -> str | None:
    """Why variables cannot have these types; None if they can."""
    try:
        _Outputs(graph).partial(rules.infer_types, "infer_type_partial", dtypes)
    except rules.Misfit as misfit:
        return str(misfit)
    return None


def refused(where: str, shapes: Shapes, reason: str | Exception) -> OpError:
    """The OpError for shapes of inputs that a graph does not take."""
    given = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "its parameters"
    return OpError(where, f"the net refuses the shape of {given}: {reason}",
                   "Pass a shape that it takes, the batch size first, in data_shape, or --data-shape")


def last_line(error: Exception) -> str:
    """The message of MXNet's error without its C++ traceback."""
    return str(error).strip().splitlines()[-1]


class Sizes:
    """Shapes and types of every output of a graph's nodes.

    ``shapes`` and ``dtype`` are those of the inputs. With ``dynamic_batch`` the first sizes are left open. An
    OpError if the graph refuses the shapes, or does not take any batch size.
    """

    def __init__(self, graph: Graph, shapes: Shapes, values: Arrays, dtype: str, dynamic_batch: bool,
                 where: str = "export.onnx"):
        outputs = _Outputs(graph)
        known = {name: value.shape for name, value in values.items()}
        types = {name: value.dtype for name, value in values.items()}
        types.update(dict.fromkeys(shapes, np.dtype(dtype)))
        try:
            self.shape = outputs.infer_shape({**known, **shapes})
            if dynamic_batch:
                self.shape = _with_open_batch(outputs, known, shapes)
            self.dtype = outputs.infer_type(types, self.shape)
        except rules.Misfit as misfit:
            raise refused(where, shapes, misfit) from misfit


def fits(graph: Graph, shapes: Shapes) -> bool:
    """Whether a graph takes inputs and parameters of these shapes."""
    try:
        _Outputs(graph).infer_shape(shapes)
    except rules.Misfit:
        return False
    return True


def known_shapes(graph: Graph, shapes: Shapes) -> dict[Entry, tuple[int, ...]]:
    """The shapes of variables and other outputs, as far as they follow; none if the graph does not take the shapes.

    ``shapes``: those of variables, also of other ones than the graph's.
    """
    shapes, found = _of_variables(graph, shapes), {}
    with contextlib.suppress(rules.Misfit):
        found = _known(rules.infer_shapes(graph, shapes))
    wanted = [*graph.heads, *((node, 0) for node in graph.nodes() if node.is_variable)]
    if importing.is_imported() and not found.keys() >= set(wanted):
        with contextlib.suppress(rules.Misfit):
            found = _known(_Outputs(graph).by_mxnet("infer_shape_partial", shapes))
    return found


def known_types(graph: Graph, types: dict[str, np.dtype]) -> dict[Entry, np.dtype]:
    """The types of outputs, as far as they follow; none if the graph does not take the types. See above."""
    with contextlib.suppress(rules.Misfit):
        return _Outputs(graph).infer_type(_of_variables(graph, types))
    return {}


def _of_variables(graph: Graph, known: dict) -> dict:
    """What is known of a graph's own variables: MXNet refuses other names."""
    names = set(graph.variables())
    return {name: value for name, value in known.items() if name in names}


def _known(shapes: dict) -> dict[Entry, tuple[int, ...]]:
    return {entry: tuple(shape) for entry, shape in shapes.items() if shape and 0 not in shape}


def _complete(shapes: dict, complaint: str) -> dict[Entry, tuple[int, ...]]:
    """The shapes. A Misfit if one is not known."""
    for (node, _), shape in shapes.items():
        if not shape or 0 in shape:
            raise rules.Misfit(complaint.format(node.name))
    return shapes


class _Outputs:
    """Every output of a graph, to infer all shapes and types at once: by the rules if they do, else by MXNet.

    MXNet tells the outputs apart by the names of their nodes. So its symbol is made from a copy of the graph in which
    each operator has a unique name, ``#<position>``. A Misfit if the shapes or types do not fit.
    """

    def __init__(self, graph: Graph):
        self._graph = graph
        self._nodes = graph.nodes()

    def infer_shape(self, shapes: dict) -> dict[Entry, tuple[int, ...]]:
        """The shape of every output, from the shapes of all variables. A Misfit if one does not follow from them."""
        try:
            return _complete(rules.infer_shapes(self._graph, shapes), "that of {!r} does not follow")
        except rules.Misfit:
            if not importing.is_imported():
                raise
        found = _complete(self.by_mxnet("infer_shape_partial", shapes), "MXNet cannot tell that of {!r}")
        for node in self._nodes:   # MXNet does not compare these, and reads what is behind the data
            shape, first = found[node, 0], found[node.inputs[0]] if node.inputs else ()
            if node.op == "Reshape" and math.prod(shape) != math.prod(first):
                raise rules.Misfit(f"{node.name!r} makes {shape} of {first}")
            if node.op == "where" and first not in (shape, shape[:1]):
                raise rules.Misfit(f"{node.name!r} makes {shape} where a condition of {first} holds")
        return found

    def infer_type(self, types: dict, entries: Iterable[Entry] = ()) -> dict[Entry, np.dtype]:
        """The types of outputs, from the types of all variables, as far as MXNet can tell them."""
        try:
            return rules.infer_types(self._graph, types, entries)
        except rules.Misfit:
            if not importing.is_imported():
                raise
        found = self.by_mxnet("infer_type_partial", types)
        return {entry: np.dtype(dtype) for entry, dtype in found.items() if dtype is not None}

    def partial(self, rule: Callable, method: str, known: dict) -> dict[Entry, Any]:
        """What follows of the shapes or types: by MXNet, or by the rules where that is not installed."""
        return self.by_mxnet(method, known) if importing.is_imported() else rule(self._graph, known)

    def by_mxnet(self, method: str, known: dict) -> dict[Entry, Any]:
        """The shapes or types of every output, as far as a method of a Symbol, which prints nothing, can tell them."""
        try:
            _, inferred, _ = getattr(self._symbol, method)(**known)
        except OpError:
            raise
        except Exception as error:   # MXNetError; and Exception itself, for a tensor of 2^31 elements and more
            names = re.sub(r"#(\d+)", lambda match: self._nodes[int(match.group(1))].name, last_line(error))
            raise rules.Misfit(names) from error
        return dict(zip(self._entries, inferred))

    @functools.cached_property
    def _symbol(self) -> mx.sym.Symbol:
        graph = self._graph.copy()
        for number, node in enumerate(graph.nodes()):
            if not node.is_variable:
                node.name = f"#{number}"
        return graph.symbol().get_internals()

    @functools.cached_property
    def _entries(self) -> list[Entry]:
        """The outputs in the symbol's order: ``#3_output``, or ``#3_output0`` and the next ones of several."""
        nodes = {node.name if node.is_variable else f"#{number}": node for number, node in enumerate(self._nodes)}
        entries = []
        for output in self._symbol.list_outputs():
            node = nodes.get(output) or nodes[output.split("_")[0]]
            is_next = bool(entries) and entries[-1][0] is node
            entries.append((node, entries[-1][1] + 1 if is_next else 0))
        return entries


def _with_open_batch(outputs: _Outputs, known: Shapes, shapes: Shapes) -> dict[Entry, tuple[Size, ...]]:
    """The shape of every output as a function of the batch size, the first size of every input."""
    inputs = [{name: (batch, *shape[1:]) for name, shape in shapes.items()} for batch in BATCHES]
    try:
        inferred = [outputs.infer_shape({**known, **of_batch}) for of_batch in inputs]
    except rules.Misfit as misfit:
        raise _depends_on_batch(misfit) from misfit
    found = {}
    for entry in inferred[0]:
        tried = [shapes_of[entry] for shapes_of in inferred]
        if len({len(shape) for shape in tried}) > 1:
            raise _depends_on_batch(f"the dimensions of {entry[0].name!r} depend on it")
        found[entry] = tuple(_size(entry[0], sizes) for sizes in zip(*tried))
    return found


def _size(node: Node, tried: tuple[int, ...]) -> Size:
    """One size from its values at ``BATCHES``."""
    first, second, third = tried
    if first == second == third:
        return int(first)
    factor, rest = divmod(second - first, BATCHES[1] - BATCHES[0])
    offset = first - factor * BATCHES[0]
    if rest or factor < 0 or factor * BATCHES[2] + offset != third:
        raise _depends_on_batch(f"a size of {node.name!r} is {', '.join(map(str, tried))} for "
                                f"{', '.join(map(str, BATCHES))} images")
    return Batch(int(factor), int(offset))


def _depends_on_batch(reason: str | Exception) -> OpError:
    return OpError("export.onnx", f"the net does not take any batch size: {reason}",
                   "Export it for the batch in data_shape: dynamic_batch=False, or --fixed-batch")


class SizedNode(NodeValues):
    """A node with the shapes and types of its inputs and of its first output."""

    def __init__(self, node: Node, sizes: Sizes):
        super().__init__(node, [sizes.shape[entry] for entry in node.inputs])
        self.dtypes = [sizes.dtype[entry] for entry in node.inputs]
        self._sizes = sizes

    @property
    def shape(self) -> tuple[Size, ...]:
        """Shape of the first output."""
        return self._sizes.shape[self.node, 0]

    @property
    def dtype(self) -> np.dtype:
        """Type of the first output."""
        return self._sizes.dtype[self.node, 0]

    def windows(self) -> list[tuple[int, ...]]:
        """Of a pooling along each axis: size of the window, stride, padding, size of the data, size of the output."""
        return list(zip(*self.window()[:3], self.shapes[0][2:], self.shape[2:]))
