"""Gives convolutions numbers of channels that oneDNN computes faster with."""
from __future__ import annotations

import mxnet as mx
import numpy as np

from ..graph import VARIABLE, Graph, Node
from ..model import ExportedModel
from ..operators import having
from ..operators.attributes import attributes_of
from ..sizes import Arrays
from .fold_batch_norm import has_own_weights

CHANNELS = 16
CHANNELWISE = having("is_activation", "is_gate") | {"Pooling"}
# oneDNN fuses these with a convolution directly in front of them, and the cut would be in between.
FUSED = having("fuses_behind_convolution") - having("is_activation")
BLOCK_CHANNELS = 32          # output channels whose weights oneDNN reads again for every row of the output
MOST_BYTES = 720 * 1024      # a server's core has a second-level cache of 1 MiB or more
MOST_PARTS = 8


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
        if node.op != "Convolution" or attributes_of(node)["num_filter"] % CHANNELS == 0:
            continue
        if can_change(model.graph, node, model.parameters):
            _pad(model.graph, node, model.parameters)
    return model


def can_change(graph: Graph, layer: Node, values: Arrays) -> bool:
    """Whether a pass may give a convolution other channels."""
    if attributes_of(layer)["num_group"] != 1 or not has_own_weights(graph, layer, values):
        return False
    if any(reader is not None and reader.op in FUSED for reader in graph.readers()[layer]):
        return False
    return all(values[weight.name].dtype == np.float32 for weight, _ in layer.inputs[1:])


def _pad(graph: Graph, layer: Node, values: Arrays) -> None:
    channels = attributes_of(layer)["num_filter"]
    missing = -channels % CHANNELS
    layer.attrs["num_filter"] = str(channels + missing)
    for variable, _ in layer.inputs[1:]:
        value = values[variable.name].asnumpy()
        widths = [(0, missing)] + [(0, 0)] * (value.ndim - 1)
        values[variable.name] = mx.nd.array(np.pad(value, widths))
        variable.attrs.pop("__shape__", None)

    last = graph.chain(layer, CHANNELWISE)[-1]
    # MXNet's slice fails on oneDNN's blocked layouts at many widths ("could not construct a sub-memory").
    cut = Node("slice_axis", last.name, {"axis": "1", "begin": "0", "end": str(channels), **last.marks()})
    last.name += "_padded"   # the cut takes its name, which may be an output's
    graph.replace({(last, 0): (cut, 0)})
    cut.inputs = [(last, 0)]


def split_channels(model: ExportedModel) -> ExportedModel:
    """Replace convolutions of many input channels by sums of convolutions of some of them.

    oneDNN 2.4 (of MXNet 1.9.1) computes 32 output channels at a time, row by row, and reads their weights for every
    row. With 1024 input channels and kernels of 3 x 3 these are 1.2 MB. Where the second-level cache is smaller, each
    row waits for them. So a convolution is split where they take more than 720 KiB. oneDNN adds the first part to the
    others in the same step. A convolution is left alone if

    - :func:`pad_channels` would leave it alone whatever its channels,
    - its input channels are no multiple of 16 times the number of parts, or more than 8 parts are needed.

    The outputs differ by rounding.

    Parameters
    ----------
    model : ExportedModel
        For inference.
    """
    model = model.copy()
    for node in model.graph.nodes():
        if node.op == "Convolution" and can_change(model.graph, node, model.parameters):
            parts = _parts(model.parameters[node.source(1).name].shape)
            if parts > 1:
                _split(model.graph, node, model.parameters, parts)
    return model


def _parts(shape: tuple[int, ...]) -> int:
    """Into how many parts to split a convolution with a weight of this shape: the fewest that fit, or 1."""
    channels = shape[1]
    bytes_per_channel = 4 * BLOCK_CHANNELS * int(np.prod(shape[2:]))
    for parts in range(1, MOST_PARTS + 1):
        if channels // parts * bytes_per_channel <= MOST_BYTES and channels % (parts * CHANNELS) == 0:
            return parts
    return 1


def _split(graph: Graph, layer: Node, values: Arrays, parts: int) -> None:
    """Replace a convolution by a sum, which takes its name."""
    pieces = mx.nd.split(values.pop(layer.source(1).name), parts, axis=1)
    first, *others = [_part(graph, layer, values, number, piece) for number, piece in enumerate(pieces)]
    first.inputs += layer.inputs[2:]
    first.attrs["no_bias"] = str(attributes_of(layer)["no_bias"])

    rest = others[0]
    if len(others) > 1:   # this sum is not fused: MXNet mixes up the inputs of two fused sums in a row
        attrs = {"num_args": str(len(others)), **layer.marks()}
        rest = Node("add_n", f"{rest.name}_sum", attrs, [(part, 0) for part in others])
    total = Node("elemwise_add", layer.name, layer.marks(), [(first, 0), (rest, 0)])
    graph.replace({(layer, 0): (total, 0)})


def _part(graph: Graph, layer: Node, values: Arrays, number: int, weight: mx.nd.NDArray) -> Node:
    """A convolution, without bias, of as many input channels as the weight has."""
    name = graph.free_name(f"{layer.name}_part{number}")
    variable = Node(VARIABLE, graph.free_name(f"{layer.source(1).name}_part{number}"))
    values[variable.name] = weight

    channels = weight.shape[1]
    ends = {"axis": "1", "begin": str(number * channels), "end": str((number + 1) * channels)}
    data = Node("slice_axis", f"{name}_data", {**ends, **layer.marks()}, layer.inputs[:1])
    return Node("Convolution", name, {**layer.attrs, "no_bias": "True"}, [(data, 0), (variable, 0)])
