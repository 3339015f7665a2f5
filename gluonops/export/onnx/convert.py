"""A model of MXNet's operators as an ONNX model.

Every tensor's shape is inferred first, at several batch sizes: what MXNet's reshapes mean follows from it, and so does
what depends on the batch. Then each node is converted by the function that the table has for its operator.
"""
from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ...core.errors import OpError
from ..graph import kind
from . import arithmetic, arrays, boxes, layers  # noqa: F401  (each fills the table)
from .constants import SHAPE_READERS, constants
from .model import Call, Model, refusal
from .registry import CONVERTERS
from .sizes import Sizes

if TYPE_CHECKING:
    import onnx

    from ..model import ExportedModel

__all__ = ["convert"]


def convert(exported: ExportedModel, dynamic_batch: bool, opset: int, metadata: dict[str, Any]) -> onnx.ModelProto:
    """The ModelProto of a model.

    Parameters
    ----------
    exported : ExportedModel
        For inference, with MXNet's operators only, with the shapes of all inputs and their ``dtype``.
    dynamic_batch : bool
    opset : int
        Version of ONNX's operators.
    metadata : dict
        To store in the file. What is not a string is stored as JSON.

    Returns
    -------
    ModelProto

    Raises
    ------
    OpError
        An operator has no converter, or is used in a way ONNX lacks; an input has no shape.
    """
    exported = exported.copy()
    graph, dtype = exported.graph, exported.metadata["dtype"]
    variables = graph.variables()
    values = {name: value for name, value in exported.parameters.items() if name in variables}
    names = [name for name in variables if name not in values]
    without_shape = [name for name in names if name not in exported.inputs]
    if without_shape:
        raise OpError("export.onnx", f"the input {without_shape[0]} has no shape and no value",
                      "Pass its shape by name in data_shape")
    shapes = {name: exported.inputs[name] for name in names}
    sizes = Sizes(graph, shapes, values, dtype, dynamic_batch)
    fixed, arrays_of = constants(graph, values, sizes)
    live = _live(graph, fixed)
    _check_converters(live)

    model = Model(names[0] if dynamic_batch and names else None, opset)
    taken = {name: model.take(name) for name in names}   # before anything else can take them
    tensors = {key: model.constant(array, key[0].name) for key, array in arrays_of.items()}
    inputs = []
    for node in graph.nodes():
        key = node, 0
        if node.is_variable and node.name in shapes:
            tensors[key] = taken[node.name]
            inputs.append((tensors[key], sizes.shape[key], sizes.dtype[key]))
        elif node in live:
            _convert(model, node, tensors, sizes)
    outputs = [(_made(tensors, head), name, sizes.shape[head], sizes.dtype[head])
               for head, name in zip(graph.heads, graph.symbol().list_outputs())]
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in metadata.items()}
    return model.finish(inputs, outputs, texts)


def _live(graph, fixed):
    """The nodes whose values count, in order: not the constant ones, nor those of which only the shape is read."""
    live, waiting = set(), [node for node, _ in graph.heads]
    while waiting:
        node = waiting.pop()
        if node in live or node in fixed or node.is_variable:
            continue
        live.add(node)
        shape_only = SHAPE_READERS.get(node.op, ())
        waiting += [source for i, (source, _) in enumerate(node.inputs) if i not in shape_only]
    return live


def _check_converters(live):
    lacking = sorted((node for node in live if node.op not in CONVERTERS), key=lambda node: (kind(node), node.name))
    if lacking:
        first, *others = dict.fromkeys(map(kind, lacking))
        raise OpError("export.onnx", f"the node {lacking[0].name!r} is the operator {first}, which has no converter to "
                      "ONNX" + f"; nor have {', '.join(others)}" * bool(others),
                      "Replace it in the net, or export symbol JSON")


def _convert(model, node, tensors, sizes):
    shape_only = SHAPE_READERS.get(node.op, ())
    call = Call(node, ["" if i in shape_only else _made(tensors, entry) for i, entry in enumerate(node.inputs)], sizes)
    model.source = node.name
    results = CONVERTERS[node.op](model, call)
    for index, result in enumerate(results if isinstance(results, list) else [results]):
        tensors[node, index] = result


def _made(tensors, entry):
    """The tensor of an output that somebody reads."""
    if entry not in tensors:
        raise refusal(entry[0], f"has its output {entry[1]} read, which its converter does not make")
    return tensors[entry]
