"""What a rule is and what it is a function of, and how the rules infer the shapes and types of a graph."""
from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Union

import numpy as np

from ...contract import registry
from ...contract.errors import OpError
from ..graph import Entry, Graph, Node, is_ours, kind, our_name
from ..symbolic import FreeSize, Size, Undecided
from ..values import NodeValues
from .rule_registry import NOT_TAKEN, SHAPES, TYPES, traits_of

Shape = tuple[Size, ...]
Rule = Callable[["Call"], Union[Shape, list[Shape]]]
RULES: dict[str, Rule] = SHAPES
OPEN = 0   # a size that follows from what else a reader reads, as the batch of a recurrent layer's first states


class Misfit(Exception):
    """Why an operator does not take its inputs."""


class Call(NodeValues):
    """A node with the shapes of its inputs, as far as they are known."""

    def __init__(self, node: Node, inferred: dict[Entry, Shape | None]):
        super().__init__(node, [inferred.get(entry) for entry in node.inputs])
        self._inferred = inferred

    @property
    def data(self) -> Shape:
        """The shape of the first input."""
        return self.shapes[0]

    def from_front(self, axis: int) -> int:
        rank = len(self.data)
        self.check(-rank <= axis < rank, 0, f"an axis {axis}")
        return axis % rank

    def expect(self, position: int, shape: Shape) -> None:
        """Check the shape of an input. What is not known of it follows."""
        if position >= len(self.shapes):
            return
        present = self.shapes[position]
        if present is not None:
            self.check(len(present) == len(shape) and all(
                old == new or OPEN in (old, new) for old, new in zip(present, shape)), position, shape)
            shape = tuple(old or new for old, new in zip(present, shape))
        self.shapes[position] = self._inferred[self.node.inputs[position]] = shape

    def reduced(self, axes: Iterable[int], keeps: bool) -> Shape:
        """The shape of the data without these axes, or with a size of 1 there; ``(1,)`` if none is left."""
        axes = set(axes)
        shape = tuple(1 if axis in axes else size for axis, size in enumerate(self.data)
                      if keeps or axis not in axes)
        return shape or (1,)

    def check(self, fits: bool, position: int, expected: object) -> None:
        """Raise a Misfit unless an input fits."""
        if not fits:
            source = self.node.source(position)
            raise Misfit(f"{self.node.name!r} ({self.node.op}) reads {source.name!r} of shape {self.shapes[position]}; "
                         f"expected {expected}")

    def alike(self, positions: Iterable[int] | None = None) -> Shape:
        """The shape that inputs have in common, by default all."""
        positions = range(len(self.shapes)) if positions is None else positions
        for one in [*positions, *positions]:   # a size that is open may follow from a later input
            for other in positions:
                if self.shapes[one] is not None:
                    self.expect(other, self.shapes[one])
        return self.data


def broadcast(*shapes: Shape) -> Shape:
    """The shape to which arrays broadcast. A ValueError if they do not."""
    result = []
    for place in range(-max(map(len, shapes)), 0):
        sizes = [shape[place] for shape in shapes if len(shape) >= -place]
        larger = [size for size in sizes if size != 1] or [1]
        if any(size != larger[0] for size in larger):
            raise ValueError(f"the sizes {sizes} do not broadcast")
        result.append(larger[0])
    return tuple(result)


def infer_shapes(graph: Graph, shapes: dict[str, Shape],
                 of_constants: Mapping[Entry, Shape] = MappingProxyType({})) -> dict[Entry, Shape | None]:
    """The shape of every output, as far as it follows from shapes of variables; None for others.

    Sizes may be free; see :mod:`gluonops.export.symbolic`. ``of_constants`` are the shapes of outputs if none is: a
    node without a rule that reads nothing free has these. A Misfit if the shapes do not fit, or not for all values of
    the free sizes, or if a node has no rule.
    """
    told = {}
    while True:
        inferred = _made(graph, shapes, of_constants, told)
        is_open = {(node, 0) for node in graph.nodes() if not node.inputs and OPEN in (inferred[node, 0] or ())}
        for node in reversed(graph.nodes()):
            _follow(node, inferred)
        learnt = {entry: inferred[entry] for entry in is_open if OPEN not in inferred[entry]}
        if not learnt:
            return inferred
        told.update(learnt)   # What else reads these follows now.


def _made(graph: Graph, shapes: dict[str, Shape], of_constants: Mapping[Entry, Shape],
          told: dict[Entry, Shape]) -> dict[Entry, Shape | None]:
    """The shapes that the rules make, from the first node to the last. ``told``: of open outputs, by their readers."""
    inferred = {}
    for node in graph.nodes():
        if node.is_variable or (node, 0) in told:
            inferred[node, 0] = told.get((node, 0), shapes.get(node.name))
            continue
        for source, index in node.inputs:
            if inferred[source, 0] is not None and (source, index) not in inferred:
                raise Misfit(f"{node.name!r} ({node.op}) reads output {index} of {source.name!r}, which has no shape")
        call, outputs = Call(node, inferred), [None]
        reads_free = any(isinstance(size, FreeSize) for shape in call.shapes for size in shape or ())
        if _rule_of(node) is None and (node, 0) in of_constants and not reads_free:
            inferred.update({entry: shape for entry, shape in of_constants.items() if entry[0] is node})
            continue
        rule = _required_rule(node)
        with _explained(node, call.shapes):
            made = rule(call)
            made = made if isinstance(made, list) else [made]
            if any(not isinstance(size, (int, FreeSize)) or size < 0 for shape in made for size in shape):
                raise ValueError(f"its outputs would have the shapes {made}")
            outputs = made
        inferred.update({(node, index): shape for index, shape in enumerate(outputs)})
    return inferred


def _follow(node: Node, inferred: dict[Entry, Shape | None]) -> None:
    """Give what a node reads the sizes that were open, and that readers of its outputs have told."""
    shapes = [inferred.get(entry) or () for entry in node.inputs]
    if not any(isinstance(size, int) and size == OPEN for shape in shapes for size in shape):
        return
    call = Call(node, inferred)
    if node.op in ("FullyConnected", "SliceChannel"):   # the first state of a recurrent cell has the rows of these
        rows = [shape[0] for (maker, _), shape in inferred.items() if maker is node and shape]
        if rows and call.attributes.get("axis") != 0:
            call.expect(0, (max(rows), *call.data[1:]))
    elif SHAPES.get(node.op) is SHAPES["elemwise_add"]:
        for position in range(len(call.shapes)):
            call.expect(position, inferred[node, 0])


def infer_types(graph: Graph, types: dict[str, np.dtype],
                outputs: Iterable[Entry] = ()) -> dict[Entry, np.dtype]:
    """The types of outputs, from those of the variables, which are float32 if they are not known.

    A Misfit if a node has no rule, or a layer has parameters of another type.
    """
    counts = collections.Counter()
    for node, index in outputs:   # those that nothing reads may be missing
        counts[node] = max(counts[node], index + 1)
    dtypes = {}
    for node in graph.nodes():
        if node.is_variable:
            dtypes[node, 0] = np.dtype(types.get(node.name, "float32"))
            continue
        read = [dtypes.get(entry, dtypes[entry[0], 0]) for entry in node.inputs]
        _required_rule(node)
        with _explained(node, read):
            returned = _types_of(node, read)
        returned = returned if isinstance(returned, list) else [returned] * max(counts[node], 1)
        dtypes.update({(node, index): dtype for index, dtype in enumerate(returned)})
    return dtypes


@contextlib.contextmanager
def _explained(node: Node, read: list) -> Iterator[None]:
    """Make a Misfit of what a rule raises, unless it is because something of what the node reads is not known."""
    try:
        yield
    except Misfit:
        raise
    except Undecided as error:
        raise Misfit(f"{node.name!r} ({node.op}) reads {read}: {error}") from error
    except OpError as error:
        raise Misfit(f"{node.name!r}: {error.what}") from error
    except (*NOT_TAKEN, AttributeError) as error:
        is_known = all(one is not None for one in read)   # a dtype equals None
        if is_known and not isinstance(error, NOT_TAKEN):
            raise   # an AttributeError; that of None, in place of what is not known, says nothing
        if is_known:
            raise Misfit(f"{node.name!r} ({node.op}) does not take {read}: {error}") from error


def _required_rule(node: Node) -> Rule:
    """The rule of a node. A Misfit if there is none."""
    rule = _rule_of(node)
    if rule is None:
        raise Misfit(f"{node.name!r} is the operator {kind(node)}, whose shapes only MXNet can infer")
    return rule


def _rule_of(node: Node) -> Rule | None:
    return of_contract if is_ours(node) else RULES.get(node.op)


def of_contract(call: Call) -> list[Shape]:
    """An operator of gluonops, by its contract."""
    op = registry.get(our_name(call.node)).op
    attrs = attributes_of(call.node)
    input_shapes = {arg.name: shape for arg, shape in zip(op.inputs, call.shapes) if shape is not None}
    shapes = op.infer_shape(attrs, input_shapes)
    for position, arg in enumerate(op.inputs):
        call.expect(position, shapes[arg.name])
    return [shapes[out.name] for out in op.outputs]


def attributes_of(node: Node) -> tuple:
    """The attributes of an operator of gluonops."""
    return registry.get(our_name(node)).op.parse(node.options())


# -- types --------------------------------------------------------------------------------------------------------
def _types_of(node: Node, types: list[np.dtype]) -> np.dtype | list[np.dtype]:
    """The type of what a node returns; a list if its outputs have several."""
    if is_ours(node):
        op = registry.get(our_name(node)).op
        dtypes = op.infer_type(attributes_of(node), {arg.name: dtype.name for arg, dtype in zip(op.inputs, types)})
        return [np.dtype(dtypes[out.name]) for out in op.outputs]
    if node.op in TYPES:
        made = TYPES[node.op](NodeValues(node, types))
        return list(map(_as_dtype, made)) if isinstance(made, list) else _as_dtype(made)
    if not traits_of(node).reads_any_types:
        half = traits_of(node).uses_statistics and types[0] == np.float16   # its parameters are float32
        expected = np.dtype("float32") if half else types[0]
        others = set(types[1:]) - {expected}
        if others:
            raise Misfit(f"{node.name!r} ({node.op}) reads {others.pop()} beside data of {types[0]}; expected "
                         f"{expected}")
    return types[0]


def _as_dtype(dtype: np.dtype | str) -> np.dtype:
    """A type, also one that an attribute names. A Misfit for bfloat16, which NumPy does not have."""
    try:
        return np.dtype(dtype)
    except TypeError as error:
        raise Misfit(f"a type is {dtype}; expected one of NumPy's") from error
