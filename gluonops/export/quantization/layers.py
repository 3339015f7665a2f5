"""Layers that can be quantized, their weights as int8, and the error that quantizing one of them makes."""
from __future__ import annotations

from collections.abc import Iterable, Sequence

import mxnet as mx
import numpy as np

from ..graph import Graph, Node
from ..model import ExportedModel
from .calibration import Batch, Ranges, Runner

CHANNELS_FIRST = ("None", "NCHW")
ACTIVATIONS = ("Activation", "LeakyReLU", "relu")
LAYERS = ("Convolution", "FullyConnected", "Deconvolution")
LEVELS = 127   # of a weight's magnitude: -128 is not used


def layers_of(model: ExportedModel) -> list[Node]:
    """The layers with a weight, in the order of the graph."""
    return [node for node in model.graph.nodes() if node.op in LAYERS]


def reason_for_float(model: ExportedModel, layer: Node) -> str | None:
    """Why a layer cannot be quantized; None where it can.

    Parameters
    ----------
    model : ExportedModel
    layer : Node

    Returns
    -------
    str or None
    """
    if layer.op == "Deconvolution":
        return "oneDNN has no int8 deconvolution in MXNet"
    if layer.op == "FullyConnected" and not layer.flag("flatten", True):
        return "it keeps the axes of its input"
    if layer.op == "Convolution" and layer.attrs["kernel"].count(",") != 1:
        return "it is not two-dimensional"
    if layer.attrs.get("layout", "None") not in CHANNELS_FIRST:
        return "its channels are not the second axis"
    readers = model.graph.readers()
    for variable, _ in layer.inputs[1:]:
        if variable.name not in model.parameters:
            return "its weight is computed"
        if len(readers[variable]) > 1:
            return "it shares its weight"
        if model.parameters[variable.name].dtype != np.float32:
            return "its weight is not float32"
    return None


def tensor_names(graph: Graph) -> dict[tuple[str, int], str]:
    """MXNet's names of all tensors, by the node's name and the number of its output."""
    names, counts = {}, {}
    for tensor in graph.symbol().get_internals():
        index = counts.get(tensor.name, 0)
        names[tensor.name, index] = tensor.list_outputs()[0]
        counts[tensor.name] = index + 1
    return names


def quantized_weight(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A weight as integers with a scale for each output channel: the weight is about ``integers * scale``.

    Parameters
    ----------
    weight : numpy.ndarray
        (channels, ...).

    Returns
    -------
    integers : numpy.ndarray
        int8, from -127 to 127. The largest magnitude of a channel is 127.
    scale : numpy.ndarray
        float32, (channels,). 1 for a channel of zeros.
    """
    largest = np.abs(weight).reshape(len(weight), -1).max(axis=1)
    scale = np.where(largest > 0, largest / LEVELS, 1).astype(np.float32)
    integers = np.rint(weight / _per_channel(scale, weight.ndim))
    return integers.clip(-LEVELS, LEVELS).astype(np.int8), scale


def _per_channel(scale, ndim):
    return scale.reshape((-1,) + (1,) * (ndim - 1))


def last_activation(graph: Graph, layer: Node) -> Node:
    """The activation that oneDNN computes along with a layer; the layer itself where there is none."""
    following = graph.readers()[layer]
    if len(following) == 1 and following[0] is not None:
        if following[0].op in ACTIVATIONS and len(following[0].inputs) == 1:
            return following[0]
    return layer


def simulated(model: ExportedModel, ranges: Ranges, names: Iterable[str]) -> ExportedModel:
    """A float model that computes what int8 layers would: their inputs, weights and outputs are rounded to 8 bits.

    Parameters
    ----------
    model : ExportedModel
        For inference, of MXNet's operators only.
    ranges : dict of str to (float, float)
        Of the layers' inputs and outputs.
    names : iterable of str
        Of the layers.

    Returns
    -------
    ExportedModel
    """
    model, names = model.copy(), set(names)
    tensors = tensor_names(model.graph)
    for layer in layers_of(model):
        if layer.name in names:
            weight = layer.source(1).name
            integers, scale = quantized_weight(model.parameters[weight].asnumpy())
            model.parameters[weight] = mx.nd.array(integers * _per_channel(scale, integers.ndim), dtype="float32")
            entry, last = layer.inputs[0], last_activation(model.graph, layer)
            if (entry[0].name, entry[1]) in tensors:   # or another layer's rounded output
                layer.inputs[0] = _rounded(layer, entry, *ranges[tensors[entry[0].name, entry[1]]])
            output = _rounded(last, (last, 0), *ranges[tensors[last.name, 0]])
            model.graph.replace({(last, 0): output})
            output[0].source().inputs = [(last, 0)]
    return model


def _rounded(node, entry, low, high):
    """A tensor in 8 bits, as MXNet's quantizer rounds it: symmetric around 0, or without a sign."""
    place = "input" if entry[0] is not node else "output"
    attrs = {"out_type": "auto", "min_calib_range": repr(low), "max_calib_range": repr(high)}
    quantized = Node("_contrib_quantize_v2", f"{node.name}_{place}_quantized", attrs, [entry])
    return Node("_contrib_dequantize", f"{node.name}_{place}_rounded", {"out_type": "float32"},
                [(quantized, 0), (quantized, 1), (quantized, 2)]), 0


def errors_of_layers(model: ExportedModel, ranges: Ranges, names: Sequence[str],
                     batches: Sequence[Batch]) -> dict[str, float]:
    """The error of the outputs if one layer alone is quantized, for each layer.

    Parameters
    ----------
    model : ExportedModel
        For inference, of MXNet's operators only.
    ranges : dict of str to (float, float)
    names : sequence of str
        The layers.
    batches : sequence of dict of str to NDArray

    Returns
    -------
    dict of str to float
        See :func:`relative_error`.
    """
    expected = run(model, batches)
    return {name: relative_error(run(simulated(model, ranges, [name]), batches), expected) for name in names}


def run(model: ExportedModel, batches: Sequence[Batch]) -> list[list[np.ndarray]]:
    """The outputs of every batch."""
    runner = Runner(model.graph.symbol(), model.parameters)
    return [runner(batch) for batch in batches]


def relative_error(got: Sequence[Sequence[np.ndarray]], expected: Sequence[Sequence[np.ndarray]]) -> float:
    """The root of the mean squared error of an output, divided by that output's root mean square; the worst output's.

    Parameters
    ----------
    got, expected : sequence of sequence of numpy.ndarray
        Outputs of every batch.

    Returns
    -------
    float
        0 where both are equal; infinite where an output of zeros is not reproduced, or something is not finite.
    """
    return max(_relative_error_of_one(ours, theirs) for ours, theirs in zip(zip(*got), zip(*expected)))


def _relative_error_of_one(got, expected):
    got = np.concatenate([array.ravel() for array in got]).astype(np.float64)
    expected = np.concatenate([array.ravel() for array in expected]).astype(np.float64)
    difference, size = np.linalg.norm(got - expected), np.linalg.norm(expected)
    if not np.isfinite(difference):
        return float("inf")
    if not difference:
        return 0.0
    return float(difference / size) if size else float("inf")
