"""Layers of 8 bits: a model as MXNet's oneDNN operators run it, with weights that are stored as int8.

MXNet's own quantizer writes the graph: it finds what oneDNN computes in 8 bits, along with the activation, the sum and
the pooling behind a layer. But its convolution takes a float weight and quantizes it when it first runs, so files stay
as large as they were. Here the weight is stored as integers from -127 to 127, and the batch norm that oneDNN folds into
a convolution holds the scale and the bias of each channel:

    convolution(data, integers) * scale + bias

The convolution finds the same integers again, because the largest of each channel is 127. MXNet 1.9.1 divides the range
of a weight by 127.5 levels, though the largest integer is 127, so its results would be 0.4 percent too small: the scale
makes up for it. ``Module`` converts int8 to
the float32 that the graph asks for when it loads the parameters. A dense layer becomes a convolution of one pixel:
oneDNN does not fold a batch norm into a dense layer.
"""
from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

import mxnet as mx
import numpy as np
from mxnet.contrib import quantization

from ..graph import VARIABLE, Graph, Node
from ..quantization.layers import last_activation, layers_of, quantized_weight, tensor_names
from .fusion import prepare_for_fusion

if TYPE_CHECKING:
    from ..model import ExportedModel
    from ..quantization.calibration import Ranges

BACKEND = "MKLDNN_QUANTIZE"
DEQUANTIZE = "_contrib_dequantize"
MXNET_LEVELS = np.float32(127.5 / 127)   # its convolution takes the largest weight for 127.5, and stores 127
EPS = 2.0 ** -10            # of the batch norms: exact, as is 1 - EPS
SPATIAL = (0, -1, 1, 1)     # the shape of a dense layer's input as a convolution takes it
INTEGERS = "_integers"      # behind the name of a convolution of integers
IN_FLOAT = ("BatchNorm", "Convolution", "Deconvolution", "Embedding", "FullyConnected", "RNN",
            "_sg_mkldnn_fully_connected")   # operators that MXNet would quantize with float32 weights, or wrongly


def quantize(model: ExportedModel, ranges: Ranges, layers: Iterable[str]) -> ExportedModel:
    """Give a model 8-bit layers for MXNet on the CPU.

    Parameters
    ----------
    model : ExportedModel
        For inference, with batch norms folded, of MXNet's operators only.
    ranges : dict of str to (float, float)
        Lowest and highest value of the tensors, by their names in `model`; see
        :class:`gluonops.export.quantization.Statistics`.
    layers : iterable of str
        The convolutions and dense layers to quantize, by name. The others stay in float.

    Returns
    -------
    ExportedModel
        Its graph is what oneDNN runs: no pass follows. Its outputs keep their names.
    """
    model, layers = model.copy(), set(layers)
    heads = [node.name for node, _ in model.graph.heads]
    ranges, read = dict(ranges), _tensors_read(model)
    _spell_relu(model.graph)
    for layer in layers_of(model):
        if layer.name in layers:
            if layer.op == "FullyConnected":
                spatial = _make_convolution(model, layer)
                ranges[f"{spatial.name}_output"] = ranges[read[layer.name]]
            _store_as_integers(model, layer)
    model = prepare_for_fusion(model)
    attrs = model.graph.attrs
    model.graph = Graph.of(_as_mxnet_quantizes(model.graph.symbol(), ranges, layers))
    model.graph.attrs.update(attrs)
    _drop_second_dequantize(model.graph)
    _name_heads(model.graph, heads)
    used = set(model.graph.variables())
    model.parameters = {name: value for name, value in model.parameters.items() if name in used}
    return model


def _spell_relu(graph):
    """MXNet fuses the activation ``relu``, but not the operator of that name."""
    for node in graph.nodes():
        if node.op == "relu":
            node.op = "Activation"
            node.attrs = {"act_type": "relu", **node.marks()}


def _tensors_read(model):
    """Layer -> the name of the tensor that it reads."""
    tensors = tensor_names(model.graph)
    return {layer.name: tensors[layer.source().name, layer.inputs[0][1]] for layer in layers_of(model)}


def _make_convolution(model, dense):
    """Make a dense layer, in place, a convolution between two reshapes; the second is behind the activation.

    Returns the first one.
    """
    graph, name = model.graph, dense.name
    weight = dense.source(1).name
    channels = model.parameters[weight].shape[0]
    model.parameters[weight] = model.parameters[weight].expand_dims(-1).expand_dims(-1)
    dense.source(1).attrs.pop("__shape__", None)

    spatial = Node("Reshape", graph.free_name(f"{name}_spatial"), {"shape": str(SPATIAL)}, [dense.inputs[0]])
    dense.inputs[0] = spatial, 0
    dense.op = "Convolution"
    dense.attrs = {"kernel": "(1, 1)", "num_filter": str(channels), "no_bias": dense.attrs.get("no_bias", "False"),
                   **dense.marks()}

    last = last_activation(graph, dense)
    flat = Node("Flatten", graph.free_name(f"{last.name}_flat"))
    graph.replace({(last, 0): (flat, 0)})
    flat.inputs = [(last, 0)]
    return spatial


def _store_as_integers(model, layer):
    """Store a convolution's weight as int8, in place; a batch norm takes its name, its scale and its bias."""
    graph, parameters, name = model.graph, model.parameters, layer.name
    integers, scale = quantized_weight(parameters[layer.source(1).name].asnumpy())
    bias = parameters[layer.source(2).name].asnumpy() if len(layer.inputs) > 2 else np.zeros_like(scale)
    parameters[layer.source(1).name] = mx.nd.array(integers, dtype="int8")
    layer.name = graph.free_name(f"{name}{INTEGERS}")
    layer.inputs = layer.inputs[:2]
    layer.attrs["no_bias"] = "True"

    statistics = {"scale": scale * MXNET_LEVELS, "shift": bias, "mean": np.zeros_like(scale),
                  "variance": np.full_like(scale, 1 - EPS)}
    norm = Node("BatchNorm", name, {"eps": repr(EPS), "fix_gamma": "False", "use_global_stats": "True"})
    graph.replace({(layer, 0): (norm, 0)})
    norm.inputs = [(layer, 0)]
    for word, value in statistics.items():
        variable = Node(VARIABLE, graph.free_name(f"{name}_{word}"))
        norm.inputs.append((variable, 0))
        parameters[variable.name] = mx.nd.array(value)


def _as_mxnet_quantizes(symbol, ranges, layers):
    """The symbol with oneDNN's int8 operators."""
    fused = symbol.get_backend_symbol(BACKEND)
    nodes = json.loads(fused.tojson())["nodes"]
    inner = {node["name"]: _inner_names(node) for node in nodes if "subgraphs" in node}
    integers = {f"{name}{INTEGERS}" for name in layers}
    excluded = [name for name, (names, _) in inner.items() if not integers.intersection(names)]
    excluded += [node["name"] for node in nodes if _is_curved(node)]
    quantized, tensors = quantization._quantize_symbol(
        fused, mx.cpu(), excluded_symbols=excluded, excluded_operators=list(IN_FLOAT), offline_params=[],
        quantized_dtype="auto", quantize_mode="smart", quantize_granularity="channel-wise")
    outputs = {f"{name}_output": f"{last}_output" for name, (_, last) in inner.items()}
    table = {tensor: ranges[outputs.get(tensor, tensor)] for tensor in tensors if outputs.get(tensor, tensor) in ranges}
    return quantization._calibrate_quantized_sym(quantized, table).get_backend_symbol(BACKEND)


def _is_curved(node):
    """Whether a node is an activation that MXNet leaves in float; it would say so on stderr for each."""
    return node["op"] == "Activation" and node["attrs"]["act_type"] != "relu"


def _drop_second_dequantize(graph):
    """Take out what MXNet puts behind an 8-bit output that a float node reads too: the process would end there."""
    seconds = [node for node in graph.nodes() if node.op == DEQUANTIZE and node.source().op == DEQUANTIZE]
    graph.replace({(node, 0): node.inputs[0] for node in seconds})


def _inner_names(node):
    """The names of the nodes that were fused into one, and of the last of them."""
    subgraph, = node["subgraphs"]
    names = [inner["name"] for inner in subgraph["nodes"]]
    return names, names[subgraph["heads"][0][0]]


def _name_heads(graph, names):
    """Give the outputs the names that they had."""
    for (node, _), name in zip(graph.heads, names):
        if node.name != name and not node.is_variable:
            node.name = graph.free_name(name)
