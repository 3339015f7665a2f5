"""Sections that detect: ``[region]``, ``[yolo]``, ``[Gaussian_yolo]`` and ``[detection]``, and their blocks.

A block activates the map of its layer. With A anchors and K classes a map is (B, A*(5+K), H, W), or (B, A, 5+K, H, W)
with the axis of x, y, w, h, objectness and the classes apart. The options of a loss are read when it is asked for, not
when a cfg is loaded. Sources: as of ``candidates.py``; ``parse_region``, ``parse_yolo`` and ``parse_detection`` in
``src/parser.c`` of both programs.
"""
from __future__ import annotations

import math
from functools import partial

import numpy as np
from mxnet.gluon import HybridBlock

from ..backends.emitter import Array
from ..backends.layer import EitherModeBlock
from ..contract.errors import plural
from ..ops import region_decode
from ..ops.gaussian_yolo_loss.contract import SHIFTS
from .activations import Identity
from .blocks import add_constants, layer
from .build import Builder, Layer, Shape, kind
from .candidates import Boxes, CellBoxes, GaussianBoxes, SquaredBoxes, TreeBoxes
from .cfg import Section
from .net import Head
from .net_loss import HeadLoss, check_has_loss
from .tree import TreeSoftmax

ANCHOR = 0.5
NUMBERS = {"region": 5, "yolo": 5, "Gaussian_yolo": 9}   # An anchor has so many in front of its classes.
SCALES = dict.fromkeys(("object_scale", "noobject_scale", "coord_scale", "class_scale"), 1)   # option -> its default
BOX_LOSSES = ("mse", "iou", "giou", "diou", "ciou")
# nms_kind -> the power of the suppression, None for IoU alone. That of diounms is the option beta_nms.
POWERS = {"default": None, "cornersnms": None, "greedynms": 0.6}


class Region(EitherModeBlock):
    """Darknet's ``[region]`` and ``[yolo]``: sigmoid on x, y and objectness, softmax or sigmoid on the classes.

    See :func:`gluonops.ops.region_decode`.

    Parameters
    ----------
    anchors : array_like
        (A, 2), widths and heights in cells.
    classes : int
        Number of classes.
    class_softmax : bool, default True
        Softmax over the classes. If False, a sigmoid on each class.

    Inputs:
        - **data**: (B, A*(5+classes), H, W).

    Outputs:
        - **out**: the same shape.
    """

    def __init__(self, anchors: np.ndarray, classes: int, class_softmax: bool = True, **kwargs):
        super().__init__(**kwargs)
        flat_anchors = tuple(map(float, np.ravel(anchors)))
        self._options = {"anchors": flat_anchors, "classes": classes, "softmax": class_softmax}

    def hybrid_forward(self, F, data: Array) -> Array:
        return region_decode(data, layout="map", **self._options)


class Yolo(Region):
    """AlexeyAB's ``[yolo]``: a sigmoid on x, y, objectness and the classes, and x and y scaled about 0.5.

    - ``scale``: the option ``scale_x_y``. x and y lie between ``(1 - scale) / 2`` and ``(1 + scale) / 2``.
    - ``activated``: the option ``new_coords``. The layer before has applied the sigmoids already.
    """

    def __init__(self, anchors: np.ndarray, classes: int, scale: float = 1.0, activated: bool = False, **kwargs):
        super().__init__(anchors, classes, class_softmax=False, **kwargs)
        self._activated = activated
        scales = np.ones((len(anchors), 5 + classes), "float32")
        scales[:, :2] = scale
        scales = scales.reshape(1, -1, 1, 1)
        add_constants(self, scale=scales, offset=(1 - scales) / 2)

    def hybrid_forward(self, F, data: Array, scale: Array, offset: Array) -> Array:
        if not self._activated:
            data = super().hybrid_forward(F, data)
        return F.broadcast_add(F.broadcast_mul(data, scale), offset)


def yolo_block(anchors: np.ndarray, classes: int, scale: float = 1.0, activated: bool = False,
               **kwargs) -> Region:
    """The block of a ``[yolo]``: a plain ``Region`` if it has neither of :class:`Yolo`'s options."""
    if scale == 1 and not activated:
        return Region(anchors, classes, class_softmax=False, **kwargs)
    return Yolo(anchors, classes, scale, activated, **kwargs)


@layer
def GaussianYolo(F, data: Array, *, anchors: int, scale: float = 1.0) -> Array:
    """AlexeyAB's ``[Gaussian_yolo]``: sigmoids on all but width and height. Source: Choi et al. (2019).

    Each of x, y, w and h is followed by its uncertainty. Then come the objectness and the classes. So an anchor has
    9 + K numbers, and the data is (B, A*(9+K), H, W). For ``scale`` see :class:`Yolo`.
    """
    cells = F.reshape(data, shape=(0, -4, anchors, -1, 0, 0))

    def part(begin: int, end: int | None) -> Array:
        return F.slice_axis(cells, axis=2, begin=begin, end=end)

    def point(index: int) -> Array:
        return F.sigmoid(part(index, index + 1)) * scale + (1 - scale) / 2

    parts = [point(0), F.sigmoid(part(1, 2)), point(2), F.sigmoid(part(3, 4)), part(4, 5), F.sigmoid(part(5, 6)),
             part(6, 7), F.sigmoid(part(7, None))]
    return F.reshape(F.concat(*parts, dim=2), shape=(0, -3, 0, 0))


@layer
def TreeRegion(F, data: Array, *, anchors: int, softmax: HybridBlock) -> Array:
    """Darknet's ``[region]`` with a tree: sigmoid on x, y and objectness, a softmax over each group of classes.

    It computes what pjreddie's GPU build and AlexeyAB's program compute. The softmax of pjreddie's CPU build divides by
    a temperature of 0. ``anchors`` is their number, and ``softmax`` a ``TreeSoftmax``.
    """
    cells = F.reshape(data, shape=(0, -4, anchors, -1, 0, 0))
    cells = F.reshape(cells, shape=(-3, 0, -3))   # B*A, 5+K, H*W
    centres = F.sigmoid(F.slice_axis(cells, axis=1, begin=0, end=2))
    sizes = F.slice_axis(cells, axis=1, begin=2, end=4)
    objectness = F.sigmoid(F.slice_axis(cells, axis=1, begin=4, end=5))
    classes = softmax(F.slice_axis(cells, axis=1, begin=5, end=None))
    return F.reshape_like(F.concat(centres, sizes, objectness, classes, dim=1), data)


@layer
def CellSoftmax(F, data: Array, *, cells: int, classes: int) -> Array:
    """Darknet's ``[detection]`` with ``softmax``: a softmax over the classes of each cell, which are the first numbers.

    The data is (B, ...) with N numbers of an image, at least ``cells * classes``; the output is (B, N).
    """
    data = F.Flatten(data)   # it may be an image, behind a convolution
    rows = F.reshape(F.slice_axis(data, axis=1, begin=0, end=cells * classes), shape=(0, cells, classes))
    rest = F.slice_axis(data, axis=1, begin=cells * classes, end=None)
    return F.concat(F.Flatten(F.softmax(rows, axis=-1)), rest, dim=1)


@kind("region")
def region(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    section.refuse("background", "gluonops has no background class")
    section.refuse("coords", "a box has four numbers", neutral=4)
    classes = section.integer("classes", 20, 1)
    count = section.integer("num", 1, 1)
    class_softmax = section.flag("softmax")
    anchors = _anchors(build, section, count)[:count]   # They are in cells.
    stride = _stride(build, section, shape, count, classes)
    tree = build.tree(section, classes) if "tree" in section else None
    pixels = anchors * stride
    if tree is None:
        boxes = partial(Boxes, pixels, classes, stride)
        block = Region(anchors, classes, class_softmax, prefix=prefix)
    else:
        boxes = partial(TreeBoxes, pixels, tree, stride, build.dialect)
        block = TreeRegion(count, partial(TreeSoftmax, tree), prefix=prefix)
    head = Head(boxes, classes, stride, pixels)
    return Layer(block, shape, head=head, loss=lambda: _region_loss(build, section, anchors, classes))


def _region_loss(build: Builder, section: Section, anchors: np.ndarray, classes: int) -> HeadLoss:
    check_has_loss(section)
    section.refuse("focal_loss", "gluonops does not compute its loss", neutral=0)
    options = {"anchors": anchors.tolist(), "classes": classes, "softmax": section.flag("softmax"),
               **section.values(thresh=0.5, rescore=False, bias_match=False, **SCALES)}
    return HeadLoss("region", options, class_map=build.class_map(section, classes))


@kind("yolo")
@kind("Gaussian_yolo")
def yolo(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    """Sections with a mask of the net's anchors."""
    classes = section.integer("classes", 20, 1)
    count = section.integer("num", 1, 1)
    mask = section.integers("mask", ",".join(map(str, range(count))))
    all_anchors = _anchors(build, section, count)
    if not all(0 <= i < len(all_anchors) for i in mask):
        raise section.error(f"mask is {mask}; expected numbers of anchors, 0 to {len(all_anchors) - 1}",
                            "Correct mask", "mask")
    anchors = all_anchors[mask]
    scale = section.number("scale_x_y", 1)
    if section.kind == "yolo":
        activated = section.flag("new_coords")
        block = yolo_block(anchors, classes, scale, activated, prefix=prefix)
        boxes = SquaredBoxes if activated else Boxes
    else:
        block = GaussianYolo(len(anchors), scale, prefix=prefix)
        boxes = partial(GaussianBoxes, shift=SHIFTS[section.text("yolo_point", "center", sorted(SHIFTS))])
    stride = _stride(build, section, shape, len(anchors), classes)
    powers = {**POWERS, "diounms": section.number("beta_nms", 0.6)}
    power = powers[section.text("nms_kind", "default", sorted(powers))]
    head = Head(partial(boxes, anchors, classes, stride), classes, stride, anchors, power)
    options = {"anchors": all_anchors.tolist(), "classes": classes, "masks": tuple(mask), "strides": stride}
    return Layer(block, shape, head=head, loss=lambda: _yolo_loss(build, section, options))


def _yolo_loss(build: Builder, section: Section, options: dict) -> HeadLoss:
    options = {**options, **section.values(ignore_thresh=0.5, truth_thresh=1)}
    class_map = build.class_map(section, options["classes"])
    if section.kind == "yolo":
        options["dialect"] = build.dialect
        if build.dialect == "pjreddie":
            return HeadLoss("yolo", options, class_map=class_map)

    for key in ("counters_per_class", "embedding_layer"):
        section.refuse(key, "gluonops does not compute its loss", neutral=None)
    section.text("iou_thresh_kind", "iou", ["iou"])
    box_loss = section.text("iou_loss", "mse", BOX_LOSSES)
    options.update(section.values(iou_thresh=1, iou_normalizer=0.75, obj_normalizer=1, max_delta=0, scale_x_y=1,
                                  label_smooth_eps=0, objectness_smooth=False))
    weight = section.number("delta_normalizer", 1)
    if section.kind == "yolo":
        options.update(section.values(new_coords=False, focal_loss=False), box_loss=box_loss)
        return HeadLoss("yolo", options, weight, class_map)
    options.update(section.values(uc_normalizer=1), box_loss="nll" if box_loss == "mse" else box_loss,
                   point=section.text("yolo_point", "center"))
    return HeadLoss("gaussian_yolo", options, weight, class_map)


@kind("detection", takes_row=True)
def detection(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    section.refuse("reorg", "it changes the order of the numbers")
    section.refuse("coords", "a box has four numbers", neutral=4)
    classes = section.integer("classes", 1, 1)
    count = section.integer("num", 1, 1)
    side = section.integer("side", 7, 1)
    square = section.flag("sqrt")
    numbers = side * side * (classes + 5 * count)
    if math.prod(shape) != numbers:
        raise section.error(f"its input has {math.prod(shape)} numbers; expected {side} * {side} cells * ({classes} "
                            f"classes + {count} boxes * 5) = {numbers}", "Correct output in the section before", "side")
    _, height, width = build.net.input_shape
    head = Head(partial(CellBoxes, side, count, classes, (height, width), square), classes, 1)
    block = Identity(prefix=prefix)
    if section.flag("softmax"):
        block, shape = CellSoftmax(side * side, classes, prefix=prefix), (numbers,)
    return Layer(block, shape, head=head, loss=lambda: check_has_loss(section))


def _anchors(build: Builder, section: Section, count: int) -> np.ndarray:
    """The option ``anchors``, (count, 2), float32. Without the option all anchors are 0.5, as in Darknet.

    Some cfgs that AlexeyAB's Darknet ships have fewer or more anchors than ``num`` says. Missing numbers are 0.5, as in
    his program. Surplus anchors are kept, because a mask may name them. His program then reads memory of something
    else.
    """
    default = [ANCHOR] * (2 * count)
    numbers = section.numbers("anchors") if "anchors" in section else default
    if build.dialect == "alexeyab":
        numbers += default[len(numbers):]
        count = len(numbers) // 2
    if len(numbers) != 2 * count or min(numbers) <= 0:
        raise section.error(f"anchors has {plural(len(numbers), 'number')}, the smallest of which is {min(numbers)}; "
                            f"expected {2 * count} numbers above 0, because num is {count}",
                            "Correct anchors or num", "anchors")
    return np.array(numbers, "float32").reshape(-1, 2)


def _stride(build: Builder, section: Section, shape: Shape, anchors: int, classes: int) -> int:
    """The number of pixels from one cell of a map to the next.

    An OpError is raised if the number of channels does not follow from the anchors and the classes.
    """
    _, height, width = build.net.input_shape
    channels, rows, columns = shape
    if width % columns or height % rows or width // columns != height // rows:
        raise section.error(f"its map has {rows} x {columns} cells for images of {height} x {width}; expected "
                            "square cells of whole pixels",
                            "Choose a height and width in [net] that are multiples of 32")
    numbers = NUMBERS[section.kind]
    expected = anchors * (numbers + classes)
    if channels != expected:
        raise section.error(f"its input has {channels} channels; expected {anchors} anchors * ({numbers} + {classes} "
                            f"classes) = {expected}", "Correct filters in the section before", "classes")
    return width // columns
