"""Pads convolutions to a multiple of the output channels that MXNet's fast CPU kernels compute at once."""
from __future__ import annotations

import mxnet as mx
import numpy as np

from ..graph import Graph, Node
from ..model import ExportedModel
from ..sizes import Arrays
from .fold_batch_norm import has_own_weights

CHANNELS = 16
CHANNELWISE = ("Activation", "LeakyReLU", "Pooling")
FUSED = ("BatchNorm", "elemwise_add")   # oneDNN fuses these with a convolution directly in front of them


def pad_channels(model: ExportedModel) -> ExportedModel:
    """Pad convolutions with output channels of zeros where possible, and cut these off again.

    If the number of channels is not a multiple of 16, oneDNN 2.4 (of MXNet 1.9.1) runs a convolution as a matrix
    product in another layout, or with half the vector length. The cut comes behind the activations and poolings that
    follow, so that they stay fused. A convolution is left alone if

    - it is grouped, is not float32, or has a layout other than channels first,
    - something else reads its weight,
    - a batch norm or a sum follows it.

    Parameters
    ----------
    model : ExportedModel
        For inference.
    """
    model = model.copy()
    for node in model.graph.nodes():
        if node.op != "Convolution" or int(node.attrs["num_filter"]) % CHANNELS == 0:
            continue
        if can_change(model.graph, node, model.parameters):
            _pad(model.graph, node, model.parameters)
    return model


def can_change(graph: Graph, layer: Node, values: Arrays) -> bool:
    """Whether a pass may give a convolution other channels."""
    if int(layer.attrs.get("num_group", 1)) != 1 or not has_own_weights(graph, layer, values):
        return False
    if any(reader is not None and reader.op in FUSED for reader in graph.readers()[layer]):
        return False
    return all(values[weight.name].dtype == np.float32 for weight, _ in layer.inputs[1:])


def _pad(graph: Graph, layer: Node, values: Arrays) -> None:
    channels = int(layer.attrs["num_filter"])
    missing = -channels % CHANNELS
    layer.attrs["num_filter"] = str(channels + missing)
    for variable, _ in layer.inputs[1:]:
        value = values[variable.name].asnumpy()
        widths = [(0, missing)] + [(0, 0)] * (value.ndim - 1)
        values[variable.name] = mx.nd.array(np.pad(value, widths))
        variable.attrs.pop("__shape__", None)

    last = _last_channelwise(graph, layer)
    # MXNet's slice fails on oneDNN's blocked layouts at many widths ("could not construct a sub-memory").
    cut = Node("slice_axis", last.name, {"axis": "1", "begin": "0", "end": str(channels), **last.marks()})
    last.name += "_padded"   # the cut takes its name, which may be an output's
    graph.replace({(last, 0): (cut, 0)})
    cut.inputs = [(last, 0)]


def _last_channelwise(graph: Graph, node: Node) -> Node:
    """The last of the activations and poolings in a row behind a node."""
    readers = graph.readers()
    while len(readers[node]) == 1:
        following, = readers[node]
        if following is None or following.op not in CHANNELWISE or len(following.inputs) > 1:
            break
        node = following
    return node
