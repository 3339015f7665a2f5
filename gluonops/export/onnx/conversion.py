"""Converts a model of MXNet's operators, and of those of gluonops that ONNX has, to an ONNX model.

The shapes of all tensors are inferred first, for a batch whose size is free. They show what a reshape of MXNet's means,
and which sizes depend on the batch. Then each node is converted by its operator's function in the table of converters.
"""
from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract.errors import OpError
from ..constants import constants
from ..graph import INPUT_TYPE, Entry, Graph, Node, kind
from ..loops import unroll, without_branches
from ..model import ExportedModel
from ..operators.rule_registry import operator_of, traits_of
from ..sizes import Sizes
from ..symbolic import Undecided
from .builder import CONVERTERS, Model, OnnxCall, Tensor, refusal
from .qdq import Quantization, Quantizer

if TYPE_CHECKING:
    import onnx

WHERE = "export.onnx"


def convert(exported: ExportedModel, dynamic_batch: bool, opset: int, metadata: dict[str, Any],
            quantization: Quantization | None = None) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The ModelProto of a model without its large constants, and those by name.

    - ``exported``: for inference, with operators of the table only. It has the shapes of all inputs and, in the
      metadata, their ``dtype``.
    - ``metadata``: properties to store in the file, strings as they are and other values as JSON.

    An OpError is raised if an operator has no converter, or is used in a way that ONNX lacks.
    """
    exported = exported.copy()
    graph = exported.graph
    without_branches(graph, refusal)
    values = exported.parameters
    variables = set(graph.variables())
    shapes = {name: shape for name, shape in exported.inputs.items() if name in variables}
    sizes = Sizes(graph, shapes, values, exported.metadata["dtype"], dynamic_batch)
    while unroll(graph, sizes, refusal):
        sizes = Sizes(graph, shapes, values, exported.metadata["dtype"], dynamic_batch)
    constant, constant_values = constants(graph, values, sizes)
    live = _live(graph, constant)
    _check_converters(live)

    batch_input = next(iter(shapes), None) if dynamic_batch else None
    model = Model(batch_input, opset)
    quantizer = Quantizer(model, graph, quantization, constant_values)
    input_names = {name: model.take(name) for name in shapes}   # first, so that nothing else takes these names
    tensors = {entry: model.constant(array, entry[0].name) for entry, array in constant_values.items()}
    inputs = {}
    for node in graph.nodes():
        entry = node, 0
        if node.is_variable and node.name in shapes:
            name = input_names[node.name]
            dtype = np.dtype(node.attrs.get(INPUT_TYPE, sizes.dtype[entry]))   # A cast to that type reads it.
            inputs[node.name] = name, sizes.shape[entry], dtype
            tensors[entry] = quantizer.input(node, Tensor(model, name, dtype))
        elif node in live:
            _convert(model, node, tensors, sizes, quantizer)

    is_detector = metadata.get("task") == "detection" and len(graph.outputs) == 3
    names = ["ids", "scores", "boxes"] if is_detector else graph.symbol().list_outputs()
    outputs = [(_tensor(tensors, output).name, name, sizes.shape[output], sizes.dtype[output])
               for output, name in zip(graph.outputs, names)]
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in metadata.items()}
    graph_inputs = [inputs[name] for name in shapes if name in inputs]   # others are read for a fixed shape alone
    return model.finish(graph_inputs, outputs, texts)


def _live(graph: Graph, constant: set[Node]) -> set[Node]:
    """The nodes to convert: neither constant nor read for their shape only."""
    read = {node for node, _ in graph.outputs}
    for node in reversed(graph.nodes()):
        if node in read and node not in constant:
            shape_only = traits_of(node).shape_inputs
            read.update(source for i, (source, _) in enumerate(node.inputs) if i not in shape_only)
    return {node for node in read if node not in constant and not node.is_variable}


def _check_converters(live: set[Node]) -> None:
    lacking = [node for node in live if operator_of(node) not in CONVERTERS]
    if not lacking:
        return
    lacking.sort(key=lambda node: (kind(node), node.name))
    first, *others = dict.fromkeys(kind(node) for node in lacking)
    what = f"the node {lacking[0].name!r} is the operator {first}, which has no converter to ONNX"
    if others:
        what += f", and neither have {', '.join(others)}"
    raise OpError(WHERE, what, "Replace it in the net, or export symbol JSON")


def _convert(model: Model, node: Node, tensors: dict[Entry, Tensor], sizes: Sizes, quantizer: Quantizer) -> None:
    """Add the ONNX nodes of one node, and enter its outputs in ``tensors``."""
    shape_only = traits_of(node).shape_inputs
    inputs = [None if i in shape_only else _tensor(tensors, entry) for i, entry in enumerate(node.inputs)]
    model.source = node.name
    try:
        results = CONVERTERS[operator_of(node)](OnnxCall(model, node, quantizer.inputs(node, inputs), sizes))
    except OverflowError as error:   # of an attribute; MXNet's result depends on the processor
        raise refusal(node, f"has an attribute that does not fit its integer type ({error})") from error
    except Undecided as error:
        raise refusal(node, f"has no converter for sizes that are free: {error}") from error
    if not isinstance(results, list):
        results = [results]
    for index, result in enumerate(results):
        typed = Tensor(model, result.name, sizes.dtype.get((node, index), result.dtype))
        tensors[node, index] = quantizer.output(node, index, typed)


def _tensor(tensors: dict[Entry, Tensor], entry: Entry) -> Tensor:
    """The tensor of an output. An OpError is raised if its converter does not make it."""
    if entry not in tensors:
        raise refusal(entry[0], f"has an output {entry[1]} that is read, and its converter does not write that output")
    return tensors[entry]
