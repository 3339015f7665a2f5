"""Shapes and types of everything in a graph, with the batch left open: inferred at several batch sizes and compared."""
import dataclasses
import re

import mxnet as mx
import numpy as np

from ...core.errors import OpError
from ..graph import Graph, Node

TRIED = (2, 3, 7)   # two give a line, the third tells whether it is one


@dataclasses.dataclass(frozen=True)
class Batch:
    """A size that depends on the batch: ``factor * batch + offset``."""
    factor: int = 1
    offset: int = 0

    def __str__(self):
        text = "batch" if self.factor == 1 else f"{self.factor}*batch"
        return f"{text}+{self.offset}" if self.offset else text


class Sizes:
    """``shape`` and ``dtype`` of every output of a graph's nodes, by (node, index).

    Parameters
    ----------
    graph : Graph
        Operators that MXNet knows.
    shapes : dict of str to tuple of int
        Of the inputs; with ``dynamic_batch`` their first sizes are left open.
    values : dict of str to NDArray
        Parameters and states.
    dtype : str
        Of the inputs.
    dynamic_batch : bool
    where : str, optional
        Who asks, for errors.
    """

    def __init__(self, graph, shapes, values, dtype, dynamic_batch, where="export.onnx"):
        symbol, keys = _labelled(graph)
        known = {name: value.shape for name, value in values.items()}
        try:
            given = _infer(graph, symbol, keys, {**known, **shapes})
        except _Refused as error:
            text = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise OpError(where, f"the net refuses the shape of {text or 'its parameters'}: {error}",
                          "Pass a shape that it takes in data_shape, or --data-shape") from error
        if dynamic_batch:
            tries = [_tried(graph, symbol, keys, {**known, **{name: (batch, *shape[1:])
                                                              for name, shape in shapes.items()}}) for batch in TRIED]
            self.shape = {key: tuple(_size(key, sizes) for sizes in zip(*found)) if _same_rank(found) else _varies(key)
                          for key, found in zip(keys, zip(*tries))}
        else:
            self.shape = dict(zip(keys, given))
        types = {**{name: value.dtype for name, value in values.items()}, **dict.fromkeys(shapes, np.dtype(dtype))}
        _, found, _ = symbol.infer_type(**types)
        self.dtype = {key: np.dtype(kind) for key, kind in zip(keys, found)}


def _labelled(graph):
    """Every output in the graph as one symbol, and their keys: names tell the nodes apart, so they are made unique."""
    nodes, copies = graph.nodes(), {}
    for i, node in enumerate(nodes):
        name = node.name if node.is_variable else f"#{i}"
        copies[node] = Node(node.op, name, node.attrs, [(copies[source], k) for source, k in node.inputs],
                            node.subgraphs)
    symbol = Graph([(copies[node], k) for node, k in graph.heads], graph.attrs).symbol().get_internals()
    by_name = {copies[node].name: node for node in nodes}
    keys = []
    for output in symbol.list_outputs():
        node = by_name.get(output) or by_name[output.split("_")[0]]
        keys.append((node, keys[-1][1] + 1 if keys and keys[-1][0] is node else 0))
    return symbol, keys


class _Refused(Exception):
    """What MXNet has against shapes."""


def _infer(graph, symbol, keys, shapes):
    """The shape of every output; the partial kind of inference prints nothing where it fails."""
    try:
        _, found, _ = symbol.infer_shape_partial(**shapes)
    except mx.MXNetError as error:
        nodes, reason = graph.nodes(), str(error).strip().splitlines()[-1]
        raise _Refused(re.sub(r"#(\d+)", lambda match: nodes[int(match.group(1))].name, reason)) from error
    unknown = [node.name for (node, _), shape in zip(keys, found) if not shape or 0 in shape]
    if unknown:
        raise _Refused(f"MXNet cannot tell that of {unknown[0]!r}")
    return found


def _tried(graph, symbol, keys, shapes):
    try:
        return _infer(graph, symbol, keys, shapes)
    except _Refused as error:
        raise _fixed(error) from error


def _same_rank(found):
    return len({len(shape) for shape in found}) == 1


def _varies(key):
    raise _fixed(f"the dimensions of {key[0].name!r} depend on it")


def _size(key, sizes):
    """One size from what it was at the batches tried."""
    if len(set(sizes)) == 1:
        return int(sizes[0])
    factor, rest = divmod(sizes[1] - sizes[0], TRIED[1] - TRIED[0])
    offset = sizes[0] - factor * TRIED[0]
    if rest or factor * TRIED[2] + offset != sizes[2] or factor < 0:
        raise _fixed(f"a size of {key[0].name!r} is {', '.join(map(str, sizes))} for "
                     f"{', '.join(map(str, TRIED))} images")
    return Batch(int(factor), int(offset))


def _fixed(reason):
    return OpError("export.onnx", f"the net does not take any batch size: {reason}",
                   "Export it for the batch in data_shape: dynamic_batch=False, or --fixed-batch")
