"""Sections that change the size of an image: poolings, ``[crop]``, ``[reorg]``, ``[upsample]``."""
from __future__ import annotations

import math
from collections.abc import Sequence

from mxnet.gluon import nn

from ...nn import Reorg
from ..builder import Builder, Layer, Shape, kind
from ..cfg import Section
from ..pooling import AvgPool, Blur, Crop, DepthPool, Extend, LocalAvgPool, MaxPool, Upsample

__all__ = ["BLURS", "avgpool", "blurred", "crop", "local_avgpool", "maxpool", "reorg", "reorg3d", "strides_of",
           "upsample"]

BLURS = {"0": 0, "1": 3, "2": 2}   # antialiasing -> size of the blur


def strides_of(section: Section) -> tuple[int, int]:
    """Steps of the rows and the columns: ``stride_y`` and ``stride_x``, or ``stride``."""
    stride = section.integer("stride", 1, 1)
    return section.integer("stride_y", stride, 1), section.integer("stride_x", stride, 1)


def blurred(sides: Sequence[int], blur: int, strides: tuple[int, int]) -> list[int]:
    """Height and width behind a blur of this size; without one, ``sides``."""
    if not blur:
        return list(sides)
    padding = 2 if blur == 3 else 0
    return [(side + padding - blur) // step + 1 for side, step in zip(sides, strides)]


def _window(section: Section) -> tuple[int, tuple[int, int], int]:
    """Size, strides and padding of a pooling."""
    strides = strides_of(section)
    size = section.integer("size", section.integer("stride", 1, 1), 1)
    padding = section.integer("padding", size - 1, 0)
    if padding > 2 * size - 2:
        raise section.error(f"padding is {padding}; expected 0 to {2 * size - 2} for windows of {size}",
                            "Correct padding", "padding")
    return size, strides, padding


def _pooled(shape: Shape, size: int, strides: Sequence[int], padding: int) -> list[int]:
    """Height and width of a pooling's output."""
    _, *sides = shape
    return [(side + padding - size) // step + 1 for side, step in zip(sides, strides)]


@kind("maxpool", "max")
def maxpool(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    section.refuse("maxpool_zero_nonmax", "it is for a GPU")
    size, strides, padding = _window(section)
    blur = BLURS[section.text("antialiasing", "0", sorted(BLURS))]
    if section.flag("maxpool_depth"):
        return _depth_pool(section, shape, prefix)

    steps = (1, 1) if blur else strides
    sides = _pooled(shape, size, steps, padding)
    both_sides = padding // 2 * 2
    is_small = min(shape[1:]) + both_sides < size
    if not blur:
        return Layer(MaxPool(size, steps, padding, any_size=is_small, prefix=prefix), (shape[0], *sides))

    block = nn.HybridSequential(prefix=prefix)
    with block.name_scope():
        block.add(MaxPool(size, steps, padding, any_size=is_small), Blur(shape[0], blur, strides))
    return Layer(block, (shape[0], *blurred(sides, blur, strides)))


def _depth_pool(section: Section, shape: Shape, prefix: str) -> Layer:
    channels = section.integer("out_channels", 1, 1)
    if shape[0] % channels:
        raise section.error(f"{shape[0]} channels do not divide into out_channels={channels}", "Correct out_channels",
                            "out_channels")
    return Layer(DepthPool(channels, prefix=prefix), (channels, *shape[1:]))


@kind("local_avgpool", "local_avg")
def local_avgpool(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    size, strides, padding = _window(section)
    sides = _pooled(shape, size, strides, padding)
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
        raise section.error(f"it crops {rows} x {columns} pixels of an image of {height} x {width}",
                            "Correct crop_height and crop_width, or make [net] larger", "crop_height")
    block = Crop((height - rows) // 2, (width - columns) // 2, rows, columns, adjust, prefix=prefix)
    return Layer(block, (channels, rows, columns))


@kind("reorg")
def reorg(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    stride = section.integer("stride", 1, 1)
    reverse = section.flag("reverse")
    section.refuse("flatten", "another operation than reorg")
    extra = section.integer("extra", 0, 0)
    if extra:
        return Layer(Extend(extra, prefix=prefix), (math.prod(shape) + extra,))
    channels, *sides = shape
    _check_blocks(section, shape, stride, channels % stride ** 2 == 0, reverse)
    block = Reorg(stride, "darknet", reverse, prefix=prefix)
    if reverse:
        return Layer(block, (channels // stride ** 2, *(side * stride for side in sides)))
    return Layer(block, (channels * stride ** 2, *(side // stride for side in sides)))


@kind("reorg3d")
def reorg3d(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    stride = section.integer("stride", 1, 1)
    section.refuse("reverse", "Darknet writes beyond the output")
    channels, *sides = shape
    _check_blocks(section, shape, stride, True, False)
    block = Reorg(stride, "DCR", prefix=prefix)
    return Layer(block, (channels * stride ** 2, *(side // stride for side in sides)))


def _check_blocks(section: Section, shape: Shape, stride: int, channels_fit: bool, reverse: bool) -> None:
    """Raise an OpError if a reorg's stride does not divide its input."""
    _, *sides = shape
    blocks_fit = reverse or not any(side % stride for side in sides)
    if not channels_fit or not blocks_fit:
        raise section.error(f"stride {stride} does not fit its input, {shape} (channels, height, width): channels "
                            f"have to divide by {stride ** 2}, height and width by {stride}",
                            "Choose another size in [net]", "stride")


@kind("upsample")
def upsample(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    stride = section.integer("stride", 2, 1)
    scale = section.number("scale", 1)
    channels, *sides = shape
    return Layer(Upsample(stride, scale, prefix=prefix), (channels, *(side * stride for side in sides)))
