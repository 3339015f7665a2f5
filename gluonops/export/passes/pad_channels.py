"""Pads convolutions to as many output channels as MXNet's fast CPU kernels take at a time."""
from __future__ import annotations

from typing import TYPE_CHECKING

import mxnet as mx
import numpy as np

from ..graph import Graph, Node
from ..shapes import Arrays
from .fold_batch_norm import CHANNELS_FIRST

if TYPE_CHECKING:
    from ..model import ExportedModel

CHANNELS = 16
CHANNELWISE = ("Activation", "LeakyReLU", "Pooling")
FUSED = ("BatchNorm", "elemwise_add")   # oneDNN computes these along with the convolution, unless something is between


def pad_channels(model: ExportedModel) -> ExportedModel:
    """Pad every convolution that can be with output channels of zeros that are cut off again.

    oneDNN 2.4, which MXNet 1.9.1 has, runs convolutions of another number of channels than a multiple of 16 as a matrix
    product in another layout, or with half the vector length. The cut comes behind the activation and the pooling that
    follow, so that they stay fused. Left alone are grouped convolutions, other types than float32, other layouts than
    channels first, weights that something else reads too, and convolutions whose batch norm is not folded or that a
    sum follows.

    Parameters
    ----------
    model : ExportedModel
        For inference.

    Returns
    -------
    ExportedModel
    """
    model = model.copy()
    for node in model.graph.nodes():
        if node.op == "Convolution" and _fits(model.graph, node, model.parameters):
            _pad(model.graph, node, model.parameters)
    return model


def _fits(graph: Graph, layer: Node, values: Arrays) -> bool:
    if not int(layer.attrs["num_filter"]) % CHANNELS or int(layer.attrs.get("num_group", 1)) != 1:
        return False
    if layer.attrs.get("layout", "None") not in CHANNELS_FIRST:
        return False
    readers = graph.readers()
    if any(reader is not None and reader.op in FUSED for reader in readers[layer]):
        return False
    return all(len(readers[node]) == 1 and node.name in values and values[node.name].dtype == np.float32
               for node, _ in layer.inputs[1:])


def _pad(graph: Graph, layer: Node, values: Arrays) -> None:
    channels = int(layer.attrs["num_filter"])
    missing = -channels % CHANNELS
    layer.attrs["num_filter"] = str(channels + missing)
    for variable, _ in layer.inputs[1:]:
        value = values[variable.name].asnumpy()
        values[variable.name] = mx.nd.array(np.pad(value, [(0, missing)] + [(0, 0)] * (value.ndim - 1)))
        variable.attrs.pop("__shape__", None)
    last = _last_channelwise(graph, layer)
    # MXNet's slice fails on oneDNN's blocked layouts at many widths ("could not construct a sub-memory").
    cut = Node("slice_axis", last.name, {"axis": "1", "begin": "0", "end": str(channels), **last.marks()})
    last.name += "_padded"   # what is read, perhaps as an output, keeps its name
    graph.replace({(last, 0): (cut, 0)})
    cut.inputs = [(last, 0)]


def _last_channelwise(graph: Graph, node: Node) -> Node:
    """The end of the activations and poolings in a row behind a node."""
    readers = graph.readers()
    while len(readers[node]) == 1:
        following, = readers[node]
        if following is None or following.op not in CHANNELWISE or len(following.inputs) > 1:
            break
        node = following
    return node
