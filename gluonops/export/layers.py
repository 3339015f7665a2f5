"""Which nodes of a graph are one layer of gluonops, on every backend."""
from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from .canonical import without_inserted, wrapper_of, wrappers_of
from .graph import Graph, Node, is_ours, our_name

LAYER = "__gluonops_layer__"         # the layer's name, on the nodes that end its builtin form
OPERATOR = "__gluonops_operator__"   # its operator and attributes, on the same nodes


@dataclasses.dataclass(eq=False)
class Layer:
    """A layer: its name, its operator without ``gluonops_``, the attributes as text, and its nodes."""

    name: str
    operator: str
    attributes: str
    nodes: set[Node]


def layers(graph: Graph) -> dict[Node, Layer]:
    """Find the layers.

    A layer's nodes are its operator with the guards and copies around it, or the nodes of its builtin form.
    Other nodes are missing. What is outside a layer reads only the layer's last nodes.
    """
    return {node: layer for layer in [*_emitted(graph), *_builtin(graph)] for node in layer.nodes}


def _emitted(graph: Graph) -> Iterator[Layer]:
    """The layers whose operator is a node of the custom or native backend."""
    wrappers = wrappers_of(graph)
    for node in graph.nodes():
        if is_ours(node):
            wrapper = wrapper_of(node, wrappers)
            attributes = ", ".join(f"{key}={value}" for key, value in node.options().items())
            yield Layer((wrapper or node).name, our_name(node), attributes, set(_around(node, wrapper)))


def _builtin(graph: Graph) -> Iterator[Layer]:
    """The layers out of MXNet's own operators."""
    ends_of = {}   # name of a layer -> the nodes that bear the names of its outputs
    for node in graph.nodes():
        if node.inserted_as == "name":
            ends_of.setdefault(node.attrs.get(LAYER, node.name), []).append(node)
    for name, ends in ends_of.items():
        operator, _, attributes = ends[0].attrs.get(OPERATOR, "layer").partition(" ")
        yield Layer(name, operator, attributes, _inside(graph, name, ends))


def _around(node: Node, wrapper: Node | None) -> Iterator[Node]:
    """An operator's node, and the nodes that the emitter inserted in front of it and behind it."""
    yield node
    for entry in node.inputs:
        yield from _between(entry[0], without_inserted(entry)[0])
    if wrapper is not None:
        yield from _between(wrapper, node)


def _between(last: Node, first: Node) -> Iterator[Node]:
    """The nodes of a chain, without its first one."""
    while last is not first:
        yield last
        last = last.source()


def _inside(graph: Graph, name: str, ends: list[Node]) -> set[Node]:
    """The nodes of a builtin form: those with a name from the layer's counter that only the layer reads."""
    members, readers = set(ends), graph.readers()
    counted = re.compile(re.escape(name) + r"_[a-z_]+[0-9]+")
    for node in reversed(graph.nodes()):
        named = counted.fullmatch(node.name) and not node.is_variable and not node.inserted_as
        if named and readers[node] and members.issuperset(readers[node]):
            members.add(node)
    return members
