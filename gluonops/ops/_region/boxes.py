"""Rows of ground truth, (x, y, w, h, class), and the IoU of boxes.

A row is a box, padding (zeros), or invalid. :func:`is_box` and :func:`is_padding` tell them apart. Both take NumPy
arrays, NDArrays and Symbols. The product of comparisons is their logical and.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...core.backend import Array


def is_padding(x: Array, y: Array, w: Array, h: Array, class_id: Array) -> Array:
    """Whether rows consist of zeros: 1 or 0, in the shape of the arguments."""
    return (x == 0) * (y == 0) * (w == 0) * (h == 0) * (class_id == 0)


def is_box(x: Array, y: Array, w: Array, h: Array, class_id: Array, classes: int, floor: Callable) -> Array:
    """Whether rows are boxes: 1 or 0, in the shape of the arguments.

    A box has its centre in the image, w and h above 0, ``w * h`` below 2, and a class from 0 to ``classes - 1``. A row
    with a NaN is not a box.

    Parameters
    ----------
    x, y, w, h, class_id : numpy.ndarray, NDArray or Symbol
        Columns of the rows, in one shape.
    classes : int
        Number of classes.
    floor : callable
        ``numpy.floor``, ``mx.nd.floor`` or ``mx.sym.floor``.
    """
    centre_inside = (x >= 0) * (x <= 1) * (y >= 0) * (y <= 1)
    has_area = (w > 0) * (h > 0) * (w * h < 2)
    is_class = (class_id >= 0) * (class_id < classes) * (floor(class_id) == class_id)
    return centre_inside * has_area * is_class


def valid_mask(F, attrs, fields: Sequence[Array]) -> tuple[Array, Array]:
    """Which rows are boxes, and which images have an invalid row.

    Parameters
    ----------
    fields : sequence of NDArray or Symbol
        x, y, w, h and the class id, each (B, T, 1, 1, 1).

    Returns
    -------
    valid : NDArray or Symbol
        (B, T, 1, 1, 1), 1 or 0.
    nan_if_invalid : NDArray or Symbol
        (B,), NaN for an image with an invalid row, else 1.
    """
    valid = is_box(*fields, attrs.classes, F.floor)
    invalid = F.max((1 - valid) * (1 - is_padding(*fields)), axis=(1, 2, 3, 4))
    zero = F.zeros_like(invalid)
    return valid, F.where(invalid, zero * float("nan"), zero + 1)


def iou(F, first: Sequence[Array], second: Sequence[Array]) -> Array:
    """Intersection over union of boxes, 0 for boxes that do not overlap.

    Each box is (x, y, w, h): its centre and size. The shapes of the two broadcast.
    """
    x, y, w, h = first
    other_x, other_y, other_w, other_h = second
    intersection = _overlap(F, x, w, other_x, other_w) * _overlap(F, y, h, other_y, other_h)
    areas = F.broadcast_add(w * h, other_w * other_h)
    union = F.broadcast_sub(areas, intersection)
    return F.where(intersection > 0, intersection / union, F.zeros_like(intersection))


class Extent(NamedTuple):
    """Two boxes along one axis.

    Attributes
    ----------
    overlap, hull : NDArray or Symbol
        Length of the overlap (below 0 if there is none), and length of the smallest interval that contains both.
    overlap_by_center, overlap_by_size, hull_by_center, hull_by_size : NDArray or Symbol
        Derivatives of both with respect to the centre and the size of the first box.
    """
    overlap: Array
    overlap_by_center: Array
    overlap_by_size: Array
    hull: Array
    hull_by_center: Array
    hull_by_size: Array


def giou_loss(F, box: Sequence[Array], truth: Sequence[Array]) -> tuple[Array, list[Array]]:
    """1 - GIoU of boxes (x, y, w, h), and its derivatives with respect to x, y, w and h of ``box``.

    All arrays have one shape. If edges of the two boxes coincide, the derivatives are those for the edge of ``box``, as
    in MXNet's minimum and maximum.
    """
    across = _extent(F, box[0], box[2], truth[0], truth[2])
    down = _extent(F, box[1], box[3], truth[1], truth[3])
    overlaps = (across.overlap > 0) * (down.overlap > 0)
    intersection = F.relu(across.overlap) * F.relu(down.overlap)
    union = box[2] * box[3] + truth[2] * truth[3] - intersection
    hull = across.hull * down.hull
    overlap_share, hull_share = intersection / union, union / hull

    by_area = (overlap_share - hull_share) / union
    by_hull = hull_share / hull
    by_intersection = F.where(overlaps, -1 / union - by_area, F.zeros_like(union))
    by_overlaps = by_intersection * down.overlap, by_intersection * across.overlap
    by_hulls = by_hull * down.hull, by_hull * across.hull
    sides = by_area * box[3], by_area * box[2]
    by_centers = [by_overlap * extent.overlap_by_center + by_hull_side * extent.hull_by_center
                  for extent, by_overlap, by_hull_side in zip((across, down), by_overlaps, by_hulls)]
    by_sizes = [by_overlap * extent.overlap_by_size + by_hull_side * extent.hull_by_size + side
                for extent, by_overlap, by_hull_side, side in zip((across, down), by_overlaps, by_hulls, sides)]
    return 2 - overlap_share - hull_share, [F.BlockGrad(value) for value in by_centers + by_sizes]


def _extent(F, center, size, other_center, other_size):
    """The :class:`Extent` of two boxes along one axis."""
    low, other_low = center - size / 2, other_center - other_size / 2
    high, other_high = center + size / 2, other_center + other_size / 2
    low_inside, high_inside = low >= other_low, high <= other_high
    low_outside, high_outside = low <= other_low, high >= other_high
    return Extent(
        overlap=F.broadcast_minimum(high, other_high) - F.broadcast_maximum(low, other_low),
        overlap_by_center=high_inside - low_inside,
        overlap_by_size=(high_inside + low_inside) / 2,
        hull=F.broadcast_maximum(high, other_high) - F.broadcast_minimum(low, other_low),
        hull_by_center=high_outside - low_outside,
        hull_by_size=(high_outside + low_outside) / 2,
    )


def _overlap(F, center, size, other_center, other_size):
    """Length of the overlap of two intervals, 0 if they do not overlap."""
    low = F.broadcast_maximum(center - size / 2, other_center - other_size / 2)
    high = F.broadcast_minimum(center + size / 2, other_center + other_size / 2)
    return F.relu(high - low)
