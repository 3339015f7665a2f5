"""Finds out whether numbers that a net reads in between reach its outputs.

A number that Python has read leaves the graph: it may choose a branch, cut an array, or come back as a constant. So the
net is recorded again with other numbers in place of those that one line reads. If the graph stays the same, they were
printed or checked only.
"""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...contract.errors import OpError
from ..graph import Node
from .aligned import is_equal
from .naming import Line
from .runs import NetFails, Run, Runner
from .tape import Fault, refusal

MOST = 8   # lines that are tried: each costs some runs of the net


def _more(array: np.ndarray) -> np.ndarray:
    return ~array if array.dtype == bool else array + array.dtype.type(1)


def _less(array: np.ndarray) -> np.ndarray:
    return ~array if array.dtype == bool else -array - array.dtype.type(1)


def _nothing(array: np.ndarray) -> np.ndarray:
    return np.zeros_like(array)


CHANGES = (_more, _less, _nothing)


def check_reads(runner: Runner, run: Run) -> None:
    """Raise an OpError for the first line whose numbers reach an output."""
    for line in run.reads[:MOST]:
        reached = [_reaches(runner, run, line, change) for change in CHANGES]
        if True in reached or set(reached) == {None}:
            raise _refused(runner, line)
    if len(run.reads) > MOST:
        raise _refused(runner, run.reads[MOST])


def _refused(runner: Runner, line: Line | None) -> OpError:
    return refusal(runner.where, runner.name, Fault(
        "reads numbers of an array (asnumpy, asscalar, int, float or bool) on which an output depends", line,
        "Compute with MXNet's operators in between, for instance with where, broadcast_lesser or SequenceMask"))


def _reaches(runner: Runner, run: Run, line: Line | None,
             change: Callable[[np.ndarray], np.ndarray]) -> bool | None:
    """Whether other numbers make another graph. None if the net refuses them, as a check of lengths does."""
    try:
        other = runner.run(line=line, change=change)
    except NetFails:
        return None
    except OpError:   # It does something else, which cannot be recorded.
        return True
    return not is_same(run, other)


def is_same(run: Run, other: Run) -> bool:
    """Whether two runs have computed the same with the same constants."""
    nodes, others = run.nodes, other.nodes
    if len(nodes) != len(others):
        return False
    twin = dict(zip(nodes, others))
    outputs = [(twin[node], index) for node, index in run.graph.outputs]
    return outputs == other.graph.outputs and all(_is_twin(run, other, twin, *pair) for pair in zip(nodes, others))


def _is_twin(run: Run, other: Run, twin: dict[Node, Node], node: Node, its: Node) -> bool:
    if (node.op, node.attrs, node.name) != (its.op, its.attrs, its.name):
        return False
    if node.is_variable and node.name in run.constants:
        return is_equal(run.constants[node.name], other.constants.get(its.name))
    return [(twin[source], index) for source, index in node.inputs] == its.inputs
