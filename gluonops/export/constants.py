"""Finds and computes the part of a graph that depends on parameters alone."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..core.errors import OpError
from ..runtime import importing
from .graph import Entry, Graph, Node
from .rules import MOVES, Call, arange_values
from .shapes import Arrays

if importing.is_imported():
    import mxnet as mx
# What MXNet's operators compute, to the bit, from a call and the values of its inputs.
FUNCTIONS: dict[str, Callable] = {
    **MOVES,
    "_arange": arange_values,
    "_full": lambda call: np.full(call.ints("shape", ()), call.value("value"), _type(call)),
    "_ones": lambda call: np.ones(call.ints("shape", ()), _type(call)),
    "_zeros": lambda call: np.zeros(call.ints("shape", ()), _type(call)),
    "Concat": lambda call, *parts: np.concatenate(parts, call.value("dim", 1)),
    "stack": lambda call, *parts: np.stack(parts, call.value("axis", 0)),
    "_plus_scalar": lambda call, x: x + x.dtype.type(call.value("scalar")),
    "_minus_scalar": lambda call, x: x - x.dtype.type(call.value("scalar")),
    "_mul_scalar": lambda call, x: x * x.dtype.type(call.value("scalar")),
    "_div_scalar": lambda call, x: x / x.dtype.type(call.value("scalar")),
    "broadcast_add": lambda call, x, y: x + y,
    "broadcast_sub": lambda call, x, y: x - y,
    "broadcast_mul": lambda call, x, y: x * y,
}


def _type(call: Call) -> np.dtype:
    return np.dtype(call.text("dtype", "float32").replace("None", "float32"))


def parameter_only(graph: Graph, values: Arrays) -> set[Node]:
    """The nodes that depend on no input, parameters included. ``values``: Parameters and states."""
    constant = set()
    for node in graph.nodes():
        reads_constants = all(source in constant for source, _ in node.inputs)
        is_constant = node.name in values if node.is_variable else reads_constants
        if is_constant:
            constant.add(node)
    return constant


def computed(entries: list[Entry], attrs: dict) -> list[np.ndarray]:
    """Compute outputs of nodes that depend on nothing, in float32: by NumPy if it can, else by MXNet.

    An OpError names a node that needs MXNet, where that is not installed.
    """
    nodes = Graph(entries, attrs).nodes()
    unknown = next((node for node in nodes if node.op not in FUNCTIONS), None)
    if unknown is None:
        values = {}
        for node in nodes:
            read = [values[source] for source, _ in node.inputs]
            call = Call(node, {entry: value.shape for entry, value in zip(node.inputs, read)})
            values[node] = FUNCTIONS[node.op](call, *read)
        arrays = [values[node] for node, _ in entries]
    elif importing.is_imported():
        arrays = evaluate(entries, {}, attrs)
    else:
        raise OpError("export", f"the node {unknown.name!r} ({unknown.op}) is a constant that MXNet has to compute, "
                      "and MXNet is not installed", "Run: gluonops install-mxnet")
    return [np.ascontiguousarray(array, np.float32) for array in arrays]


def evaluate(outputs: list[Entry], values: Arrays, attrs: dict) -> list[np.ndarray]:
    """Compute outputs of nodes that depend on no input.

    - ``values``: values of the variables that they depend on.
    - ``attrs``: the graph's attributes.
    """
    if not outputs:
        return []
    symbol = Graph(outputs, attrs).symbol()
    names = symbol.list_inputs()
    if not names:   # a CachedOp fails without inputs
        return [result.asnumpy() for result in symbol.bind(mx.cpu(), {}).forward()]
    results = mx.nd.CachedOp(symbol)(*[values[name] for name in names])
    if not isinstance(results, list):
        results = [results]
    return [result.asnumpy() for result in results]
