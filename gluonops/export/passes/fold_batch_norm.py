"""Folds a batch norm that follows a convolution or a dense layer into that layer's weight and bias."""
from __future__ import annotations

import re
from typing import TYPE_CHECKING

import mxnet as mx
import numpy as np

from ...core.errors import OpError
from ..constants import evaluate, parameter_only
from ..graph import VARIABLE, Graph, Node
from ..shapes import Arrays

if TYPE_CHECKING:
    from ..model import ExportedModel

CHANNELS_FIRST = ("None", "NCW", "NCHW", "NCDHW")
PRODUCERS = ("Convolution", "Deconvolution", "FullyConnected")


def fold_batch_norm(model: ExportedModel) -> ExportedModel:
    """Fold every batch norm that can be.

    With ``scale = gamma / sqrt(variance + eps)`` per channel, the layer's weight becomes ``weight * scale`` and its
    bias ``(bias - mean) * scale + beta``, computed in float64. Left alone are batch norms whose input somebody else
    reads too, that do not follow such a layer, that normalize along another axis than its channels, or whose scale is
    not finite; and layers that share a weight with another node, or are in channels-last layout. Gamma and the others
    may be computed, as long as it is from parameters alone.

    Parameters
    ----------
    model : ExportedModel
        For inference: the running statistics are taken for the batch's.

    Returns
    -------
    ExportedModel
        With other weights and biases, and without the parameters that nothing reads any more.

    Raises
    ------
    OpError
        Where the parameters of a batch norm are not one number per channel of the layer.
    """
    model = model.copy()
    graph, values = model.graph, model.parameters
    for node in graph.nodes():
        if node.op == "BatchNorm" and _fits(graph, node, values):
            _fold(graph, node, values)
    used = set(graph.variables())
    model.parameters = {name: value for name, value in values.items() if name in used}
    return model


def _fits(graph: Graph, norm: Node, values: Arrays) -> bool:
    layer, index = norm.inputs[0]
    if layer.op not in PRODUCERS or index or layer.attrs.get("layout", "None") not in CHANNELS_FIRST:
        return False
    readers = graph.readers()
    weights = [source for source, _ in layer.inputs[1:]]
    if readers[layer] != [norm] or any(len(readers[node]) != 1 or node.name not in values for node in weights):
        return False
    if not parameter_only(graph, values).issuperset(source for source, _ in norm.inputs[1:]):
        return False
    if any(i for reader in graph.nodes() for source, i in reader.inputs if source is norm):
        return False   # somebody reads the statistics
    return int(norm.attrs.get("axis", "1")) in _channel_axes(layer)


def _channel_axes(layer: Node) -> tuple[int, ...]:
    """The numbers of a layer's channels among its output's axes, as far as they are known without the data's shape."""
    if layer.op == "FullyConnected":
        return (1, -1) if layer.flag("flatten", True) else (-1,)
    return 1, -1 - len(re.findall(r"\d+", layer.attrs["kernel"]))


def _fold(graph: Graph, norm: Node, values: Arrays) -> None:
    """Fold one whose scale is finite. A variance of 0 without an eps has none."""
    layer = norm.source()
    statistics = [array.astype(np.float64) for array in evaluate(norm.inputs[1:], values, graph.attrs)]
    _check_channels(layer, norm, values, statistics)
    gamma, beta, mean, variance = statistics
    if norm.flag("fix_gamma", True):
        gamma = np.ones_like(gamma)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = gamma / np.sqrt(variance + float(norm.attrs.get("eps", 1e-3)))
    if not np.isfinite(scale).all():
        return
    weight = values[layer.source(1).name]
    values[layer.source(1).name] = _like(_scaled(layer, weight.asnumpy().astype(np.float64), scale), weight)
    has_bias = len(layer.inputs) > 2
    bias = values[layer.source(2).name].asnumpy().astype(np.float64) if has_bias else 0.0
    if not has_bias:
        name = graph.free_name(f"{layer.name}_bias")
        layer.inputs.append((Node(VARIABLE, name), 0))
        layer.attrs["no_bias"] = "False"
    values[layer.source(2).name] = _like((bias - mean) * scale + beta, weight)
    place = (layer, 0)
    if any(head[0] is norm for head in graph.heads):   # an output keeps its name
        place = Node("_copy", norm.name, norm.marks(), [(layer, 0)]), 0
    graph.replace({(norm, 0): place})


def _check_channels(layer: Node, norm: Node, values: Arrays, statistics: list[np.ndarray]) -> None:
    shape = values[layer.source(1).name].shape
    channels = shape[1] * int(layer.attrs.get("num_group", 1)) if layer.op == "Deconvolution" else shape[0]
    for word, array in zip(("gamma", "beta", "mean", "variance"), statistics):
        if array.shape != (channels,):
            raise OpError("export", f"the batch norm {norm.name!r} has a {word} of shape {array.shape} behind "
                          f"{layer.name!r}; expected ({channels},)", "Pass the parameters exported with this symbol")


def _scaled(layer: Node, weight: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """``weight`` times the scale of each output channel: axis 0, or 1 of every group in a deconvolution."""
    rest = (1,) * (weight.ndim - 2)
    if layer.op != "Deconvolution":
        return weight * scale.reshape((-1, 1) + rest)
    groups = int(layer.attrs.get("num_group", 1))
    grouped = weight.reshape((groups, weight.shape[0] // groups) + weight.shape[1:])
    return (grouped * scale.reshape((groups, 1, -1) + rest)).reshape(weight.shape)


def _like(array: np.ndarray, value: mx.nd.NDArray) -> mx.nd.NDArray:
    return mx.nd.array(array, dtype=value.dtype)
