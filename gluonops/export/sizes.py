"""Shapes and types of a graph's inputs, and of every output, with the batch size left open.

MXNet infers shapes for fixed sizes only. The shape rules also run on free ones: see :mod:`gluonops.export.symbolic`.
"""
from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Union

import numpy as np

from ..contract.errors import OpError
from ..runtime import importing
from . import rules
from .graph import Entry, Graph, Node
from .operators import traits_of
from .operators.attributes import attributes_of
from .symbolic import Size, Undecided, free, written
from .values import NodeValues

if importing.is_imported():
    import mxnet as mx

Arrays = dict[str, "mx.nd.NDArray"]   # NumPy's where MXNet is not installed
Shapes = dict[str, tuple[int, ...]]
DataShape = Union[tuple, dict]   # the only input's shape, or every input's by name
MOST_WAYS = 16   # of putting the batch into axes of the inputs, which are tried


def type_name(where: str, dtype: str | type | np.dtype) -> str:
    """NumPy's name of a type. An OpError is raised if there is no such type."""
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
        inferred = _partial(rules.infer_shapes, "infer_shape_partial", graph, shapes)
    except rules.Misfit as misfit:
        return str(misfit)
    for (node, _), shape in inferred.items():   # MXNet silently overwrites shapes of a batch norm's parameters
        if node.is_variable and node.name in shapes and not _agree(tuple(shape), shapes[node.name]):
            return f"{node.name} is {shapes[node.name]}; expected {tuple(shape)}"
    return None


def _agree(inferred: tuple[int, ...], stored: tuple[int, ...]) -> bool:
    """Whether a shape that MXNet infers is the stored one.

    With NumPy's shapes, a shape with -1 is one that it has forgotten: a dstack writes another rank into its inputs.
    """
    return inferred == stored or -1 in inferred


def type_mismatch(graph: Graph, dtypes: dict) -> str | None:
    """Why variables cannot have these types; None if they can."""
    try:
        _partial(rules.infer_types, "infer_type_partial", graph, dtypes)
    except rules.Misfit as misfit:
        return str(misfit)
    return None


def _partial(rule: Callable, method: str, graph: Graph, facts: dict) -> dict[Entry, Any]:
    """What follows of the shapes or types: by MXNet, or by the rules where that is not installed."""
    return by_mxnet(method, graph, facts) if importing.is_imported() else rule(graph, facts)


def refused(where: str, shapes: Shapes, reason: str | Exception) -> OpError:
    """The OpError for shapes of inputs that a graph does not take."""
    described = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "its parameters"
    return OpError(where, f"the net refuses the shape of {described}: {reason}",
                   "Pass a shape that it takes, the batch size first, in data_shape, or --data-shape")


def last_line(error: Exception) -> str:
    """The message of MXNet's error without its C++ traceback, and without the time and the line of MXNet's source."""
    return re.sub(r"\[\d\d:\d\d:\d\d\] \S+:\d+: ", "", str(error).strip().splitlines()[-1])


class Sizes:
    """Shapes and types of every output of a graph's nodes.

    ``shapes`` and ``dtype`` are those of the inputs. With ``dynamic_batch`` the batch size is left open, see
    :func:`_with_free_batch`. An OpError if the graph refuses the shapes, or does not take any batch size.
    """

    def __init__(self, graph: Graph, shapes: Shapes, values: Arrays, dtype: str, dynamic_batch: bool,
                 where: str = "export.onnx"):
        known = {name: value.shape for name, value in values.items()}
        types = {name: value.dtype for name, value in values.items()}
        types.update(dict.fromkeys(shapes, np.dtype(dtype)))
        try:
            self.shape = _infer_shapes(graph, {**known, **shapes})
            if dynamic_batch:
                self.shape = _with_free_batch(graph, known, shapes, self.shape)
            self.dtype = _infer_types(graph, types, self.shape)
        except rules.Misfit as misfit:
            raise refused(where, shapes, misfit) from misfit


def fits(graph: Graph, shapes: Shapes) -> bool:
    """Whether a graph takes inputs and parameters of these shapes."""
    try:
        _infer_shapes(graph, shapes)
    except rules.Misfit:
        return False
    return True


def known_shapes(graph: Graph, shapes: Shapes) -> dict[Entry, tuple[int, ...]]:
    """The shapes of variables and other outputs, as far as they follow; none if the graph does not take the shapes.

    ``shapes`` are those of variables, also of other ones than the graph's.
    """
    with contextlib.suppress(rules.Misfit):
        return _inferred(graph, shapes)
    return {}


def known_types(graph: Graph, types: dict[str, np.dtype]) -> dict[Entry, np.dtype]:
    """The types of outputs, as far as they follow; none if the graph does not take the types. See above."""
    with contextlib.suppress(rules.Misfit):
        return _infer_types(graph, types)
    return {}


def _infer_shapes(graph: Graph, shapes: dict) -> dict[Entry, tuple[int, ...]]:
    """The shapes of outputs, from those of all variables.

    A Misfit is raised if they do not fit, or one does not follow.
    """
    return _complete(graph, _inferred(graph, shapes))


def _complete(graph: Graph, inferred: dict[Entry, tuple[Size, ...]]) -> dict[Entry, tuple[Size, ...]]:
    """The shapes if there is one for every output that counts and they fit. A Misfit is raised if not."""
    for node, index in _entries(graph):
        if (node, index) not in inferred:
            what = f"output {index} of {node.name!r}" if index else repr(node.name)
            raise rules.Misfit(f"that of {what} does not follow")
    _check_what_mxnet_does_not(graph, inferred)
    return inferred


def _check_what_mxnet_does_not(graph: Graph, inferred: dict[Entry, tuple[Size, ...]]) -> None:
    """A Misfit is raised if a node would read what is behind its data."""
    for node in graph.nodes():
        shape, first = inferred[node, 0], inferred.get(node.inputs[0], ()) if node.inputs else ()
        if traits_of(node).acts_as == "reshape" and math.prod(shape) != math.prod(first):
            raise rules.Misfit(f"{node.name!r} makes {shape} of {first}")
        sections = attributes_of(node)["sections"] if traits_of(node).acts_as == "split" else 0
        if sections and math.prod(shape) * sections != math.prod(first):
            raise rules.Misfit(f"{node.name!r} splits {first} into {sections} parts of different sizes")
        if node.op == "stack" and any(inferred[entry] != first for entry in node.inputs):
            raise rules.Misfit(f"{node.name!r} stacks other shapes than {first}")
        if node.op == "where" and first not in (shape, shape[:1]):
            raise rules.Misfit(f"{node.name!r} makes {shape} where a condition of {first} holds")


def _inferred(graph: Graph, shapes: dict) -> dict[Entry, tuple[int, ...]]:
    """The shapes that follow: by the rules if all do, else by MXNet. A Misfit is raised if they do not fit."""
    inferred = {}
    try:
        inferred = _known(graph, rules.infer_shapes(graph, shapes))
    except rules.Misfit:
        if not importing.is_imported():
            raise
    if importing.is_imported() and not inferred.keys() >= set(_entries(graph)):
        inferred = _known(graph, by_mxnet("infer_shape_partial", graph, shapes))
    return inferred


def _known(graph: Graph, shapes: dict) -> dict[Entry, tuple[int, ...]]:
    """The shapes that are known. With NumPy's shapes MXNet writes None and -1 for what is not, else () and 0."""
    if graph.is_numpy:
        return {entry: tuple(shape) for entry, shape in shapes.items() if shape is not None and -1 not in shape}
    return {entry: tuple(shape) for entry, shape in shapes.items() if shape and 0 not in shape}


def _entries(graph: Graph) -> list[Entry]:
    """The first output of each node, and all others that are read."""
    nodes = graph.nodes()
    read = [entry for node in nodes for entry in node.inputs]
    return list(dict.fromkeys([*((node, 0) for node in nodes), *read, *graph.outputs]))


def _infer_types(graph: Graph, types: dict, entries: Iterable[Entry] = ()) -> dict[Entry, np.dtype]:
    """The types of outputs, from those of all variables, as far as MXNet can tell them.

    A Misfit is raised if they do not fit.
    """
    try:
        return rules.infer_types(graph, types, entries)
    except rules.Misfit:
        if not importing.is_imported():
            raise
    inferred = by_mxnet("infer_type_partial", graph, types)
    return {entry: np.dtype(dtype) for entry, dtype in inferred.items() if dtype is not None}


def by_mxnet(method: str, graph: Graph, facts: dict) -> dict[Entry, Any]:
    """The shapes or types of all first outputs and of those that are read, as far as a method of a Symbol tells them.

    The method is one that prints nothing. A Misfit is raised if what is known does not fit.
    """
    entries, names = _entries(graph), set(graph.variables())   # MXNet refuses other names
    symbol = Graph(entries, graph.attrs).symbol()
    try:
        with graph.mode():
            _, inferred, _ = getattr(symbol, method)(**{name: value for name, value in facts.items() if name in names})
    except OpError:
        raise
    except Exception as error:   # MXNetError; and Exception itself, for a tensor of 2^31 elements and more
        raise rules.Misfit(last_line(error)) from error
    return dict(zip(entries, inferred))


def free_shapes(graph: Graph, of_parameters: Shapes, inputs: dict[str, tuple[Size, ...]],
                fixed: dict[Entry, tuple[int, ...]]) -> dict[Entry, tuple[Size, ...]]:
    """The shape of every output for inputs that have free sizes; see :mod:`gluonops.export.symbolic`.

    ``fixed``: the shapes if no size is free. A Misfit is raised if the graph does not take all values of free sizes.
    """
    try:
        shapes = _complete(graph, _known(graph, rules.infer_shapes(graph, {**of_parameters, **inputs}, fixed)))
    except Undecided as error:
        raise rules.Misfit(str(error)) from error
    return {entry: written(shapes[entry]) for entry in _entries(graph)}


def _with_free_batch(graph: Graph, of_parameters: Shapes, shapes: Shapes,
                     fixed: dict[Entry, tuple[int, ...]]) -> dict[Entry, tuple[Size, ...]]:
    """The shape of every output as a function of the batch size, which is the first size of the first input.

    The other inputs have it in front as well. If the graph does not take that, they may have it in any axis of that
    size, as the states of a recurrent net do, (layers, batch, units).
    """
    first_misfit = None
    for axes in itertools.islice(_batch_axes(shapes), MOST_WAYS):
        inputs = {name: tuple(free("batch") if axes.get(name) == axis else size for axis, size in enumerate(shape))
                  for name, shape in shapes.items()}
        try:
            return free_shapes(graph, of_parameters, inputs, fixed)
        except rules.Misfit as misfit:
            first_misfit = first_misfit or misfit
    raise OpError("export.onnx", f"the net does not take any batch size: {first_misfit}",
                  "Export it for the batch in data_shape: dynamic_batch=False, or --fixed-batch") from first_misfit


def with_batch(shapes: Shapes, batch: Callable[[int], Size]) -> dict[str, tuple[Size, ...]]:
    """The shapes of inputs with another batch, which is the first size. An input of shape () has none.

    ``batch`` makes the other size of the present one.
    """
    return {name: (*map(batch, shape[:1]), *shape[1:]) for name, shape in shapes.items()}


def _batch_axes(shapes: Shapes) -> Iterator[dict[str, int]]:
    """The axes that may have the batch size, by input. An input without an axis of that size does not depend on it."""
    batch = next((shape[0] for shape in shapes.values() if shape), None)
    names = [name for name, shape in shapes.items() if batch in shape]
    choices = [[axis for axis, size in enumerate(shapes[name]) if size == batch][:1 if name == names[0] else None]
               for name in names]
    for axes in itertools.product(*choices):
        yield dict(zip(names, axes))


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

    def refuse(self, what: str) -> OpError:
        """The OpError for what the node's converter does not support."""
        raise NotImplementedError

    def held(self, number: float) -> float | int:
        """A number as MXNet holds it beside the data: among integers it loses its fraction.

        An OpError is raised if their type does not have it. What MXNet makes of such a number depends on the processor.
        """
        dtype = self.dtypes[0]
        if dtype.kind not in "iu":
            return number
        limits = np.iinfo(dtype)
        is_held = math.isfinite(number) and limits.min <= int(number) <= limits.max
        if not is_held:
            raise self.refuse(f"has the scalar {number:g}, which {dtype} does not hold")
        return int(number)

    def scales(self) -> list[int]:
        """How often an UpSampling by nearest neighbours repeats the pixels of each input."""
        return [self.shape[2] // shape[2] for shape in self.shapes]

    def bilinear_window(self) -> tuple[int, int, int]:
        """Kernel, stride and padding of the deconvolution that an UpSampling with weights is."""
        scale = self.attributes["scale"]
        return 2 * scale - scale % 2, scale, scale // 2

    def windows(self) -> list[tuple[int, ...]]:
        """A pooling's window, stride, padding, size of the data and size of the output, for each axis."""
        return list(zip(*self.window()[:3], self.shapes[0][2:], self.shape[2:]))
