"""The layers that can be quantized, and their weights as int8."""
from __future__ import annotations

import dataclasses
from collections.abc import Container

import mxnet as mx
import numpy as np

from ..graph import VARIABLE, Graph, Node
from ..model import ExportedModel
from ..operators import having, traits_of
from ..operators.attributes import attributes_of
from ..values import NodeValues

# oneDNN computes these along with a convolution; a relu becomes an Activation of that name before.
ACTIVATIONS = having("is_activation") & having("fuses_behind_convolution") | {"relu"}
# The lowest and the largest integer of a weight. Without VNNI, a processor adds products of activations and weights in
# pairs, and cuts each sum to 16 bits. SAFE weights have seven bits: no sum exceeds 255 * (64 + 64) = 32640 then.
SAFE, ALL = (-64, 64), (-127, 127)
JUMPS = having("ranks", "ranks_rows")   # Their outputs jump from one value to another.


@dataclasses.dataclass(frozen=True)
class QuantizedLayer:
    """A row of the table.

    Attributes
    ----------
    name, operator : str
    error : float or None
        The relative error of the net's outputs if this layer alone is quantized; None if it cannot be.
    reason : str
        Why it stays in float; empty where it is quantized.
    """

    name: str
    operator: str
    error: float | None
    reason: str

    @property
    def is_quantized(self) -> bool:
        return not self.reason


def layers_of(model: ExportedModel) -> list[Node]:
    """The layers with a weight, in the order of the graph."""
    return [node for node in model.graph.nodes() if traits_of(node).is_linear]


def reason_for_float(model: ExportedModel, layer: Node) -> str | None:
    """Why a layer cannot be quantized; None where it can."""
    if layer.op == "Deconvolution":
        return "oneDNN has no int8 deconvolution in MXNet"
    if layer.op == "FullyConnected" and not attributes_of(layer)["flatten"]:
        return "it keeps the axes of its input"
    if traits_of(layer).acts_as == "convolution" and len(attributes_of(layer)["kernel"]) != 2:
        return "it is not two-dimensional"
    if NodeValues(layer, []).has_channels_last:
        return "its channels are not the second axis"
    if attributes_of(last_activation(model.graph, layer)).get("act_type") == "gelu":
        return "MXNet computes gelu wrongly behind int8"
    readers = model.graph.readers()
    for variable, _ in layer.inputs[1:]:
        if variable.name not in model.parameters:
            return "its weight is computed"
        if len(readers[variable]) > 1:
            return "it shares its weight"
        if model.parameters[variable.name].dtype != np.float32:
            return "its weight is not float32"
    return None


def steady(model: ExportedModel) -> ExportedModel:
    """The model; where its outputs jump from one value to another, one whose outputs are those of the last layers."""
    if not layers_of(model) or not any(node.op in JUMPS for node in model.graph.nodes()):
        return model
    model = model.copy()
    layers = layers_of(model)
    feeding = set().union(*(set(Graph(layer.inputs, {}).nodes()) for layer in layers))
    model.graph.outputs = [(layer, 0) for layer in layers if layer not in feeding]
    return model


def tensor_names(graph: Graph) -> dict[tuple[str, int], str]:
    """MXNet's names of all tensors, by the node's name and the number of its output."""
    names, counts = {}, {}
    for tensor in graph.symbol().get_internals():
        index = counts.get(tensor.name, 0)
        names[tensor.name, index] = tensor.list_outputs()[0]
        counts[tensor.name] = index + 1
    return names


def quantized_weight(weight: np.ndarray, levels: tuple[int, int] = SAFE) -> tuple[np.ndarray, np.ndarray]:
    """A weight as integers with a scale for each output channel: the weight is about ``integers * scale``.

    The integers are int8, from the lower to the upper of the ``levels``. Each channel that is not all zeros has one of
    the two. The scale is float32, (channels,), and 1 for a channel of zeros.
    """
    lowest, largest = levels
    channels = weight.reshape(len(weight), -1)
    scale = np.maximum(channels.max(axis=1) / largest, channels.min(axis=1) / lowest)
    scale = np.where(scale > 0, scale, 1).astype(np.float32)
    integers = np.rint(weight / per_channel(scale, weight.ndim))
    return integers.clip(lowest, largest).astype(np.int8), scale


def with_corrected_biases(model: ExportedModel, names: Container[str], means: dict[str, np.ndarray],
                          levels: tuple[int, int] = SAFE) -> ExportedModel:
    """A copy of a model whose biases make up for what rounding the weights of layers adds to their outputs' means.

    A rounded weight differs from the weight by ``d``, and the mean of the output by the sum of ``d * mean(input)``. It
    is subtracted from the bias (Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias
    Correction", section 4.2). A layer without a bias gets one.

    ``names`` are those of the layers. ``means``: of the channels of tensors, by MXNet's names; see
    :class:`.calibration.Statistics`. ``levels``: as :func:`quantized_weight` takes them.
    """
    model = model.copy()
    tensors, parameters = tensor_names(model.graph), model.parameters
    for layer in layers_of(model):
        if layer.name not in names:
            continue
        weight = parameters[layer.source(1).name].asnumpy()
        integers, scale = quantized_weight(weight, levels)
        groups = attributes_of(layer)["num_group"] if traits_of(layer).acts_as == "convolution" else 1
        added = (integers * per_channel(scale, weight.ndim) - weight).reshape(groups, len(weight) // groups, -1)
        mean = means[tensors[layer.source().name, layer.inputs[0][1]]]
        mean = np.repeat(mean, added.shape[2] * groups // len(mean)).reshape(groups, -1)
        _subtract_from_bias(model, layer, np.einsum("goi,gi->go", added, mean).ravel())
    return model


def _subtract_from_bias(model, layer, values):
    if len(layer.inputs) == 2:
        variable = Node(VARIABLE, model.graph.free_name(f"{layer.name}_bias"))
        layer.inputs.append((variable, 0))
        layer.attrs["no_bias"] = "False"
        model.parameters[variable.name] = mx.nd.zeros(len(values))
    name = layer.source(2).name
    model.parameters[name] = model.parameters[name] - mx.nd.array(values)


def per_channel(scale: np.ndarray, ndim: int) -> np.ndarray:
    """The scales in a shape that a weight with ``ndim`` axes can be multiplied by."""
    return scale.reshape((-1,) + (1,) * (ndim - 1))


def last_activation(graph: Graph, layer: Node) -> Node:
    """The activation that oneDNN computes along with a layer; the layer itself where there is none."""
    return graph.chain(layer, ACTIVATIONS)[:2][-1]
