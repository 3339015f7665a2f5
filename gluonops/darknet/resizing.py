"""Darknet's layers that change the size of an image, as HybridBlocks, and their sections. No block reads a shape."""
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mxnet.gluon import nn

from ..backends.emitter import Array
from ..backends.layer import EitherModeBlock
from ..contract.errors import OpError
from ..nn import Reorg
from .blocks import add_constants, layer
from .build import Builder, Layer, Shape, kind
from .cfg import Section

BLURS = {"0": 0, "1": 3, "2": 2}   # antialiasing -> size of the blur


class MaxPool(EitherModeBlock):
    """Darknet's ``[maxpool]``. The larger half of its padding lies on the right and below.

    Parameters
    ----------
    size : int, default 2
        Height and width of the window.
    stride : int or tuple of int, default 2
        Stride of the rows and the columns.
    padding : int, optional
        Rows and columns of padding, the sum of both sides. The default is ``size - 1``. Padding is never the maximum.
    any_size : bool, default False
        Also take images that are smaller than the window. With a stride of 2 this costs a copy of the data.

    Inputs:
        - **data**: (B, C, H, W).

    Outputs:
        - **out**: (B, C, (H + padding - size) // stride + 1, likewise for W). With the default size and stride this is
          half of the input, rounded up. With ``size=2, stride=1`` it is the size of the input.

    Raises
    ------
    OpError
        With this padding a window could lie outside the image.
    """

    def __init__(self, size: int = 2, stride: int | tuple[int, int] = 2, padding: int | None = None,
                 any_size: bool = False, **kwargs):
        super().__init__(**kwargs)
        padding = size - 1 if padding is None else padding
        if not 0 <= padding <= 2 * size - 2:
            raise OpError("darknet.MaxPool", f"padding is {padding}; expected 0 to {2 * size - 2} for windows of "
                          f"{size}", "Choose a padding that leaves no window without a pixel")
        strides = stride if isinstance(stride, tuple) else (stride, stride)
        before, extra = divmod(padding, 2)
        # MXNet pads both sides alike. The extra row below and column on the right are made in one of three ways.
        # Stride 2: they only have the effect that the size of the output is rounded up, which MXNet can do by itself.
        # It does so only if the window fits once; any_size is for smaller images.
        # Stride 1: both sides are padded, and the windows that start in the padding above and on the left are cut off.
        # oneDNN pools and cuts. A Pad of MXNet in front of the pooling would be ten times slower.
        # Otherwise: the data is padded with a copy of its last row and column. Every window that sees the copy also
        # sees the original, so the maximum stays the same.
        rounds_up = bool(extra) and strides == (2, 2) and not any_size
        self._cut = bool(extra) and strides == (1, 1)
        self._pad_data = bool(extra) and not rounds_up and not self._cut
        pad = before + 1 if self._cut else before
        self._kwargs = {"kernel": (size, size), "stride": strides, "pad": (pad, pad), "pool_type": "max",
                        "pooling_convention": "full" if rounds_up else "valid"}

    def hybrid_forward(self, F, data: Array) -> Array:
        if self._pad_data:
            data = F.pad(data, mode="edge", pad_width=(0, 0, 0, 0, 0, 1, 0, 1))
        data = F.Pooling(data, **self._kwargs)
        if self._cut:
            data = F.slice(data, begin=(None, None, 1, 1), end=(None, None, None, None))
        return data


@layer
def AvgPool(F, data: Array) -> Array:
    """Darknet's ``[avgpool]``: the mean of every channel, (B, C, 1, 1)."""
    return F.Pooling(data, kernel=(1, 1), global_pool=True, pool_type="avg")


@layer
def LocalAvgPool(F, data: Array, *, size: int, stride: tuple[int, int], padding: int) -> Array:
    """AlexeyAB's ``[local_avgpool]``: the mean of every window, without the pixels beyond the image.

    ``padding`` is that of :class:`MaxPool`. The output is (B, C, (H + padding - size) // stride + 1, likewise for W).
    """
    def means(pixels):
        return F.Pooling(pixels, kernel=(size, size), stride=stride, pool_type="avg")

    if not padding:
        return means(data)
    before, after = padding // 2, padding - padding // 2
    pad = {"mode": "constant", "pad_width": (0, 0, 0, 0, before, after, before, after), "constant_value": 0}
    return means(F.pad(data, **pad)) / means(F.pad(F.ones_like(data), **pad))


@layer
def DepthPool(F, data: Array, *, channels: int) -> Array:
    """AlexeyAB's ``[maxpool]`` with ``maxpool_depth``: a maximum over channels.

    ``channels`` is the number of channels of the output. With 6 input channels and ``channels=2``, output channel 0 is
    the maximum of the channels 0, 2 and 4, and output channel 1 that of 1, 3 and 5.
    """
    return F.max(F.reshape(data, shape=(0, -4, -1, channels, 0, 0)), axis=1)


class Blur(EitherModeBlock):
    """The option ``antialiasing``: a blur of every channel, which has the stride in place of the layer before it.

    A ``size`` of 3 blurs by (1, 2, 1) / 4 in both directions, with a row of zeros around the image. A ``size`` of 2
    takes the mean of 2 x 2 pixels.

    Data of (B, channels, H, W) becomes (B, channels, (H - 1) // stride + 1, likewise for W). With a size of 2 the
    height is (H - 2) // stride + 1.
    """

    def __init__(self, channels: int, size: int, stride: int | tuple[int, int], **kwargs):
        super().__init__(**kwargs)
        line = np.array([1, 2, 1] if size == 3 else [1, 1], "float32")
        square = np.outer(line, line) / line.sum() ** 2
        weight = np.broadcast_to(square, (channels, 1, size, size))
        padding = size // 2 if size == 3 else 0
        self._options = {
            "kernel": (size, size), "stride": stride if isinstance(stride, tuple) else (stride, stride),
            "pad": (padding, padding), "num_filter": channels, "num_group": channels, "no_bias": True}
        add_constants(self, weight=weight)

    def hybrid_forward(self, F, data: Array, weight: Array) -> Array:
        return F.Convolution(data, weight, **self._options)


@layer
def Crop(F, data: Array, *, top: int, left: int, height: int, width: int, adjust: bool = True) -> Array:
    """Darknet's ``[crop]`` at inference: it cuts a part out of an image, and with ``adjust`` scales 0..1 to -1..1."""
    data = F.slice(data, begin=(None, None, top, left), end=(None, None, top + height, left + width))
    return 2 * data - 1 if adjust else data


@layer
def Extend(F, data: Array, *, extra: int) -> Array:
    """Darknet's ``[reorg]`` with ``extra``: it flattens an image to a row, (B, N), and appends ``extra`` zeros."""
    row = F.Flatten(data)
    zero = F.zeros_like(F.slice_axis(row, axis=1, begin=0, end=1))
    return F.concat(row, *[zero] * extra, dim=1)


@layer
def Upsample(F, data: Array, *, stride: int = 2, scale: float = 1.0) -> Array:
    """Darknet's ``[upsample]``: repeats each pixel ``stride`` x ``stride`` times and multiplies it by ``scale``."""
    data = F.UpSampling(data, scale=stride, sample_type="nearest")
    return data if scale == 1 else data * scale


def strides_of(section: Section) -> tuple[int, int]:
    """The strides of the rows and the columns: ``stride_y`` and ``stride_x``, which are ``stride`` by default."""
    stride = section.integer("stride", 1, 1)
    return section.integer("stride_y", stride, 1), section.integer("stride_x", stride, 1)


def blurred(sides: Sequence[int], blur: int, strides: tuple[int, int]) -> list[int]:
    """The height and width of an image after a blur of this size. Without a blur they are ``sides``."""
    return windows(sides, blur, strides, 2 if blur == 3 else 0) if blur else list(sides)


def windows(sides: Sequence[int], size: int, strides: Sequence[int], padding: int) -> list[int]:
    """How many windows fit along the height and the width. ``padding`` is the sum of both ends."""
    return [(side + padding - size) // step + 1 for side, step in zip(sides, strides)]


def _window(section: Section) -> tuple[int, tuple[int, int], int]:
    """The size, the strides and the padding of a pooling, from the options of its section."""
    strides = strides_of(section)
    size = section.integer("size", section.integer("stride", 1, 1), 1)
    padding = section.integer("padding", size - 1, 0)
    if padding > 2 * size - 2:
        raise section.error(f"padding is {padding}; expected 0 to {2 * size - 2} for windows of {size}",
                            "Correct padding", "padding")
    return size, strides, padding


@kind("maxpool", "max")
def maxpool(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    section.refuse("maxpool_zero_nonmax", "Darknet computes it on a GPU only")
    size, strides, padding = _window(section)
    blur = BLURS[section.text("antialiasing", "0", sorted(BLURS))]
    if section.flag("maxpool_depth"):
        channels = section.integer("out_channels", 1, 1)
        if shape[0] % channels:
            raise section.error(f"its input has {shape[0]} channels, and out_channels is {channels}; expected a "
                                f"divisor of {shape[0]}", "Correct out_channels", "out_channels")
        return Layer(DepthPool(channels, prefix=prefix), (channels, *shape[1:]))

    steps = (1, 1) if blur else strides
    sides = windows(shape[1:], size, steps, padding)
    both_sides = padding // 2 * 2
    is_small = min(shape[1:]) + both_sides < size
    if not blur:
        return Layer(MaxPool(size, steps, padding, any_size=is_small, prefix=prefix), (shape[0], *sides))

    block = nn.HybridSequential(prefix=prefix)
    with block.name_scope():
        block.add(MaxPool(size, steps, padding, any_size=is_small), Blur(shape[0], blur, strides))
    return Layer(block, (shape[0], *blurred(sides, blur, strides)))


@kind("local_avgpool", "local_avg")
def local_avgpool(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    size, strides, padding = _window(section)
    sides = windows(shape[1:], size, strides, padding)
    return Layer(LocalAvgPool(size, strides, padding, prefix=prefix), (shape[0], *sides))


@kind("avgpool", "avg")
def avgpool(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    return Layer(AvgPool(prefix=prefix), (shape[0], 1, 1))


@kind("crop")
def crop(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    channels, height, width = shape
    rows = section.integer("crop_height", 1, 1)
    columns = section.integer("crop_width", 1, 1)
    adjust = not section.flag("noadjust")
    if rows > height or columns > width:
        raise section.error(f"it crops {rows} x {columns} pixels from an image of {height} x {width}; expected at most "
                            "its size",
                            "Correct crop_height and crop_width, or make [net] larger", "crop_height")
    block = Crop((height - rows) // 2, (width - columns) // 2, rows, columns, adjust, prefix=prefix)
    return Layer(block, (channels, rows, columns))


@kind("reorg")
@kind("reorg3d")
def reorg(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    """The layer of a ``[reorg]`` or a ``[reorg3d]``. The latter has another order and any number of channels."""
    stride = section.integer("stride", 1, 1)
    is_3d = section.kind == "reorg3d"
    reverse, extra = False, 0
    if is_3d:
        section.refuse("reverse", "Darknet writes beyond the output")
    else:
        section.refuse("flatten", "it is another operation than reorg")
        reverse, extra = section.flag("reverse"), section.integer("extra", 0, 0)
    if extra:
        return Layer(Extend(extra, prefix=prefix), (math.prod(shape) + extra,))
    channels, *sides = shape
    channels_fit = is_3d or channels % stride ** 2 == 0
    blocks_fit = reverse or not any(side % stride for side in sides)
    if not channels_fit or not blocks_fit:
        raise section.error(f"its input is {shape} (channels, height, width), and stride is {stride}; expected "
                            f"channels that are divisible by {stride ** 2}, and a height and a width that are "
                            f"divisible by {stride}",
                            "Choose another size in [net]", "stride")
    block = Reorg(stride, "DCR" if is_3d else "darknet", reverse, prefix=prefix)
    if reverse:
        return Layer(block, (channels // stride ** 2, *(side * stride for side in sides)))
    return Layer(block, (channels * stride ** 2, *(side // stride for side in sides)))


@kind("upsample")
def upsample(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    stride = section.integer("stride", 2, 1)
    scale = section.number("scale", 1)
    channels, *sides = shape
    return Layer(Upsample(stride, scale, prefix=prefix), (channels, *(side * stride for side in sides)))
