"""Makes each operator of gluonops one node, whatever backend it was emitted for."""
from __future__ import annotations

from ..contract import registry
from ..contract.errors import OpError
from ..contract.op import Op
from .cut import INPUT_MARKS
from .graph import Entry, Graph, Node, is_ours, our_name
from .metadata import origin, remedy

OUTPUT_MARKS = ("head", "copy")
# The emitter appends these to an operator's name if the inserted node behind it has the name itself.
INNER_NAMES = ("_native", "_custom")


def canonicalize_graph(graph: Graph) -> None:
    """What :func:`gluonops.export.passes.canonicalize` does, in place."""
    # Name -> the inserted node that may bear the name of an operator.
    wrappers = {node.name: node for node in graph.nodes() if node.inserted_as in OUTPUT_MARKS}
    wrapped = {}   # output of a wrapper -> that of its operator
    for node in graph.nodes():
        if not is_ours(node):
            continue
        op, values = _parsed(graph, node)
        node.attrs = {"op_type": op.graph_name, **op.strings(values), **node.marks()}
        node.op = "Custom"
        node.inputs = [_without_inserted(entry) for entry in node.inputs]
        wrapper = _wrapper_of(node, wrappers)
        if wrapper is not None:
            node.name = wrapper.name
            wrapped[wrapper, 0] = node, 0
    graph.replace(wrapped)


def _parsed(graph: Graph, node: Node) -> tuple[Op, tuple]:
    """The contract of a node, and its typed attributes.

    An OpError is raised if this gluonops does not have one of them.
    """
    name = our_name(node)
    if name not in registry.entries():
        raise OpError("export", f"the node {node.name!r} is the operator gluonops_{name}, which this gluonops does not "
                      f"have; {origin(graph)}", remedy(graph))
    op = registry.get(name).op
    try:
        return op, op.parse(node.options())
    except OpError as error:
        raise OpError("export", f"the node {node.name!r} does not fit this gluonops: {error.what}; {origin(graph)}",
                      remedy(graph)) from error


def _without_inserted(entry: Entry) -> Entry:
    """The output that an operator's input reads, in front of a guard or copy that the emitter inserted.

    A copy may be several nodes. The names of the inner ones begin with the name of the outer one.
    """
    outer = entry[0]
    if outer.inserted_as not in INPUT_MARKS:
        return entry
    entry = outer.inputs[0]
    while entry[0].inserted_as == outer.inserted_as and entry[0].name.startswith(f"{outer.name}_"):
        entry = entry[0].inputs[0]
    return entry


def _wrapper_of(node: Node, wrappers: dict[str, Node]) -> Node | None:
    """The inserted node behind an operator that has the operator's name; None if the operator has the name itself."""
    for suffix in INNER_NAMES:
        if node.name.endswith(suffix):
            wrapper = behind = wrappers.get(node.name[:-len(suffix)])
            while behind is not None and behind.inserted_as in OUTPUT_MARKS:   # nothing else may be between the two
                behind = behind.source()
            if behind is node:
                return wrapper
    return None
