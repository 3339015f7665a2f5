"""Folds batch norms into the weights and biases of the convolutions and dense layers in front of them."""
from __future__ import annotations

import mxnet as mx
import numpy as np

from ...contract.errors import OpError
from ..constants import evaluate, parameter_only
from ..graph import VARIABLE, Graph, Node
from ..model import ExportedModel
from ..operators import traits_of
from ..operators.attributes import attributes_of
from ..operators.normalization import channel_axis
from ..sizes import Arrays
from ..values import NodeValues


def fold_batch_norm(model: ExportedModel) -> ExportedModel:
    """Fold batch norms where possible.

    With ``scale = gamma / sqrt(variance + eps)`` per channel, the layer's weight becomes ``weight * scale`` and its
    bias ``(bias - mean) * scale + beta``. They are computed in float64. A batch norm is left alone if

    - something else reads its input, or its input is not such a layer,
    - it normalizes along another axis than the layer's channels,
    - its scale is not finite, or its parameters depend on an input,
    - the layer shares a weight with another node, or has a channels-last layout.

    Parameters
    ----------
    model : ExportedModel
        For inference: the running statistics replace those of the batch.

    Returns
    -------
    ExportedModel
        With the new weights and biases, and without parameters that nothing reads.

    Raises
    ------
    OpError
        A parameter of a batch norm does not have one number per channel of the layer.
    """
    model = model.copy()
    graph, values = model.graph, model.parameters
    for node in graph.nodes():
        if traits_of(node).uses_statistics and _fits(graph, node, values):
            _fold(graph, node, values)
    used = set(graph.variables())
    model.parameters = {name: value for name, value in values.items() if name in used}
    return model


def _fits(graph: Graph, norm: Node, values: Arrays) -> bool:
    layer, index = norm.inputs[0]
    if not traits_of(layer).is_linear or index > 0 or not has_own_weights(graph, layer, values):
        return False
    read = {entry for node in graph.nodes() for entry in node.inputs}
    if graph.readers()[layer] != [norm] or not read.isdisjoint([(norm, 1), (norm, 2)]):   # its mean and variance
        return False
    if not parameter_only(graph, values).issuperset(source for source, _ in norm.inputs[1:]):
        return False
    return channel_axis(norm) in _channel_axes(layer)


def has_own_weights(graph: Graph, layer: Node, values: Arrays) -> bool:
    """Whether a layer's channels come first, and nothing else reads its parameters."""
    readers = graph.readers()
    is_own = all(len(readers[weight]) == 1 and weight.name in values for weight, _ in layer.inputs[1:])
    return is_own and not NodeValues(layer, []).has_channels_last


def _channel_axes(layer: Node) -> tuple[int, ...]:
    """The axis of the channels in a layer's output, from the front and from the back, as far as it is known."""
    if layer.op == "FullyConnected":
        return (1, -1) if attributes_of(layer)["flatten"] else (-1,)
    return 1, -1 - len(attributes_of(layer)["kernel"])


def _fold(graph: Graph, norm: Node, values: Arrays) -> None:
    """Fold a batch norm, unless its scale is not finite, as for a variance and an eps of 0."""
    layer = norm.source()
    parameters = [array.astype(np.float64) for array in evaluate(norm.inputs[1:], values, graph.attrs)]
    _check_channels(layer, norm, values, parameters)
    gamma, beta, mean, variance = parameters
    given = attributes_of(norm)
    if given["fix_gamma"]:
        gamma = np.ones_like(gamma)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = gamma / np.sqrt(variance + given["eps"])
    if not np.isfinite(scale).all():
        return

    weight_name = layer.source(1).name
    weight = values[weight_name]
    values[weight_name] = _like(_scaled(layer, weight.asnumpy().astype(np.float64), scale), weight)
    if len(layer.inputs) > 2:
        bias = values[layer.source(2).name].asnumpy().astype(np.float64)
    else:
        bias = 0.0
        layer.inputs.append((Node(VARIABLE, graph.free_name(f"{layer.name}_bias")), 0))
        layer.attrs["no_bias"] = "False"
    values[layer.source(2).name] = _like((bias - mean) * scale + beta, weight)
    result = norm.inputs[0]
    if any(node is norm for node, _ in graph.outputs):   # a copy keeps the output's name
        result = Node("_copy", norm.name, norm.marks(), [result]), 0
    graph.replace({(norm, 0): result})


def _check_channels(layer: Node, norm: Node, values: Arrays, parameters: list[np.ndarray]) -> None:
    shape = values[layer.source(1).name].shape
    channels = shape[0]
    if layer.op == "Deconvolution":
        channels = shape[1] * attributes_of(layer)["num_group"]
    for word, array in zip(("gamma", "beta", "mean", "variance"), parameters):
        if array.shape != (channels,):
            raise OpError("export", f"the batch norm {norm.name!r} has a {word} of shape {array.shape} behind "
                          f"{layer.name!r}; expected ({channels},)", "Pass the parameters exported with this symbol")


def _scaled(layer: Node, weight: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A weight times the scales of the output channels: along axis 0, in a deconvolution along axis 1 of each group."""
    rest = (1,) * (weight.ndim - 2)
    if layer.op != "Deconvolution":
        return weight * scale.reshape((-1, 1) + rest)
    groups = attributes_of(layer)["num_group"]
    grouped = weight.reshape((groups, weight.shape[0] // groups) + weight.shape[1:])
    return (grouped * scale.reshape((groups, 1, -1) + rest)).reshape(weight.shape)


def _like(array: np.ndarray, value: mx.nd.NDArray) -> mx.nd.NDArray:
    return mx.nd.array(array, dtype=value.dtype)
