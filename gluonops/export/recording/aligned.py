"""The nodes of several runs of a net side by side, with the attributes and the shapes that they have in each."""
from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..graph import Entry, Node
from ..operators import traits_of
from ..operators.attributes import attributes_of
from ..operators.normalization import channel_axis
from .runs import Run

Shapes = list[tuple[int, ...]]   # of one output, in each run


class Bound(Exception):
    """A node that holds for the recorded sizes only. ``node``: of the first run."""

    def __init__(self, node: Node):
        super().__init__(node.name)
        self.node = node


class Like(NamedTuple):
    """An output, and the axis of it that has a size."""
    entry: Entry
    axis: int


class Recorded:
    """A node in several runs.

    - ``attrs``: its attributes in each run, as texts.
    - ``inputs``, ``outputs``: the shapes of what it reads and makes, for each a list of runs.
    """

    def __init__(self, aligned: Aligned, number: int):
        self._aligned, self._number = aligned, number
        nodes = [nodes[number] for nodes in aligned.nodes]
        self.node, self._nodes = nodes[0], nodes
        self.attrs = [node.attrs for node in nodes]
        self.inputs = [[run.shapes[node.inputs[i]] for run, node in zip(aligned.runs, nodes)]
                       for i in range(len(self.node.inputs))]
        self.output = [run.shapes[node, 0] for run, node in zip(aligned.runs, nodes)]

    def values(self, name: str) -> list[Any]:
        """The value of an attribute in each run."""
        return [attributes_of(node)[name] for node in self._nodes]

    def like(self, sizes: list[int], axis: int | None = None) -> Like:
        """An output that was computed before, an input if possible, of which an axis has these sizes in the runs.

        ``axis`` is the only one that counts. A Bound if there is none.
        """
        like = self.like_range([(size,) for size in sizes], axis)
        if like is None:
            raise Bound(self.node)
        return like

    def like_range(self, sizes: Shapes, axis: int | None = None) -> Like | None:
        """An output like that whose axes from one on have several sizes; None if there is none."""
        aligned, length = self._aligned, len(sizes[0])
        for number in self._near():
            nodes = [nodes[number] for nodes in aligned.nodes]
            shapes = [run.shapes.get((node, 0)) for run, node in zip(aligned.runs, nodes)]
            if None in shapes or nodes[0].name in aligned.runs[0].constants:
                continue
            for position in range(len(shapes[0]) - length + 1):
                if axis in (None, position) and [shape[position:position + length] for shape in shapes] == sizes:
                    return Like((nodes[0], 0), position)
        return None

    def _near(self) -> Iterator[int]:
        """The numbers of the nodes before: of the same call of a block, then inputs of the net, then all others."""
        aligned, run = self._aligned, self._aligned.runs[0]
        call = run.call_of.get(self.node)
        arguments = [] if call is None else [aligned.place.get(node) for node, _ in run.calls[call].arguments]
        inside = aligned.of_call.get(call, ()) if call is not None else ()
        for number in itertools.chain(arguments, inside, aligned.variables, range(self._number)):
            if number is not None and number < self._number:
                yield number

    def ndim(self, entry: Entry) -> int:
        """The number of dimensions of an output."""
        return len(self._aligned.runs[0].shapes[entry])

    def dtype(self, entry: Entry) -> np.dtype:
        """The type of an output of the first run."""
        return self._aligned.runs[0].dtypes[entry]


class Aligned:
    """The nodes of several runs, side by side. A Bound if one computes something else than the first."""

    def __init__(self, runs: list[Run]):
        self.runs = runs
        self.nodes = [run.nodes for run in runs]
        self.place = {node: number for number, node in enumerate(self.nodes[0])}
        self.variables = [number for number, node in enumerate(self.nodes[0]) if node.is_variable]
        self.of_call: dict[int, list[int]] = {}   # the numbers of the nodes of each call
        for number, node in enumerate(self.nodes[0]):
            if node in runs[0].call_of:
                self.of_call.setdefault(runs[0].call_of[node], []).append(number)
        for run, nodes in zip(runs[1:], self.nodes[1:]):
            self._check(run, nodes)

    def _check(self, run: Run, nodes: list[Node]) -> None:
        first, twin = self.runs[0], {}
        for node, other in itertools.zip_longest(self.nodes[0], nodes):
            if node is None or other is None:
                raise Bound(node or self.nodes[0][-1])
            twin[node] = other
            inputs = [(twin.get(source), index) for source, index in node.inputs]
            if (node.op, node.name) != (other.op, other.name) or inputs != other.inputs:
                raise Bound(node)
            if node.is_variable and node.name in first.constants and not is_equal(
                    first.constants[node.name], run.constants.get(other.name)):
                raise Bound(node)
            if traits_of(node).uses_statistics and not _has_all_channels(run, other):
                raise Bound(node)   # MXNet does not compare them, and reads what is behind the parameters.
        outputs = [(twin.get(node), index) for node, index in first.graph.outputs]
        if outputs != run.graph.outputs:
            raise Bound(self.nodes[0][-1])


def _has_all_channels(run: Run, node: Node) -> bool:
    data, gamma = (run.shapes.get(entry) for entry in node.inputs[:2])
    return data is None or gamma is None or data[channel_axis(node)] == gamma[0]


def is_equal(one: Any, other: Any) -> bool:
    """Whether two constants are the same array, or have the same numbers."""
    return one is other or (other is not None and one.shape == other.shape and one.dtype == other.dtype
                            and np.array_equal(one.asnumpy(), other.asnumpy(), equal_nan=one.dtype != bool))
