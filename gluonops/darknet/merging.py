"""Darknet's layers that join the outputs of several layers, as HybridBlocks, and their sections."""
from collections.abc import Sequence

import mxnet as mx
from mxnet.gluon import HybridBlock

from ..backends.concat import concat
from ..backends.emitter import Array
from .activations import ACTIVATIONS, activation_block
from .blocks import Weighted, layer
from .build import Builder, Layer, Shape, kind
from .cfg import Section

NORMALIZATION_OFFSET = 1e-4   # is added to the sum of a shortcut's weights
NORMALIZATIONS = {"relu": "relu", "avg_relu": "relu", "softmax": "softmax"}
WEIGHTS = ("none", "per_channel", "per_feature", "per_layer")


@layer
def Route(F, *data: Array, channels: Sequence[int], groups: int = 1, group: int = 0) -> Array:
    """Darknet's ``[route]``: concatenates outputs along the channels, or one of ``groups`` slices of each output.

    ``channels`` has the number of channels of every input. Each number is a multiple of ``groups``.
    """
    counts = [count // groups for count in channels]
    if groups > 1:
        data = [F.slice_axis(x, axis=1, begin=group * count, end=(group + 1) * count) for x, count in zip(data, counts)]
    return concat(F, data, counts) if len(data) > 1 else F.identity(data[0])


@layer
def Shortcut(F, data: Array, earlier: Array, *, activation: HybridBlock, alpha: float = 1.0,
             beta: float = 1.0) -> Array:
    """Darknet's ``[shortcut]``: ``activation(alpha * data + beta * earlier)``. Both have one shape."""
    data = data if alpha == 1 else data * alpha
    earlier = earlier if beta == 1 else earlier * beta
    return activation(F.elemwise_add(data, earlier))


def add_parts(F, data: Array, parts: Sequence[Array], channels: Sequence[int]) -> Array:
    """``data`` with every part added to its first channels.

    ``channels`` are those of ``data`` and of each part. No part has more than ``data``.
    """
    own, *others = channels
    for part, count in zip(parts, others):
        if count == own:
            data = F.elemwise_add(data, part)
            continue
        first = F.slice_axis(data, axis=1, begin=0, end=count)
        rest = F.slice_axis(data, axis=1, begin=count, end=None)
        data = concat(F, [F.elemwise_add(first, part), rest], (count, own - count))
    return data


@layer
def PartialShortcut(F, data: Array, *earlier: Array, channels: Sequence[int], activation: HybridBlock,
                    alpha: float = 1.0, beta: float = 1.0, step: int = 1, repeat: int = 1) -> Array:
    """Darknet's ``[shortcut]`` where the other outputs have another shape than ``data``: it adds what they share.

    Channels are added to the first channels of ``data``. If another image is larger by a factor of 2, every second of
    its pixels in each direction is added. If it is smaller by a factor of 2, it is added to every second pixel.

    - ``alpha``: the factor of the channels of ``data`` that something is added to.
    - ``beta``: the factor of what is added.
    - ``step``: the factor by which the other images are larger.
    - ``repeat``: the factor by which the other images are smaller.
    """
    own, *others = channels
    common = [min(own, count) for count in others]
    parts = []
    for part, count in zip(earlier, common):
        part = F.slice(part, begin=(None, 0, None, None), end=(None, count, None, None), step=(None, None, step, step))
        part = part if repeat == 1 else _spread(F, part, repeat)
        parts.append(part if beta == 1 else part * beta)
    if alpha != 1:
        parts.append(F.slice_axis(data, axis=1, begin=0, end=common[0]) * (alpha - 1))
    return activation(add_parts(F, data, parts, [own, *common, common[0]]))


def _spread(F, data: Array, repeat: int) -> Array:
    """Insert ``repeat - 1`` rows and columns of zeros behind each row and column of an image."""
    for axis, shape in ((4, (0, 0, 0, -3)), (3, (0, 0, -3, 0))):
        lines = F.expand_dims(data, axis=axis)
        zeros = F.zeros_like(lines)
        data = F.reshape(F.concat(lines, *[zeros] * (repeat - 1), dim=axis), shape=shape)
    return data


@layer
def Multiply(F, data: Array, earlier: Array, *, activation: HybridBlock) -> Array:
    """AlexeyAB's ``[scale_channels]`` and ``[sam]``: ``activation(data * earlier)``.

    Where a side of ``data`` is 1, it is broadcast to the side of ``earlier``.
    """
    return activation(F.broadcast_mul(earlier, data))


class WeightedShortcut(Weighted):
    """AlexeyAB's ``[shortcut]`` with ``weights_type``: the weighted sum of several outputs.

    - ``channels``: the number of channels of every input. All inputs have one height and width. An input with fewer
      channels than the first one is added to the first channels. If it has more channels, the rest is not used.
    - ``per_channel``: whether each channel of each input has a weight. Otherwise each input has one.
    - ``normalization``: 'relu' or 'softmax', which makes the sum of the weights 1.
    """

    def __init__(self, channels: Sequence[int], per_channel: bool = False, normalization: str = "relu",
                 activation: str = "linear", **kwargs):
        super().__init__(**kwargs)
        self._channels = channels
        self._normalization = normalization
        self._per_channel = per_channel
        shape = (len(channels), channels[0] if per_channel else 1)
        with self.name_scope():
            self.weight = self.params.get("weight", shape=shape, init="ones")
            self.activation = activation_block(activation)

    def file_parameters(self) -> list[mx.gluon.Parameter]:
        return [self.weight]

    def _normalized(self, F, weight: Array) -> Array:
        if self._normalization == "relu":
            positive = F.relu(weight)
        else:
            positive = F.exp(F.broadcast_sub(weight, F.max(weight, axis=0, keepdims=True)))
        return F.broadcast_div(positive, F.sum(positive, axis=0, keepdims=True) + NORMALIZATION_OFFSET)

    def hybrid_forward(self, F, *data: Array, weight: Array) -> Array:
        weight = self._normalized(F, weight)
        terms = []
        for i, (part, channels) in enumerate(zip(data, self._channels)):
            common = min(channels, self._channels[0])
            factor = F.reshape(F.slice_axis(weight, axis=0, begin=i, end=i + 1), shape=(1, -1, 1, 1))
            if self._per_channel:
                factor = F.slice_axis(factor, axis=1, begin=0, end=common)
            part = F.slice_axis(part, axis=1, begin=0, end=common)
            terms.append(F.broadcast_mul(part, factor))
        out = add_parts(F, terms[0], terms[1:], [min(count, self._channels[0]) for count in self._channels])
        return out if self.activation is None else self.activation(out)


@kind("route", takes_row=True)
def route(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    sources = [build.earlier(section, "layers", number) for number in section.integers("layers")]
    build.uses(*sources)
    groups = section.integer("groups", 1, 1)
    group = section.integer("group_id", 0, 0)
    shapes = [build.layers[source].shape for source in sources]
    channels = [source_shape[0] for source_shape in shapes]
    _check_sides(build, section, sources, "layers")
    if group >= groups or any(count % groups for count in channels):
        raise section.error(f"group_id is {group}, groups is {groups}, and the layers have "
                            f"{' and '.join(map(str, channels))} channels; expected a group_id below groups, and "
                            "channels that are divisible by groups", "Correct groups and group_id", "groups")
    block = Route(channels, groups, group, prefix=prefix)
    return Layer(block, (sum(channels) // groups, *shapes[0][1:]), sources)


def _check_sides(build: Builder, section: Section, sources: list[int], key: str) -> None:
    """Raise an OpError unless all layers have the same height and width."""
    sides = {build.layers[source].shape[1:] for source in sources}
    if len(sides) > 1:
        described = ", ".join(f"layer {source} is {build.layers[source].shape}" for source in sources)
        raise section.error(f"the layers differ in height or width: {described}", "Name layers of the same size", key)


@kind("shortcut")
def shortcut(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    """The layer of a ``[shortcut]``.

    pjreddie's adds one layer, which may have another size. AlexeyAB's adds several layers, which may have weights.
    """
    earlier = [build.earlier(section, "from", number) for number in section.integers("from")]
    activation = section.text("activation", "linear", sorted(ACTIVATIONS))
    before = build.number - 1
    build.uses(before, earlier[0])
    sources = [before, *earlier]
    weights_type = section.text("weights_type", "none", WEIGHTS)
    if weights_type != "none" or len(earlier) > 1:
        _check_sides(build, section, sources, "from")
    channels = [build.layers[source].shape[0] for source in sources]
    if weights_type != "none":
        normalization = NORMALIZATIONS[section.text("weights_normalization", None, sorted(NORMALIZATIONS))]
        block = WeightedShortcut(channels, weights_type == "per_channel", normalization, activation, prefix=prefix)
        return Layer(block, shape, sources)

    section.skip("weights_normalization")
    alpha = section.number("alpha", 1)
    beta = section.number("beta", 1)
    if len(earlier) == 1 and build.layers[earlier[0]].shape == shape:
        return Layer(Shortcut(ACTIVATIONS[activation], alpha, beta, prefix=prefix), shape, sources)
    step, repeat = _scale(section, shape, build.layers[earlier[0]].shape)
    if alpha != 1 and repeat > 1:
        raise section.error(f"alpha={alpha} is not supported with a layer that is smaller than the input",
                            "Remove alpha", "alpha")
    block = PartialShortcut(channels, ACTIVATIONS[activation], alpha, beta, step, repeat, prefix=prefix)
    return Layer(block, shape, sources)


def _scale(section: Section, shape: Shape, other: Shape) -> tuple[int, int]:
    """How many times the other layer's image is larger, and how many times it is smaller."""
    _, *own = shape
    _, *theirs = other
    step, repeat = theirs[0] // own[0], own[0] // theirs[0]
    if step == theirs[1] // own[1] > 0 and [-(-side // step) for side in theirs] == own:
        return step, 1
    if [side * repeat for side in theirs] == own:
        return 1, repeat
    raise section.error(f"the layer that it adds is {other} (channels, height, width), and its input is {shape}; "
                        "expected images that are the same, or larger or smaller by a whole factor",
                        "Name a layer of another size", "from")


@kind("scale_channels")
@kind("sam")
def product(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    """The product of the layer in front and the layer that ``from`` names.

    In a ``[scale_channels]``, the height and width of the layer in front are 1, or its number of channels is 1.
    """
    sources = [build.number - 1, build.earlier(section, "from", section.integer("from"))]
    build.uses(*sources)
    other = expected = build.layers[sources[1]].shape
    if section.kind == "scale_channels":
        expected = (1, *other[1:]) if section.flag("scale_wh") else (other[0], 1, 1)
    if shape != expected:
        raise section.error(f"its input is {shape} (channels, height, width), and the layer that it multiplies is "
                            f"{other}; expected an input of {expected}", "Name another layer", "from")
    activation = ACTIVATIONS[section.text("activation", "linear", sorted(ACTIVATIONS))]
    return Layer(Multiply(activation, prefix=prefix), other, sources)
