"""The table of converters.

The converter of an operator is a function ``convert(call)``. It adds ONNX nodes for the node that the
:class:`.model.Call` describes, and returns the tensors of its outputs. Operators of gluonops have one where ONNX has
the operator itself; the others are lowered to MXNet's before.
"""
from __future__ import annotations

from collections.abc import Callable

from ...core.contract import PREFIX
from ...core.errors import OpError
from ..graph import Graph, Node, is_ours, our_name

DEFAULT_OPSET = 17
CONVERTERS = {}   # operator -> function
OPSETS = {}       # operator -> the first version of ONNX's operators that has what it needs, if not all have


def converts(*names: str, opset: int | None = None) -> Callable:
    """Enter the decorated function for these operators. It returns a tensor, or a list of tensors.

    ``opset``: the first version of ONNX's operators that has what they need.
    """
    def enter(function: Callable) -> Callable:
        CONVERTERS.update(dict.fromkeys(names, function))
        if opset is not None:
            OPSETS.update(dict.fromkeys(names, opset))
        return function
    return enter


def operator(node: Node) -> str:
    """The name of a node's operator in the table."""
    return PREFIX + our_name(node) if is_ours(node) else node.op


def opset_of(graph: Graph, opset: int | None) -> int:
    """The version of ONNX's operators to write: the given one, or else the default, or what the graph needs.

    An OpError if a node needs a newer one than the given one.
    """
    needs = {node: OPSETS[node.op] for node in graph.nodes() if node.op in OPSETS}
    first = max([DEFAULT_OPSET, *needs.values()])
    for node, needed in needs.items():
        if opset is not None and opset < needed:
            raise OpError("export.onnx", f"the node {node.name!r} is the operator {node.op}, which ONNX has from opset "
                          f"{needed} on; opset is {opset}", f"Leave opset out, or pass {first}")
    return first if opset is None else opset


def whole(opset: int) -> list[str]:
    """The operators of gluonops that ONNX has itself in a version."""
    return [name[len(PREFIX):] for name in CONVERTERS if name.startswith(PREFIX) and OPSETS.get(name, 0) <= opset]
