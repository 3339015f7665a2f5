"""The overlap of boxes, and the losses of boxes that are regressed to others, computed with MXNet's own operators.

A box is two sides, one along each axis. If ends of two boxes coincide, the derivatives are those for the end of the
first box, as in MXNet's minimum and maximum.
"""
from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import NamedTuple

from ...backends.emitter import Array

LOSS_EPS = 1e-7     # the constant of torchvision
TINY_AREA = 1e-18   # added to a union, so that boxes without an area have the IoU 0; its square is a float32


class Side(NamedTuple):
    """Boxes along one axis."""
    center: Array
    size: Array
    low: Array
    high: Array


def side_of_center(center: Array, size: Array) -> Side:
    return Side(center, size, center - size / 2, center + size / 2)


def side_of_corners(low: Array, high: Array) -> Side:
    return Side((low + high) / 2, high - low, low, high)


def sides(columns: Sequence[Array], box_format: str) -> tuple[Side, Side]:
    """Return the sides of boxes along both axes, from the four numbers of the boxes in an operator's format."""
    first_x, first_y, second_x, second_y = columns
    side_of = side_of_center if box_format == "center" else side_of_corners
    return side_of(first_x, second_x), side_of(first_y, second_y)


def columns_of(F, boxes: Array) -> list[Array]:
    """Return the four numbers of boxes (..., 4), as arrays (..., 1)."""
    return [F.slice_axis(boxes, axis=-1, begin=i, end=i + 1) for i in range(4)]


def row_gradient(F, by: Sequence[Array], box_format: str) -> Array:
    """Return the gradient of boxes, (..., 4), from the derivatives by x, y, width and height, (..., 1)."""
    if box_format == "corner":
        x, y, w, h = by
        by = [x / 2 - w, y / 2 - h, x / 2 + w, y / 2 + h]
    return F.concat(*by, dim=-1)


class Extent(NamedTuple):
    """Two boxes along one axis. The derivatives are taken with respect to the centre and the size of the first box."""
    distance: Array   # the distance of the centres, with a sign
    overlap: Array    # its length, below 0 if there is none
    overlap_by_center: Array
    overlap_by_size: Array
    hull: Array       # length of the smallest interval that contains both
    hull_by_center: Array
    hull_by_size: Array

    def exchanged(self) -> Extent:
        """Return the same extent with derivatives with respect to the other box."""
        return Extent(-self.distance, self.overlap, -self.overlap_by_center, 1 - self.overlap_by_size, self.hull,
                      -self.hull_by_center, 1 - self.hull_by_size)


def extent(F, side: Side, other: Side) -> Extent:
    """Return the :class:`Extent` of two sides. Their shapes broadcast."""
    low_inside = F.broadcast_greater_equal(side.low, other.low)
    high_inside = F.broadcast_lesser_equal(side.high, other.high)
    low_outside = F.broadcast_lesser_equal(side.low, other.low)
    high_outside = F.broadcast_greater_equal(side.high, other.high)
    return Extent(
        distance=F.broadcast_sub(side.center, other.center),
        overlap=F.broadcast_minimum(side.high, other.high) - F.broadcast_maximum(side.low, other.low),
        overlap_by_center=high_inside - low_inside,
        overlap_by_size=(high_inside + low_inside) / 2,
        hull=F.broadcast_maximum(side.high, other.high) - F.broadcast_minimum(side.low, other.low),
        hull_by_center=high_outside - low_outside,
        hull_by_size=(high_outside + low_outside) / 2,
    )


class BoxPair:
    """Two boxes whose shapes broadcast, the area of their union, to which ``eps`` is added, and their IoU."""

    def __init__(self, F, box: tuple[Side, Side], other: tuple[Side, Side], eps: float):
        self.F, self.box, self.other = F, box, other
        self.across, self.down = (extent(F, side, of_other) for side, of_other in zip(box, other))
        self.intersection = F.relu(self.across.overlap) * F.relu(self.down.overlap)
        areas = F.broadcast_add(box[0].size * box[1].size, other[0].size * other[1].size)
        self.union = F.broadcast_sub(areas, self.intersection) + eps
        self.iou = self.intersection / self.union

    def exchanged(self) -> BoxPair:
        """Return the pair with the other box as the first one."""
        pair = copy.copy(self)
        pair.box, pair.other = self.other, self.box
        pair.across, pair.down = self.across.exchanged(), self.down.exchanged()
        return pair

    def gradient(self, by_union: Array, by_hulls: tuple[Array, Array] | None = None) -> list[Array]:
        """Return the derivatives of a loss with respect to x, y, width and height of the first box.

        The loss is -IoU plus a term in the area of the union and the sides of the hull. ``by_union`` is its derivative
        by this area, with what -IoU adds, and ``by_hulls`` by these sides.
        """
        F = self.F
        overlaps = (self.across.overlap > 0) * (self.down.overlap > 0)
        by_intersection = F.where(overlaps, -1 / self.union - by_union, F.zeros_like(self.union))
        by_overlaps = by_intersection * self.down.overlap, by_intersection * self.across.overlap
        by_sides = [F.broadcast_mul(by_union, side.size) for side in (self.box[1], self.box[0])]

        by_centers = [by * along.overlap_by_center for along, by in zip((self.across, self.down), by_overlaps)]
        by_sizes = [by * along.overlap_by_size for along, by in zip((self.across, self.down), by_overlaps)]
        if by_hulls is not None:
            along_hulls = list(zip((self.across, self.down), by_hulls))
            by_centers = [a + by * along.hull_by_center for a, (along, by) in zip(by_centers, along_hulls)]
            by_sizes = [a + by * along.hull_by_size for a, (along, by) in zip(by_sizes, along_hulls)]
        return by_centers + [a + b for a, b in zip(by_sizes, by_sides)]


class IouLoss:
    """1 - IoU of a pair of boxes."""

    def __init__(self, pair: BoxPair, eps: float = 0.0):
        self.F, self.pair, self.eps = pair.F, pair, eps

    def value(self) -> Array:
        """Return the loss of each pair."""
        return 1 - self.pair.iou

    def gradient(self) -> list[Array]:
        """Return the derivatives with respect to x, y, width and height of the first box."""
        return self.pair.gradient(self.pair.iou / self.pair.union)


class GiouLoss(IouLoss):
    """1 - GIoU. ``eps`` is added to the area of the hull."""

    def __init__(self, pair: BoxPair, eps: float = 0.0):
        super().__init__(pair, eps)
        self.hull = self.pair.across.hull * self.pair.down.hull + self.eps
        self.filled = self.pair.union / self.hull

    def value(self) -> Array:
        return 2 - self.pair.iou - self.filled

    def gradient(self) -> list[Array]:
        by_union = (self.pair.iou - self.filled) / self.pair.union
        by_hull = self.filled / self.hull
        return self.pair.gradient(by_union, (by_hull * self.pair.down.hull, by_hull * self.pair.across.hull))


class DiouLoss(IouLoss):
    """1 - DIoU. ``eps`` is added to the square of the hull's diagonal."""

    def __init__(self, pair: BoxPair, eps: float = 0.0):
        super().__init__(pair, eps)
        F, across, down = pair.F, pair.across, pair.down
        self.squared_diagonal = F.square(across.hull) + F.square(down.hull) + self.eps
        self.penalty = (F.square(across.distance) + F.square(down.distance)) / self.squared_diagonal

    def value(self) -> Array:
        return 1 - self.pair.iou + self.penalty

    def gradient(self) -> list[Array]:
        across, down = self.pair.across, self.pair.down
        by_hull = -2 * self.penalty / self.squared_diagonal
        by = self.pair.gradient(self.pair.iou / self.pair.union, (by_hull * across.hull, by_hull * down.hull))
        by[0] = by[0] + 2 * across.distance / self.squared_diagonal
        by[1] = by[1] + 2 * down.distance / self.squared_diagonal
        return by


class CiouLoss(DiouLoss):
    """1 - CIoU. The weight of the aspect ratios' term, the paper's alpha, is a constant of the gradient."""

    SCALE = 4 / math.pi ** 2

    def __init__(self, pair: BoxPair, eps: float = 0.0):
        super().__init__(pair, eps)
        F = pair.F
        self.difference = F.broadcast_sub(_aspect_angle(F, *pair.other), _aspect_angle(F, *pair.box))
        self.v = F.square(self.difference) * self.SCALE
        distance = F.relu(1 - pair.iou)   # rounding may make the IoU larger than 1
        self.alpha = F.BlockGrad(self.v / (distance + self.v + self.eps))

    def value(self) -> Array:
        return super().value() + self.alpha * self.v

    def gradient(self) -> list[Array]:
        F, (across, down) = self.F, self.pair.box
        flat, divisor = _divisor(F, down)
        ratio = across.size / divisor
        by_width = F.where(flat, F.zeros_like(ratio), 1 / (divisor * (1 + F.square(ratio))))
        by_angle = -2 * self.alpha * self.SCALE * self.difference
        by = super().gradient()
        by[2] = by[2] + by_angle * by_width
        by[3] = by[3] - by_angle * ratio * by_width
        return by


def _divisor(F, down: Side) -> tuple[Array, Array]:
    """Return which boxes have no height, and the heights with 1 in place of 0."""
    flat = down.size == 0
    return flat, F.where(flat, F.ones_like(down.size), down.size)


def _aspect_angle(F, across: Side, down: Side) -> Array:
    """Return arctan(width / height). Without a height it is pi/2 with the sign of the width, and 0 for a point."""
    flat, divisor = _divisor(F, down)
    return F.where(flat, F.sign(across.size) * (math.pi / 2), F.arctan(across.size / divisor))


LOSSES = {"iou": IouLoss, "giou": GiouLoss, "diou": DiouLoss, "ciou": CiouLoss}
