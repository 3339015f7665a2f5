"""Layers of 8 bits: a model as MXNet's oneDNN operators run it, with weights that are stored as int8.

MXNet's own quantizer writes the graph: it finds what oneDNN computes in 8 bits, along with the activation, the sum and
the pooling behind a layer. But its convolution takes a float weight and quantizes it when it first runs, so files stay
as large as they were. Here the weight is stored as integers from -127 to 127, and the batch norm that oneDNN folds into
a convolution holds the scale and the bias of each channel:

    convolution(data, integers) * scale + bias

The convolution finds the integers again: it divides by the largest magnitude of the channel, which is 127. But MXNet
1.9.1 multiplies by 127.5 for it. Results would be 0.4 percent too small, so the scale makes up for it. And -127 becomes
-127.5, which is rounded to -128, so channels whose largest weight is negative have that integer in mind. ``Module``
converts int8 to the float32 that the graph asks for when it loads the parameters. A dense layer becomes a convolution
of one pixel: oneDNN does not fold a batch norm into a dense layer.

A processor without VNNI multiplies uint8 by int8 and adds the products in pairs of 16 bits, where 255 * 127 * 2 is cut
to 32,767. oneDNN's convolution of int8 data avoids that: it adds 128 to the data and halves the weights, which it then
rounds again. So every tensor is int8, also where no value is negative, and weights are even integers, whose halves are
exact: the products are the same on every processor, and no pair exceeds 255 * (64 + 64) = 32,640. A ReLU makes uint8 of
a convolution's output. It becomes a leaky ReLU with the slope ``SLOPE``, whose negative outputs are 0 in 8 bits.

MXNet 1.9.1 computes some operators wrongly in 8 bits, or the process ends. They stay in float: those with the trait
``stays_float``, and what ``_mixed_sums`` and ``_is_float_pooling`` find.
"""
from __future__ import annotations

from collections.abc import Iterable

import mxnet as mx
import numpy as np
from mxnet.contrib import quantization

from ..graph import VARIABLE, Graph, Node
from ..model import ExportedModel
from ..operators import having, traits_of
from ..operators.activations import is_relu
from ..operators.attributes import attributes_of
from ..quantization.quantizable import last_activation, layers_of, quantized_weight, tensor_names
from ..quantization.running import Ranges, symmetric
from ..sizes import known_types
from .fusion import SUM, prepare_for_fusion, unfuse

BACKEND = "MKLDNN_QUANTIZE"
CONVOLUTION = "_sg_mkldnn_conv"
DEQUANTIZE = "_contrib_dequantize"
LARGEST = 127                        # the largest integer of a weight in the file
MXNET_LARGEST = np.float32(127.5)   # what MXNet's convolution makes of it
SLOPE = 1e-30               # of a leaky ReLU that is a ReLU in 8 bits
ATTEMPTS = 40               # an attempt to find a float fails in less than a third of the cases
EPS = 2.0 ** -10            # the batch norms' epsilon; it is exact, as is 1 - EPS
SPATIAL = (0, -1, 1, 1)     # the shape of a dense layer's input as a convolution takes it
INTEGERS = "_integers"      # It ends the name of a convolution of integers.


def quantize(model: ExportedModel, ranges: Ranges, layers: Iterable[str], vnni_only: bool = False) -> ExportedModel:
    """Give a model 8-bit layers for MXNet on the CPU.

    Parameters
    ----------
    model : ExportedModel
        For inference, with batch norms folded, of MXNet's operators only.
    ranges : dict of str to (float, float)
        Lowest and highest value of the tensors, by their names in `model`; see
        :class:`gluonops.export.quantization.calibration.Statistics`.
    layers : iterable of str
        The convolutions and dense layers to quantize, by name. The others stay in float.
    vnni_only : bool, default False
        Use all 8 bits of weights and of tensors without negative values. Sums saturate on processors without VNNI.

    Returns
    -------
    ExportedModel
        Its graph is what oneDNN runs: no pass follows. Its outputs keep their names.
    """
    model, layers = model.copy(), set(layers)
    names_of_outputs = [node.name for node, _ in model.graph.outputs]
    ranges, names = dict(ranges) if vnni_only else symmetric(ranges), tensor_names(model.graph)
    read = {layer.name: names[layer.source().name, layer.inputs[0][1]] for layer in layers_of(model)}
    for node in model.graph.nodes():
        if node.op == "relu":   # MXNet fuses the activation of that name, but not the operator
            node.op, node.attrs = "Activation", {"act_type": "relu", **node.marks()}
    for layer in layers_of(model):
        if layer.name in layers:
            if layer.op == "FullyConnected":
                spatial = _make_convolution(model, layer)
                ranges[f"{spatial.name}_output"] = ranges[read[layer.name]]
            layer.op = "Convolution"   # Convolution_v1 is an older name of it, which oneDNN does not know
            _store_as_integers(model, layer, vnni_only)
    model = prepare_for_fusion(model)
    attrs = model.graph.attrs
    replaced = {} if vnni_only else _replace_activations(model.graph, ranges)
    model.graph = _quantized_graph(model, ranges, layers)
    _restore_activations(model.graph, replaced)
    model.graph.attrs.update(attrs)
    for (node, _), name in zip(model.graph.outputs, names_of_outputs):
        if node.name != name and not node.is_variable:
            node.name = model.graph.free_name(name)
    return model


def _make_convolution(model, dense):
    """Make a dense layer, in place, a convolution behind a reshape, which is returned, and before another."""
    graph, name = model.graph, dense.name
    weight = dense.source(1).name
    channels = model.parameters[weight].shape[0]
    model.parameters[weight] = model.parameters[weight].expand_dims(-1).expand_dims(-1)
    dense.source(1).attrs.pop("__shape__", None)

    spatial = Node("Reshape", graph.free_name(f"{name}_spatial"), {"shape": str(SPATIAL)}, [dense.inputs[0]])
    dense.inputs[0] = spatial, 0
    no_bias = attributes_of(dense)["no_bias"]
    dense.op = "Convolution"
    dense.attrs = {"kernel": "(1, 1)", "num_filter": str(channels), "no_bias": str(no_bias), **dense.marks()}

    last = last_activation(graph, dense)
    flat = Node("Flatten", graph.free_name(f"{last.name}_flat"))
    graph.replace({(last, 0): (flat, 0)})
    flat.inputs = [(last, 0)]
    return spatial


def _store_as_integers(model, layer, vnni_only):
    """Store a convolution's weight as int8, in place; a batch norm takes its name, its scale and its bias."""
    graph, parameters, name = model.graph, model.parameters, layer.name
    weight = parameters[layer.source(1).name].asnumpy()
    if vnni_only:
        integers, scale = quantized_weight(weight, (-128, 127))   # MXNet makes -128 of -127.
    else:
        halves, scale = quantized_weight(weight)
        integers, scale = 2 * halves.astype(int), scale / 2
    integers = integers.clip(-LARGEST, LARGEST)
    bias = parameters[layer.source(2).name].asnumpy() if len(layer.inputs) > 2 else np.zeros_like(scale)
    parameters[layer.source(1).name] = mx.nd.array(integers, dtype="int8")
    layer.name = graph.free_name(f"{name}{INTEGERS}")
    layer.inputs = layer.inputs[:2]
    layer.attrs["no_bias"] = "True"

    statistics = {"scale": _scale_to_store(scale), "shift": bias, "mean": np.zeros_like(scale),
                  "variance": np.full_like(scale, 1 - EPS)}
    norm = Node("BatchNorm", name, {"eps": repr(EPS), "fix_gamma": "False", "use_global_stats": "True"})
    graph.replace({(layer, 0): (norm, 0)})
    norm.inputs = [(layer, 0)]
    for word, value in statistics.items():
        variable = Node(VARIABLE, graph.free_name(f"{name}_{word}"))
        norm.inputs.append((variable, 0))
        parameters[variable.name] = mx.nd.array(value)


def _scale_to_store(scale):
    """The scale to store, so that MXNet's convolution computes with ``scale``, and makes -128 of -127.

    It multiplies a channel by 127.5 / its largest magnitude, and rounds. That is -127.5 for -127, and a tie goes to the
    even integer. Where the float is a little off the tie, a next one is not.
    """
    scale = (scale * (MXNET_LARGEST / LARGEST)).astype(np.float32)
    for _ in range(ATTEMPTS):
        largest = np.float32(LARGEST) * scale
        is_tie = largest * (MXNET_LARGEST / largest) >= MXNET_LARGEST
        scale = np.where(is_tie, scale, np.nextafter(scale, np.float32(np.inf)))
    return scale


def _replace_activations(graph, ranges):
    """Make a leaky ReLU, in place, of every activation whose output would be uint8. Returns what they were, by name.

    That of ``clip(x, 0, 6)`` is cut at the end of its range, which is at most 6.
    """
    replaced = {}
    for node in graph.nodes():
        is_clip = node.op == "clip" and attributes_of(node)["a_min"] == 0
        if is_relu(node) or is_clip:
            replaced[node.name] = node.op, node.attrs
            if is_clip:
                low, high = ranges[f"{node.name}_output"]
                ranges[f"{node.name}_output"] = low, min(high, attributes_of(node)["a_max"])
            node.op, node.attrs = "LeakyReLU", {"act_type": "leaky", "slope": repr(SLOPE), **node.marks()}
    return replaced


def _restore_activations(graph, replaced):
    """Undo :func:`_replace_activations`, in place, where the output is float."""
    nodes = graph.nodes()
    for node in nodes:
        if node.op == CONVOLUTION and (node.has("enable_float_output") or not node.has("quantized")):
            nodes = nodes + node.subgraphs[0].nodes()
    for node in nodes:
        if node.op == "LeakyReLU" and node.name in replaced:
            node.op, node.attrs = replaced[node.name]


def _quantized_graph(model, ranges, layers):
    """The graph of oneDNN's int8 operators. Takes the sums that MXNet would compute wrongly out of the fusion."""
    inputs = [name for name in model.graph.variables() if name not in model.parameters]
    while True:
        with model.graph.mode():   # MXNet writes it in the graph
            quantized = Graph.of(_as_mxnet_quantizes(model.graph.symbol(), ranges, layers))
        # MXNet puts a second one behind an 8-bit output that a float node reads too, and would end there.
        seconds = [node for node in quantized.nodes() if node.op == DEQUANTIZE and node.source().op == DEQUANTIZE]
        quantized.replace({(node, 0): node.inputs[0] for node in seconds})
        mixed = _mixed_sums(quantized, inputs)
        if not mixed:
            return quantized
        for node in model.graph.nodes():
            if node.name in mixed:
                unfuse(node)


def _mixed_sums(graph, inputs):
    """The names of the sums in a convolution that add int8 to uint8.

    The convolution adds to what is in its output. MXNet 1.9.1 converts the other summand to the output's type without
    its scale: negative values become 0, and those above 127 become 127.
    """
    types = known_types(graph, dict.fromkeys(inputs, "float32"))
    names = set()
    for node in graph.nodes():
        if node.op == CONVOLUTION and node.has("quantized") and node.has("with_sum"):
            _, summand = [source for source, index in node.inputs if not source.is_variable and index == 0]
            if types[summand, 0] != types[node, 0]:
                names.update(inner.name for inner in node.subgraphs[0].nodes() if inner.op == SUM)
    return names


def _as_mxnet_quantizes(symbol, ranges, layers):
    fused = symbol.get_backend_symbol(BACKEND)
    nodes = Graph.of(fused).nodes()
    inner = {node.name: node.subgraphs[0] for node in nodes if node.subgraphs}
    integers = {f"{name}{INTEGERS}" for name in layers}
    excluded = [name for name, graph in inner.items() if not integers.intersection(node.name for node in graph.nodes())]
    excluded += [node.name for node in nodes if _is_float_pooling(node)]
    quantized, tensors = quantization._quantize_symbol(
        fused, mx.cpu(), excluded_symbols=excluded, excluded_operators=sorted(having("stays_float")), offline_params=[],
        quantized_dtype="auto", quantize_mode="smart", quantize_granularity="channel-wise")
    outputs = {f"{name}_output": f"{graph.outputs[0][0].name}_output" for name, graph in inner.items()}
    table = {tensor: ranges[outputs.get(tensor, tensor)] for tensor in tensors if outputs.get(tensor, tensor) in ranges}
    return quantization._calibrate_quantized_sym(quantized, table).get_backend_symbol(BACKEND)


def _is_float_pooling(node):
    """Whether a node is a pooling that stays in float.

    A mean is smaller than the largest values, and would have few of the levels that its input's range has. oneDNN
    computes no other sums of windows in 8 bits, and MXNet 1.9.1 computes the means of cut windows wrongly.
    """
    return traits_of(node).acts_as == "pooling" and attributes_of(node)["pool_type"] != "max"
