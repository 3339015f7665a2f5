"""Cuts a graph below some of its nodes, and says where one may cut. MXNet then does not see the rest, nor is needed."""
from __future__ import annotations

import collections
import re
from collections.abc import Collection, Iterable

from ..contract.errors import OpError, quoted
from ..runtime.near import perhaps
from .graph import Entry, Graph, Node
from .parameters import listed

INPUT_MARKS = ("guard", "copy")   # What the emitter inserts in front of an operator.
OF_WHOLE_NET = ("output", "task", "training")   # Metadata that are of a net's outputs.


class HeadError(OpError):
    """A graph cannot be exported for what is at its end. The net below it can be.

    Attributes
    ----------
    outputs : tuple of str
        What to pass as ``outputs``, or in several ``--output``, to export the net below; empty if there is none.
    """

    def __init__(self, where: str, what: str, remedy: str, outputs: Iterable[str] = ()):
        self.outputs, self.otherwise = tuple(outputs), remedy
        if self.outputs:
            options = " ".join(f"--output {name}" for name in self.outputs)
            remedy += f"; or export the net below it: outputs={list(self.outputs)}, or {options}"
        super().__init__(where, what, remedy)

    def __reduce__(self) -> tuple:
        return type(self), (self.where, self.what, self.otherwise, self.outputs)

    def about(self, name: object) -> HeadError:
        return type(self)(self.where, f"{name}: {self.what}", self.otherwise, self.outputs)


def cut(where: str, graph: Graph, outputs: Iterable[str]) -> None:
    """Let a graph end in the named outputs, in place. An OpError is raised if there is no such output.

    ``outputs``: names of nodes, for the first output of each; or ``NAME_output1`` and so on for the others.
    """
    outputs = outputs if isinstance(outputs, str) else list(outputs)
    if isinstance(outputs, str) or not all(isinstance(name, str) for name in outputs):
        raise OpError(where, f"outputs is {quoted(outputs)}; expected the names of nodes", "Pass a list such as ['fc']")
    nodes = collections.defaultdict(list)
    for node in graph.nodes():
        nodes[node.name].append(node)
    graph.outputs = list(dict.fromkeys(_entry(where, name, nodes) for name in outputs))


def _entry(where: str, name: str, nodes: dict[str, list[Node]]) -> Entry:
    """The output of a name. ``nodes`` are those of each name."""
    index, number = 0, re.fullmatch(r"(.+)_output(\d*)", name)
    same_name = nodes.get(name, [])
    if not same_name and number:
        same_name, index = nodes.get(number[1], []), int(number[2] or 0)
    if not same_name:
        names = [node.name for same in nodes.values() for node in same if not node.is_variable]
        raise OpError(where, f"the net has no node {quoted(name)}, which is asked for as an output",
                      perhaps(name, names) or f"Pass one of its nodes, such as {listed(names[-3:])}")
    if len(same_name) > 1:
        raise OpError(where, f"{len(same_name)} nodes are called {quoted(name)}; expected one, as an output",
                      "Pass the node in front of them or behind them")
    if same_name[0].is_variable:
        raise OpError(where, f"{quoted(name)} is an input or a parameter; expected a node that computes something",
                      "Pass the name of such a node as an output")
    return same_name[0], index


def remaining(graph: Graph, unwanted: Collection[Node]) -> list[str]:
    """The names of the outputs with which a graph does without some nodes, and without what depends on them.

    These are its own outputs that do not, and what the nodes read.
    """
    needing = set(unwanted)
    for node in graph.nodes():
        if any(source in needing for source, _ in node.inputs):
            needing.add(node)
    read = [entry for node in graph.nodes() if node in needing for entry in node.inputs]
    kept = [entry for entry in [*graph.outputs, *read] if entry[0] not in needing and not entry[0].is_variable]
    data = _reading_inputs(graph)
    kept = map(_in_front_of_inserted, (entry for entry in kept if entry[0] in data))
    return [name_of(entry) for entry in dict.fromkeys(kept) if not entry[0].is_variable]


def _in_front_of_inserted(entry: Entry) -> Entry:
    """The output that the emitter has put a guard or a copy behind."""
    while entry[0].inserted_as in INPUT_MARKS:
        entry = entry[0].inputs[0]
    return entry


def _reading_inputs(graph: Graph) -> set[Node]:
    """The nodes that compute from an input or a parameter, and not from constants alone."""
    reading = set()
    for node in graph.nodes():
        if node.is_variable or any(source in reading for source, _ in node.inputs):
            reading.add(node)
    return reading


def name_of(entry: Entry) -> str:
    """The name of an output, as :func:`cut` takes it."""
    node, index = entry
    return f"{node.name}_output{index}" if index else node.name


def places(graph: Graph) -> list[str]:
    """The names of nodes that a graph may be cut at: those through which all that the outputs need comes.

    These are the ends of its layers: no other way leads around them. The last ones come first.
    """
    computed = _reading_inputs(graph)
    order = [node for node in graph.nodes() if node in computed and not node.is_variable]
    last_read, cut_names = {}, []
    for place, node in enumerate(order):
        for source, _ in node.inputs:
            last_read[source] = place
    for node, _ in graph.outputs:
        last_read[node] = len(order)
    furthest = -1
    for place, node in enumerate(order):
        if furthest <= place and last_read.get(node, 0) < len(order):
            cut_names.append(node.name)
        furthest = max(furthest, last_read.get(node, 0))
    return cut_names[::-1]
