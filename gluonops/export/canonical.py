"""Every operator of gluonops as one node, whatever backend it was emitted for."""
from __future__ import annotations

from typing import Any

from ..core import registry
from ..core.contract import Op
from ..core.errors import OpError
from .graph import Entry, Graph, Node, is_ours, our_name
from .metadata import origin, remedy

INPUT_MARKS = ("guard", "copy")
OUTPUT_MARKS = ("head", "copy")
INNER_NAMES = ("_native", "_custom")   # of an operator whose name a node behind it bears


def canonicalize_graph(graph: Graph) -> None:
    """Make every custom and native node of gluonops a single ``Custom`` node under the operator's own name, in place.

    The nodes that the emitter inserted around it, which it marked, go.

    Raises
    ------
    OpError
        This gluonops does not have the operator or one of its attributes; the message says which gluonops wrote the
        file.
    """
    nodes = graph.nodes()
    wrappers = {node.name: node for node in nodes if node.inserted_as in OUTPUT_MARKS}
    for node in nodes:
        if not is_ours(node):
            continue
        op = _contract(graph, node)
        node.attrs = {"op_type": op.graph_name, **op.strings(_parsed(graph, node, op)), **node.marks()}
        node.op = "Custom"
        node.inputs = [_without_inserted(entry) for entry in node.inputs]
        wrapper = _wrapper_of(node, wrappers)
        if wrapper is not None:
            node.name = wrapper.name
            graph.replace({(wrapper, 0): (node, 0)})


def custom_node(op: Op, name: str, inputs: list[tuple[Node, int]], values: dict[str, Any]) -> Node:
    """A canonical node for other passes to put in.

    Parameters
    ----------
    op : Op
    name : str
    inputs : list of (Node, int)
    values : dict
        Attributes.
    """
    return Node("Custom", name, {"op_type": op.graph_name, **op.strings(op.parse(values))}, inputs)


def _contract(graph: Graph, node: Node) -> Op:
    name = our_name(node)
    if name not in registry.entries():
        raise OpError("export", f"the node {node.name!r} is the operator gluonops_{name}, which this gluonops does not "
                      f"have; {origin(graph)}", remedy(graph))
    return registry.get(name).op


def _parsed(graph: Graph, node: Node, op: Op) -> tuple:
    try:
        return op.parse({key: value for key, value in node.attrs.items() if key != "op_type"})
    except OpError as error:
        raise OpError("export", f"the node {node.name!r} does not fit this gluonops: {error.what}; {origin(graph)}",
                      remedy(graph)) from error


def _without_inserted(entry: Entry) -> Entry:
    """What an operator reads in front of the guard, or the copy, that the emitter put on its input.

    A copy is several nodes. The names of the inner ones begin with the outer one's.
    """
    outer = entry[0]
    if outer.inserted_as not in INPUT_MARKS:
        return entry
    entry = outer.inputs[0]
    while entry[0].inserted_as == outer.inserted_as and entry[0].name.startswith(f"{outer.name}_"):
        entry = entry[0].inputs[0]
    return entry


def _wrapper_of(node: Node, wrappers: dict[str, Node]) -> Node | None:
    """The inserted node that bears the name of an operator, behind it; None where the operator bears it itself."""
    for suffix in INNER_NAMES:
        if not node.name.endswith(suffix):
            continue
        wrapper = wrappers.get(node.name[:-len(suffix)])
        if wrapper is not None and _is_behind(wrapper, node):
            return wrapper
    return None


def _is_behind(wrapper: Node, node: Node) -> bool:
    """Whether there are only inserted nodes between the two."""
    while wrapper.inserted_as in OUTPUT_MARKS:
        wrapper = wrapper.source()
    return wrapper is node
