"""The anchor and cell of YOLOv2's map that each ground truth is matched to, and the targets there.

Sizes in shapes: B images, T rows of ground truth, A anchors, H rows, W columns, K classes. Nothing has a gradient.
Source: pjreddie/darknet ``src/region_layer.c``, commit f6afaabc.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...core.emitter import Array
from .boxes import iou, valid_mask
from .reference import decode_boxes

TARGETS = 6   # values per ground truth besides its classes: x, y, w, h, scale, iou
RECALL_IOU = 0.5


class Assignment(NamedTuple):
    """The result of :func:`assign`.

    If several ground truths are matched to one anchor and cell, the targets there are those of the last one.

    - ``assigned``: (B, A, 1, H, W): 1 if a ground truth is matched to this anchor and cell, else 0.
    - ``max_iou``: (B, A, 1, H, W): largest IoU of the predicted box with any ground truth.
    - ``x``, ``y``, ``w``, ``h``: (B, A, 1, H, W): targets of the box's channels.
    - ``scale``: (B, A, 1, H, W): weight of the errors of the box's channels.
    - ``iou``: (B, A, 1, H, W): IoU of the predicted box with its ground truth.
    - ``classes``: (B, A, K, H, W): class targets.
    - ``nan_if_invalid``: (B,): NaN for an image with an invalid row, else 1.
    - ``total_iou``, ``total_recall``, ``total_probability``: (B,): sums over the ground truths: the IoU, IoU > 0.5, and
      the probability of the class.
    - ``count``: (B,): number of ground truths.
    """
    assigned: Array
    max_iou: Array
    x: Array
    y: Array
    w: Array
    h: Array
    scale: Array
    iou: Array
    classes: Array
    nan_if_invalid: Array
    total_iou: Array
    total_recall: Array
    total_probability: Array
    count: Array


def assign(F, attrs, grid_constants: tuple, activations: Sequence[Array], p: Array, truth: Array) -> Assignment:
    """Match each ground truth to an anchor and a cell.

    - ``grid_constants``: the result of :func:`gluonops.ops._region.reference.grid`.
    - ``activations``: x and y after the sigmoid, w and h raw, each (B, A, 1, H, W).
    - ``p``: class probabilities, (B, A, K, H, W).
    - ``truth``: ground truth, (B, T, 5).
    """
    columns, rows, width, height, anchor_w, anchor_h = grid_constants
    fields = [F.reshape(F.slice_axis(truth, axis=2, begin=i, end=i + 1), shape=(0, 0, 1, 1, 1)) for i in range(5)]
    valid, nan_if_invalid = valid_mask(F, attrs, fields)
    x, y, w, h, class_id = (F.where(valid, field, F.zeros_like(field)) for field in fields)    # B, T, 1, 1, 1

    # The IoU of each predicted box with each ground truth. The predictions move their anchors from axis 1 to axis 2.
    predicted = [F.swapaxes(value, dim1=1, dim2=2) for value in decode_boxes(F, grid_constants, *activations)]
    ious = iou(F, predicted, (x, y, w, h))                                                     # B, T, A, H, W

    # The anchor and the cell, and the values of the predicted box there.
    image, order = indices(F, truth, _flat(F, x))                                              # B, T
    anchor, row, column = match(F, attrs, grid_constants, predicted, image, (x, y, w, h))      # B, T, 1, 1, 1 each
    center_x, center_y = F.broadcast_mul(x, width), F.broadcast_mul(y, height)
    place = [_flat(F, index) for index in (anchor, row, column)]                               # B, T each
    own_iou = F.gather_nd(ious, F.stack(image, order, *place, axis=0))                         # B, T
    own_probability = _gather_class(F, p, image, place, _flat(F, class_id))                    # B, T

    # The last ground truth of each anchor and cell.
    number = valid * F.reshape(order + 1, shape=(0, 0, 1, 1, 1))
    last = _last_box(F, grid_constants, anchor, row, column, number)                           # B, A, H, W

    # The targets of each ground truth, and then those of each anchor and cell.
    classes = _class_targets(F, attrs, p, class_id, place, image, order, valid)                # B, T, K
    padding = 1 - valid   # a size of 1 keeps the logarithms of padding finite
    target_w = _log_ratio(F, w + padding, width, anchor_w, anchor)
    target_h = _log_ratio(F, h + padding, height, anchor_h, anchor)
    scale = attrs.coord_scale * (2 - w * h)
    targets = [center_x - column, center_y - row, target_w, target_h, scale]
    targets = [F.reshape(value, shape=(0, 0, 1)) for value in targets]
    targets = F.concat(*targets, F.expand_dims(own_iou, axis=2), classes, dim=2)               # B, T, 6+K
    targets = _of_last_box(F, targets, last)                                                   # B, A, 6+K, H, W

    is_box = _flat(F, valid)
    total_iou, total_recall, total_probability = (
        F.sum(is_box * value, axis=1) for value in (own_iou, own_iou > RECALL_IOU, own_probability))
    assigned = F.expand_dims(last, axis=2) > 0
    max_iou = F.expand_dims(F.max(ious, axis=1), axis=2)
    box_targets = [F.slice_axis(targets, axis=2, begin=i, end=i + 1) for i in range(TARGETS)]
    class_targets = F.slice_axis(targets, axis=2, begin=TARGETS, end=None)
    return Assignment(assigned, max_iou, *box_targets, class_targets, nan_if_invalid, total_iou, total_recall,
                      total_probability, F.sum(is_box, axis=1))


def match(F, attrs, grid_constants: tuple, predicted: Sequence[Array], image: Array,
          boxes: Sequence[Array]) -> tuple[Array, Array, Array]:
    """The anchor, the row and the column of each ground truth, (B, T, 1, 1, 1) each.

    - ``grid_constants``: the result of :func:`gluonops.ops._region.reference.grid`.
    - ``predicted``: the predicted boxes, (B, 1, A, H, W) each. Only their sizes count, and only without ``bias_match``.
    - ``image``: the image of each row of ground truth, (B, T); see :func:`indices`.
    - ``boxes``: x, y, w and h of the ground truth, (B, T, 1, 1, 1) each.
    """
    x, y, w, h = boxes
    _, _, width, height, _, _ = grid_constants
    column = F.broadcast_minimum(F.floor(F.broadcast_mul(x, width)), width - 1)
    row = F.broadcast_minimum(F.floor(F.broadcast_mul(y, height)), height - 1)
    cell = (image, _flat(F, row), _flat(F, column))
    sizes = _anchor_sizes(F, attrs, grid_constants, predicted, cell)
    return _best_anchor(F, sizes, w, h), row, column


def _flat(F, value):
    """(B, T, 1, 1, 1) as (B, T)."""
    return F.reshape(value, shape=(0, 0))


def _log_ratio(F, size, cells, anchor_sizes, anchor):
    """``log(size * cells / anchor_sizes[anchor])``: the target of w or h, (B, T, 1, 1, 1)."""
    own_size = F.take(F.reshape(anchor_sizes, shape=(-1,)), anchor)
    return F.log(F.broadcast_div(F.broadcast_mul(size, cells), own_size))


def _gather_class(F, p, image, place, class_id):
    """The probability of a class at each ground truth's anchor and cell, (B, T)."""
    anchor, row, column = place
    return F.gather_nd(p, F.stack(image, anchor, class_id, row, column, axis=0))


def indices(F, truth: Array, like: Array) -> tuple[Array, Array]:
    """The image of each row of ground truth, and the row's position in its image, both (B, T)."""
    image = F.reshape(F.contrib.arange_like(truth, axis=0), shape=(-1, 1))
    order = F.reshape(F.contrib.arange_like(truth, axis=1), shape=(1, -1))
    return F.broadcast_like(image, like), F.broadcast_like(order, like)


def _anchor_sizes(F, attrs, grid_constants, predicted, cell):
    """The widths and heights that a ground truth is compared with.

    With ``bias_match`` they are the anchors' sizes, (1, 1, A, 1, 1). Without, they are the sizes predicted in the cell
    of the ground truth, (B, T, A, 1, 1).
    """
    _, _, width, height, anchor_w, anchor_h = grid_constants
    if attrs.bias_match:
        sizes = F.broadcast_div(anchor_w, width), F.broadcast_div(anchor_h, height)
        return [F.swapaxes(size, dim1=1, dim2=2) for size in sizes]

    cell = F.stack(*cell, axis=0)
    sizes = [F.gather_nd(F.transpose(size, axes=(0, 3, 4, 2, 1)), cell) for size in predicted[2:]]
    return [F.reshape(size, shape=(0, 0, 0, 1, 1)) for size in sizes]


def _best_anchor(F, sizes, w, h):
    """The anchor whose size has the largest IoU with the size of the ground truth, (B, T, 1, 1, 1)."""
    origin, zero = F.zeros_like(sizes[0]), F.zeros_like(w)
    ious = iou(F, (origin, origin, *sizes), (zero, zero, w, h))
    return F.argmax(ious, axis=2, keepdims=True)


def _last_box(F, grid_constants, anchor, row, column, number):
    """The number of the last ground truth of each anchor and cell, (B, A, H, W).

    ``number``, (B, T, 1, 1, 1), counts the rows of ground truth from 1. 0 means none.
    """
    columns, rows, _, _, anchor_w, _ = grid_constants
    anchors = F.reshape(F.contrib.arange_like(anchor_w, axis=1), shape=(1, -1, 1, 1, 1))
    anchors = F.swapaxes(anchors, dim1=1, dim2=2)
    numbers = F.broadcast_mul(F.broadcast_equal(anchors, anchor), number)
    numbers = F.broadcast_mul(numbers, F.broadcast_equal(rows, row))
    numbers = F.broadcast_mul(numbers, F.broadcast_equal(columns, column))
    return F.max(numbers, axis=1)


def _of_last_box(F, values, last):
    """The values of the last ground truth of each anchor and cell, (B, A, N, H, W), from ``values``, (B, T, N).

    If there is none, the result holds the values of row 0.
    """
    image = F.reshape(F.contrib.arange_like(last, axis=0), shape=(-1, 1, 1, 1))
    image = F.broadcast_like(image, last)
    values = F.gather_nd(values, F.stack(image, F.relu(last - 1), axis=0))
    return F.transpose(values, axes=(0, 1, 4, 2, 3))


def _class_targets(F, attrs, p, class_id, place, image, order, valid):
    """The class targets of each ground truth, (B, T, K).

    With a softmax the target is the ground truth's own class. With sigmoids, the classes of earlier ground truths with
    the same anchor and cell are targets as well. Darknet clears them if the error of class 0 is exactly 0, which
    happens if the sigmoid is equal to the target so far.
    """
    classes = F.reshape(F.contrib.arange_like(p, axis=2), shape=(1, 1, -1))
    own = F.broadcast_equal(F.reshape(class_id, shape=(0, 0, 1)), classes)
    if attrs.softmax:
        return own

    counts = _counting_pairs(F, p, class_id, place, image, order, valid)
    return F.max(F.broadcast_mul(F.expand_dims(counts, axis=3), F.expand_dims(own, axis=1)), axis=2)


def _counting_pairs(F, p, class_id, place, image, order, valid):
    """Whether the class of the second ground truth is a target of the first one: 1 or 0, (B, T, T)."""
    def pairwise(compare, values):
        return compare(F.expand_dims(values, axis=2), F.expand_dims(values, axis=1))           # B, T, T

    is_box = _flat(F, valid)
    same_place = F.broadcast_mul(F.expand_dims(is_box, axis=2), F.expand_dims(is_box, axis=1))
    for index in place:
        same_place = same_place * pairwise(F.broadcast_equal, index)
    earlier = same_place * pairwise(F.broadcast_greater, order)

    # The number of earlier ground truths of class 0 in the same place, and the probability of class 0 there.
    is_class_0 = F.expand_dims(_flat(F, class_id) == 0, axis=1)
    earlier_0 = F.sum(F.broadcast_mul(earlier, is_class_0), axis=2)
    probability_0 = _gather_class(F, p, image, place, F.zeros_like(image))
    probability_0 = F.expand_dims(probability_0, axis=2)

    # An earlier ground truth does not count if Darknet clears the targets between the two.
    no_class_0_so_far = F.expand_dims((earlier_0 + F.reshape(is_class_0, shape=(0, -1))) == 0, axis=1)
    cleared_at_1 = F.broadcast_mul(probability_0 == 1, 1 - pairwise(F.broadcast_equal, earlier_0))
    cleared_at_0 = F.broadcast_mul(probability_0 == 0, no_class_0_so_far)
    itself = same_place * pairwise(F.broadcast_equal, order)
    return earlier * (1 - (cleared_at_1 + cleared_at_0)) + itself
