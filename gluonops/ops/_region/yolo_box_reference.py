"""The errors of the boxes of YOLO's heads, computed with MXNet's own operators.

The shapes are those of yolo_reference.py.
"""
import math
from collections.abc import Sequence

from ...backends.emitter import Array
from .._boxes.reference import LOSS_EPS, LOSSES, BoxPair, Side, extent, side_of_center, sides
from .reference import HEIGHT, WIDTH, X, Y
from .yolo_reference import Head, Matches, Truths, by_anchor, entropy

ALPHA_EPS = 1e-6   # the constant of AlexeyAB's program


def last_truths(F, truths: Truths, matches: Matches) -> Truths:
    """Return the last match of each prediction, whose columns are (B, 1, A, H, W). It is padding if there is none."""
    row = F.cast(matches.last, dtype="float32")   # float16 does not count all images
    image = F.broadcast_like(F.reshape(F.contrib.arange_like(row, axis=0), shape=(-1, 1, 1, 1, 1)), row)
    rows = F.reshape(F.concat(*truths[:5], dim=2), shape=(0, 0, 0))                  # B, T, 5
    rows = F.gather_nd(rows, F.stack(image, row, axis=0))                           # B, 1, A, H, W, 5
    valid = by_anchor(F, F.maximum(matches.has_cell, matches.has_overlap))
    fields = F.broadcast_mul(rows, F.expand_dims(valid, axis=5))
    fields = F.split(fields, num_outputs=5, axis=5, squeeze_axis=True)
    return Truths(*fields, truths.order, valid, truths.nan_if_invalid)


def sum_matches(F, attrs, truths: Truths, matches: Matches, values: Sequence[Array]) -> list[Array]:
    """Return the sums of values over the matches of each prediction, (B, A, 1, H, W).

    The values are those of all truths, or of :func:`last_truths`.
    """
    counts = matches.by_cell + matches.by_overlap if attrs.dialect == "alexeyab" else truths.valid
    zero = F.zeros_like(counts)
    sums = [F.sum(counts * F.where(counts, value, zero), axis=1, keepdims=True) for value in values]
    return [by_anchor(F, value) for value in sums]


def number_targets(F, attrs, head: Head, truths: Truths, shift: float = 0) -> list[Array]:
    """Return what x and y in their cell, w and h should be. The four arrays broadcast to (B, T, A, H, W)."""
    points = [truths.x - shift * truths.w, truths.y - shift * truths.h]
    targets = [F.broadcast_sub(F.broadcast_mul(point, cells), cell) for point, cells, cell in
               zip(points, (head.width, head.height), (head.columns, head.rows))]
    padding = 1 - truths.valid   # a size of 1 keeps the logarithms of padding finite
    for size, cells, anchor in ((truths.w, head.width, head.anchor_w), (truths.h, head.height, head.anchor_h)):
        ratio = F.broadcast_div(F.broadcast_mul(size + padding, cells), anchor)
        targets.append(F.sqrt(ratio / 4) if attrs.new_coords else F.log(ratio))
    return targets


def squared_errors(F, attrs, head: Head, truths: Truths) -> list[Array]:
    """Return the deltas of x, y, w and h, and the loss, (B, T, A, H, W) each."""
    scale = attrs.scale_x_y
    weight = attrs.iou_normalizer * (2 - truths.w * truths.h)
    targets = number_targets(F, attrs, head, truths)
    deltas, losses = [], []
    for i in (X, Y):
        deltas.append(F.broadcast_mul(weight, F.broadcast_sub(targets[i], head.offsets[i])))
        target = (targets[i] + (scale - 1) / 2) / scale
        losses.append(scale * F.broadcast_mul(weight, entropy(F, attrs, head.numbers[i], target)))
    for i in (WIDTH, HEIGHT):
        error = F.broadcast_sub(targets[i], head.numbers[i])
        deltas.append(F.broadcast_mul(weight, error))
        losses.append(F.broadcast_mul(weight, F.square(error)) / 2)
    return [*deltas, sum(losses[1:], losses[0])]


def iou_errors(F, attrs, head: Head, truths: Truths, shift: float = 0) -> list[Array]:
    """Return AlexeyAB's derivatives of the overlap, and the loss, (B, T, A, H, W) each, as ``iou_errors`` does."""
    box = head.box[:2] + [F.where(size == 0, F.ones_like(size), size) for size in head.box[2:]]
    truth_sides = sides(truths[:4], "center")
    box_sides = [side_of_center(box[i], box[i + 2]) for i in (0, 1)]
    # Ends that coincide count as the ground truth's.
    across, down = (extent(F, other, side).exchanged() for other, side in zip(truth_sides, box_sides))
    union = F.broadcast_add(truths.w * truths.h, box[2] * box[3]) - across.overlap * down.overlap
    by_x, by_w = _increase(F, attrs.box_loss, across, down, box[3], union)
    by_y, by_h = _increase(F, attrs.box_loss, down, across, box[2], union)
    if attrs.box_loss == "ciou":
        more_w, more_h = _aspect_increase(F, truths, box, across.overlap * down.overlap / union)
        by_w, by_h = by_w + more_w, by_h + more_h
    if shift:
        by_x, by_y = by_x - shift * by_w, by_y - shift * by_h
    if not attrs.new_coords:
        by_w, by_h = (F.broadcast_mul(by, factor) for by, factor in zip((by_w, by_h), head.factors))
    deltas = [limited(F, attrs, attrs.iou_normalizer * by) for by in (by_x, by_y, by_w, by_h)]

    pair = BoxPair(F, sides(head.box, "center"), not_empty(F, truths), LOSS_EPS)
    loss = LOSSES[attrs.box_loss](pair, LOSS_EPS).value()
    return [*deltas, attrs.iou_normalizer * loss]


def not_empty(F, truths: Truths) -> tuple[Side, Side]:
    """Return the sides of the ground truths, with a size of 1 for padding."""
    padding = 1 - truths.valid
    return sides((truths.x, truths.y, truths.w + padding, truths.h + padding), "center")


def _increase(F, kind, across, down, size_down, union):
    """Return the increase of an overlap's measure along an axis, by the centre and the size of the predicted box."""
    intersection = across.overlap * down.overlap
    overlap_by_center = down.overlap * across.overlap_by_center
    overlap_by_size = 2 * down.overlap * across.overlap_by_size
    both, squared = union + intersection, F.square(union)
    zero = F.zeros_like(union)
    has_union = union > 0
    by_center = F.where(has_union, both * overlap_by_center / squared, zero)
    increase_by_size = both * overlap_by_size - F.broadcast_mul(2 * intersection, size_down)
    by_size = F.where(has_union, increase_by_size / squared, zero)
    if kind == "iou":
        return by_center, by_size

    if kind == "giou":
        hull = across.hull * down.hull
        union_by_size = F.broadcast_sub(2 * size_down, overlap_by_size)
        more_by_center = (-hull * overlap_by_center - union * down.hull * across.hull_by_center) / F.square(hull)
        more_by_size = (hull * union_by_size - 2 * union * down.hull * across.hull_by_size) / F.square(hull)
        counts = hull > 0
    else:
        diagonal = F.square(across.hull) + F.square(down.hull)
        distance = F.square(across.distance) + F.square(down.distance)
        by_hull = 2 * across.hull * distance / F.square(diagonal)
        more_by_center = -2 * across.distance / diagonal - by_hull * across.hull_by_center
        more_by_size = by_hull * across.hull_by_size
        counts = diagonal > 0
    is_apart = F.maximum(across.overlap <= 0, down.overlap <= 0)
    return (F.where(is_apart, more_by_center, F.where(counts, by_center + more_by_center, by_center)),
            F.where(is_apart, more_by_size, F.where(counts, by_size + more_by_size, by_size)))


def _aspect_increase(F, truths, box, ratio):
    """Return what the aspect ratios add to CIoU's increase by w and h. ``ratio`` is the intersection by the union."""
    padding = 1 - truths.valid
    angle = F.arctan((truths.w + padding) / (truths.h + padding))
    difference = F.broadcast_sub(angle, F.arctan(box[2] / box[3]))
    scale = 4 / math.pi ** 2
    v = scale * F.square(difference)
    alpha = v / (1 - ratio + v + ALPHA_EPS)
    factor = 2 * scale * alpha * difference
    return F.broadcast_mul(factor, box[3]), -F.broadcast_mul(factor, box[2])


def limited(F, attrs, values: Array) -> Array:
    """Return 0 for numbers that are not finite, and limit the others to ``max_delta``."""
    values = F.where(values - values == 0, values, F.zeros_like(values))
    if attrs.max_delta > 0:
        values = F.maximum(F.minimum(values, attrs.max_delta), -attrs.max_delta)   # clip's limits are of float32
    return values
