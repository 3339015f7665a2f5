"""Finds and computes the part of a graph that depends on parameters alone."""
from __future__ import annotations

import mxnet as mx
import numpy as np

from .graph import Entry, Graph, Node
from .shapes import Arrays


def parameter_only(graph: Graph, values: Arrays) -> set[Node]:
    """The nodes that depend on no input, parameters included. ``values``: Parameters and states."""
    constant = set()
    for node in graph.nodes():
        if node.is_variable:
            is_constant = node.name in values
        else:
            is_constant = all(source in constant for source, _ in node.inputs)
        if is_constant:
            constant.add(node)
    return constant


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
