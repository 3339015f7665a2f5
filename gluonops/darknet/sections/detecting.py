"""Sections that detect: ``[region]``, ``[yolo]``, ``[Gaussian_yolo]`` and ``[detection]``."""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from mxnet.gluon import HybridBlock

from ...ops.gaussian_yolo_loss.contract import SHIFTS
from ..boxes import Boxes, CellBoxes, GaussianBoxes, SquaredBoxes, TreeBoxes
from ..builder import Builder
from ..cfg import Section
from ..heads import CellSoftmax, GaussianYolo, Region, TreeRegion, Yolo
from ..layers import Identity
from ..net import Head
from ..registry import Layer, Shape, kind
from .head_losses import detection_loss, gaussian_yolo_loss, region_loss, yolo_loss

__all__ = ["detection", "gaussian_yolo", "region", "yolo"]

ANCHOR = 0.5
# nms_kind -> the power of the suppression, None for IoU alone. "beta" is the option beta_nms.
POWERS = {"default": None, "cornersnms": None, "greedynms": 0.6, "diounms": "beta"}


@kind("region")
def region(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    section.refuse("background", "a background class")
    section.refuse("coords", "boxes have four numbers", neutral=4)
    section.skip("coords")
    classes = section.integer("classes", 20, 1)
    count = section.integer("num", 1, 1)
    class_softmax = section.flag("softmax")
    stride = _stride(build, section, shape)
    anchors = _anchors(build, section, count)[:count]   # in cells
    _check_channels(section, shape, count, 5, classes)
    tree = build.tree(section, classes) if "tree" in section else None
    build.trains(lambda: region_loss(build, section, anchors, tree))
    if tree is not None:
        boxes = _boxes(TreeBoxes, anchors * stride, tree, stride, dialect=build.dialect)
        build.detects(Head(boxes, classes, stride, anchors * stride))
        return Layer(TreeRegion(count, tree, prefix=prefix), shape)
    boxes = _boxes(Boxes, anchors * stride, classes, stride)
    build.detects(Head(boxes, classes, stride, anchors * stride))
    return Layer(Region(anchors, classes, class_softmax, prefix=prefix), shape)


@kind("yolo")
def yolo(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    classes = section.integer("classes", 20, 1)
    all_anchors, mask = _anchors_and_mask(build, section)
    anchors = all_anchors[mask]
    scale = section.number("scale_x_y", 1)
    activated = section.flag("new_coords")
    stride = _stride(build, section, shape)
    _check_channels(section, shape, len(anchors), 5, classes)
    boxes = _boxes(SquaredBoxes if activated else Boxes, anchors, classes, stride)
    build.detects(Head(boxes, classes, stride, anchors, _power(section)))
    build.trains(lambda: yolo_loss(section, build.dialect, all_anchors, mask, stride)._replace(
        class_map=build.class_map(section, classes)))
    if scale == 1 and not activated:
        return Layer(Region(anchors, classes, class_softmax=False, prefix=prefix), shape)
    return Layer(Yolo(anchors, classes, scale, activated, prefix=prefix), shape)


@kind("Gaussian_yolo")
def gaussian_yolo(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    classes = section.integer("classes", 20, 1)
    all_anchors, mask = _anchors_and_mask(build, section)
    anchors = all_anchors[mask]
    scale = section.number("scale_x_y", 1)
    shift = SHIFTS[section.text("yolo_point", "center", sorted(SHIFTS))]
    stride = _stride(build, section, shape)
    _check_channels(section, shape, len(anchors), 9, classes)
    boxes = _boxes(GaussianBoxes, anchors, classes, stride, shift=shift)
    build.detects(Head(boxes, classes, stride, anchors, _power(section)))
    build.trains(lambda: gaussian_yolo_loss(section, all_anchors, mask, stride)._replace(
        class_map=build.class_map(section, classes)))
    return Layer(GaussianYolo(len(anchors), scale, prefix=prefix), shape)


@kind("detection", takes_row=True)
def detection(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    section.refuse("reorg", "another order of numbers")
    section.refuse("coords", "boxes have four numbers", neutral=4)
    section.skip("coords")
    classes = section.integer("classes", 1, 1)
    count = section.integer("num", 1, 1)
    side = section.integer("side", 7, 1)
    square = section.flag("sqrt")
    numbers = side * side * (classes + 5 * count)
    if math.prod(shape) != numbers:
        raise section.error(f"its input has {math.prod(shape)} numbers; expected {side} * {side} cells * ({classes} "
                            f"classes + {count} boxes * 5) = {numbers}", "Correct output of the layer before",
                            section.line_of("side"))
    _, height, width = build.net.input_shape
    boxes = _boxes(CellBoxes, side, count, classes, (height, width), square)
    build.detects(Head(boxes, classes, 1))
    build.trains(lambda: detection_loss(section))
    if section.flag("softmax"):
        return Layer(CellSoftmax(side * side, classes, prefix=prefix), (numbers,))
    return Layer(Identity(prefix=prefix), shape)


def _boxes(make: type, *args: object, **kwargs: object) -> Callable[[float, str], HybridBlock]:
    """What makes a block of candidates from the detector's threshold and a prefix."""
    if make is TreeBoxes:
        return lambda threshold, prefix: make(*args, threshold=threshold, prefix=prefix, **kwargs)
    return lambda threshold, prefix: make(*args, prefix=prefix, **kwargs)


def _power(section: Section) -> float | None:
    """The power of the suppression that the options name."""
    beta = section.number("beta_nms", 0.6)
    power = POWERS[section.text("nms_kind", "default", sorted(POWERS))]
    return beta if power == "beta" else power


def _anchors_and_mask(build: Builder, section: Section) -> tuple[np.ndarray, list[int]]:
    """The anchors of all heads, in pixels, and the numbers of this head's."""
    count = section.integer("num", 1, 1)
    mask = section.integers("mask", ",".join(map(str, range(count))))
    anchors = _anchors(build, section, count)
    if not all(0 <= i < len(anchors) for i in mask):
        raise section.error(f"mask is {mask}; expected numbers of anchors, 0 to {len(anchors) - 1}", "Correct mask",
                            section.line_of("mask"))
    return anchors, mask


def _anchors(build: Builder, section: Section, count: int) -> np.ndarray:
    """The option ``anchors``: (count, 2) of float32. Without it Darknet takes 0.5.

    Some cfgs that AlexeyAB's Darknet ships have fewer or more than ``num`` says. He takes 0.5 for numbers that are
    missing. Those that are too many stay: a mask may name them, although his program then reads other memory.
    """
    default = [ANCHOR] * (2 * count)
    numbers = section.numbers("anchors") if "anchors" in section else default
    if build.dialect == "alexeyab":
        numbers += default[len(numbers):]
        count = len(numbers) // 2
    if len(numbers) != 2 * count or min(numbers) <= 0:
        raise section.error(f"anchors are {len(numbers)} numbers from {min(numbers)} up; expected {2 * count} "
                            f"numbers above 0, for num={count}", "Correct anchors or num", section.line_of("anchors"))
    return np.array(numbers, "float32").reshape(-1, 2)


def _stride(build: Builder, section: Section, shape: Shape) -> int:
    """Pixels from one cell of a map to the next."""
    _, height, width = build.net.input_shape
    _, rows, columns = shape
    if width % columns or height % rows or width // columns != height // rows:
        raise section.error(f"its map has {rows} x {columns} cells for images of {height} x {width}; expected "
                            "square cells of whole pixels",
                            "Choose a height and width in [net] that are multiples of 32")
    return width // columns


def _check_channels(section: Section, shape: Shape, anchors: int, numbers: int, classes: int) -> None:
    """Raise an OpError if a map has other channels than its anchors and classes."""
    channels = anchors * (numbers + classes)
    if shape[0] != channels:
        raise section.error(f"its input has {shape[0]} channels; expected {anchors} anchors * ({numbers} + {classes} "
                            f"classes) = {channels}", "Correct filters of the layer before",
                            section.line_of("classes"))
