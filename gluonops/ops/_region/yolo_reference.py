"""The losses of YOLO's heads and their gradients, computed with MXNet's own operators.

``attrs`` are those of ``yolo_loss``. ``shift`` is that of ``gaussian_yolo_loss``: the centre of a box lies this many
times its size down and to the right of the point that the head predicts. With 0.5 the head predicts the left upper
corner.

Sizes in shapes: B images, T rows of ground truth, A anchors, H rows, W columns, K classes. Pairs of a ground truth and
a prediction are dense, (B, T, A, H, W). Deltas are minus the gradient, as in Darknet.
"""
from __future__ import annotations

from typing import NamedTuple

from ...backends.concat import constants
from ...backends.emitter import Array
from .._softmax.reference import probabilities
from .reference import CLASSES, HEIGHT, OBJECT, WIDTH, X, Y, channel, class_channels, grid, split
from .truths import iou, valid_mask

LIKELY = 0.25         # class probability that AlexeyAB's program wants of an ignored prediction
RECALL_IOU = 0.5
FOCAL_EPS = 1e-15     # the constant of AlexeyAB's program


class Head(NamedTuple):
    """What the head predicts, and the constants of its grid."""
    numbers: list       # x, y, w, h and objectness, each (B, 1, A, H, W), of data
    offsets: list       # x and y in the cell, (B, 1, A, H, W)
    factors: list       # they multiply the anchors' sizes, (B, 1, A, H, W)
    box: list           # x, y, w, h, (B, 1, A, H, W)
    objectness: Array   # (B, A, 1, H, W)
    logits: Array       # the classes', (B, A, K, H, W)
    p: Array            # probabilities of the classes, (B, A, K, H, W)
    columns: Array
    rows: Array
    width: Array
    height: Array
    anchor_w: Array     # (1, 1, A, 1, 1); a cell has the size 1
    anchor_h: Array


class Truths(NamedTuple):
    """The ground truths. Each column is (B, T, 1, 1, 1)."""
    x: Array
    y: Array
    w: Array
    h: Array
    class_id: Array
    order: Array
    valid: Array
    nan_if_invalid: Array   # (B,)


class Matches(NamedTuple):
    """Which ground truths each prediction has."""
    by_cell: Array       # 1 or 0 for each pair, (B, T, A, H, W)
    by_overlap: Array    # likewise
    iou: Array           # (B, T, A, H, W)
    best_iou: Array      # (B, A, 1, H, W)
    has_cell: Array      # (B, A, 1, H, W)
    has_overlap: Array   # (B, A, 1, H, W)
    last: Array          # the row of the last one by cell, or else of that by overlap, (B, 1, A, H, W)
    cell: tuple          # the column and the row of the map that a ground truth is in, (B, T, 1, 1, 1) each


def result(F, attrs, data: Array, head: Head, truths: Truths, matches: Matches, objectness: tuple, classes: tuple,
           box: tuple) -> tuple[Array, ...]:
    """Return the outputs of an operator.

    - ``objectness``: the target of the objectness and the weight of its error, (B, A, 1, H, W) each.
    - ``classes``: the same of the classes, (B, A, K, H, W) each. The weight is 0 where a prediction learns no class.
    - ``box``: a list of the deltas of the box's channels, the loss, and ``is_averaged(objectness_delta)``: whether both
      are divided by the number of classes that increase; (B, A, 1, H, W) each.
    """
    has_match = F.maximum(matches.has_cell, matches.has_overlap)
    target, weight = objectness
    objectness_delta = weight * (target - head.objectness)
    objectness_loss = weight * entropy(F, attrs, by_anchor(F, head.numbers[OBJECT]), target)

    target, weight = classes
    class_delta = weight * (target - head.p)
    class_loss = weight * entropy(F, attrs, head.logits, target)

    box_deltas, box_loss, is_averaged = box
    positive = F.sum(class_delta > 0, axis=2, keepdims=True)
    is_divided = is_averaged(objectness_delta) * (positive > 0)
    share = F.where(is_divided, 1 / F.maximum(positive, F.ones_like(positive)), F.ones_like(positive))

    delta = F.concat(*[share * delta for delta in box_deltas], objectness_delta, class_delta, dim=2)
    terms = [image_sum(F, share * box_loss), image_sum(F, has_match * objectness_loss),
             image_sum(F, (1 - has_match) * objectness_loss), image_sum(F, class_loss)]
    return outputs(F, data, head, truths, matches, terms, image_sum(F, F.square(delta)), -delta)


def outputs(F, data: Array, head: Head, truths: Truths, matches: Matches, terms: list[Array], cost: Array,
            gradient: Array) -> tuple[Array, ...]:
    """Return the outputs from the terms of the loss and the sum of squared deltas, (B,) each, and (B, A, 5+K, H, W)."""
    parts = F.stack(*terms, cost, *_statistics(F, head, truths, matches), axis=1)
    parts = F.broadcast_mul(parts, F.expand_dims(truths.nan_if_invalid, axis=1))
    gradient = F.broadcast_mul(gradient, F.reshape(truths.nan_if_invalid, shape=(-1, 1, 1, 1, 1)))
    gradient = F.BlockGrad(F.reshape_like(gradient, data))

    # Darknet's deltas are not always a derivative: the loss is a constant, and a 0 with their derivative.
    loss = F.BlockGrad(sum(terms) * truths.nan_if_invalid)
    linear = F.sum(data * gradient, axis=(1, 2, 3))
    return loss + (linear - F.BlockGrad(linear)), F.BlockGrad(parts), gradient


def image_sum(F, values: Array) -> Array:
    """Return the sum over each image: (B,)."""
    return F.sum(values, axis=(1, 2, 3, 4))


def by_anchor(F, values: Array) -> Array:
    """Return an array of shape (B, 1, A, H, W) as (B, A, 1, H, W)."""
    return F.swapaxes(values, dim1=1, dim2=2)


def _activation(F, attrs, numbers):
    return numbers if attrs.new_coords else F.sigmoid(numbers)


def entropy(F, attrs, numbers: Array, target: Array) -> Array:
    """Return the loss whose derivative by a number of the map is ``activation - target``."""
    if attrs.new_coords:
        return F.square(F.broadcast_sub(numbers, target)) / 2
    positive = F.relu(numbers)
    log_sum = F.log(F.exp(-positive) + F.exp(numbers - positive)) + positive        # log(exp(0) + exp(number))
    return F.broadcast_sub(log_sum, F.broadcast_mul(numbers, target))


# -- predictions and ground truths -------------------------------------------------------------------------------------
def head_of(F, attrs, data: Array, shift: float = 0, softmax: bool = False) -> Head:
    """Return what a head predicts. The classes have a softmax if ``softmax`` is True, and otherwise a sigmoid each."""
    maps = split(F, attrs, data)
    columns, rows, width, height, anchor_w, anchor_h = grid(F, attrs, maps)
    anchor_w, anchor_h = (F.swapaxes(size, dim1=1, dim2=2) for size in (anchor_w, anchor_h))
    numbers = [F.swapaxes(channel(F, maps, i), dim1=1, dim2=2) for i in range(CLASSES)]
    scale = attrs.scale_x_y
    offsets = [scale * _activation(F, attrs, numbers[i]) - (scale - 1) / 2 for i in (X, Y)]
    factors = [4 * F.square(numbers[i]) if attrs.new_coords else F.exp(numbers[i]) for i in (WIDTH, HEIGHT)]
    sizes = [F.broadcast_mul(factors[0], F.broadcast_div(anchor_w, width)),
             F.broadcast_mul(factors[1], F.broadcast_div(anchor_h, height))]
    points = [F.broadcast_div(F.broadcast_add(offsets[0], columns), width),
              F.broadcast_div(F.broadcast_add(offsets[1], rows), height)]
    centers = [point + shift * size for point, size in zip(points, sizes)] if shift else points
    box = centers + sizes
    logits = class_channels(F, attrs, maps)
    objectness = _activation(F, attrs, channel(F, maps, OBJECT))
    p = probabilities(F, logits, 2) if softmax else _activation(F, attrs, logits)
    return Head(numbers, offsets, factors, box, objectness, logits, p, columns, rows, width, height, anchor_w, anchor_h)


def truths_of(F, attrs, truth: Array) -> Truths:
    fields = [F.reshape(F.slice_axis(truth, axis=2, begin=i, end=i + 1), shape=(0, 0, 1, 1, 1)) for i in range(5)]
    valid, nan_if_invalid = valid_mask(F, attrs, fields)
    fields = [F.where(valid, field, F.zeros_like(field)) for field in fields]
    order = F.reshape(F.contrib.arange_like(truth, axis=1), shape=(1, -1, 1, 1, 1))
    return Truths(*fields, order, valid, nan_if_invalid)


def matches_of(F, attrs, head: Head, truths: Truths, shift: float = 0, by_prediction: bool = False) -> Matches:
    """Return the matches.

    With ``by_prediction`` the predicted sizes, and not those of the anchors, decide which anchor fits best.
    """
    ious = iou(F, head.box, truths[:4])                                             # B, T, A, H, W
    best = F.argmax(ious, axis=1, keepdims=True)
    best_iou = F.pick(ious, best, axis=1, keepdims=True)
    by_overlap = F.zeros_like(ious)
    if attrs.truth_thresh < 1:
        by_overlap = F.broadcast_mul(is_best(F, truths, ious), best_iou > attrs.truth_thresh)

    column = _cell(F, truths.x - shift * truths.w, head.width)
    row = _cell(F, truths.y - shift * truths.h, head.height)
    in_row = F.broadcast_mul(F.broadcast_equal(row, head.rows), truths.valid)       # B, T, 1, H, 1
    here = F.broadcast_mul(in_row, F.broadcast_equal(column, head.columns))         # B, T, 1, H, W
    by_cell = F.broadcast_mul(here, _fitting_anchors(F, attrs, head, truths, by_prediction))
    last = F.argmax(F.broadcast_mul(by_cell, truths.order + 1), axis=1, keepdims=True)
    has_cell, has_overlap = (F.pick(pairs, row_of_truth, axis=1, keepdims=True)
                             for pairs, row_of_truth in ((by_cell, last), (by_overlap, best)))
    of_predictions = [by_anchor(F, value) for value in (best_iou, has_cell, has_overlap)]
    return Matches(by_cell, by_overlap, ious, *of_predictions, F.where(has_cell, last, best), (column, row))


def is_best(F, truths: Truths, ious: Array) -> Array:
    """Return which ground truth a prediction overlaps most, (B, T, A, H, W)."""
    return F.broadcast_equal(F.argmax(ious, axis=1, keepdims=True), truths.order)


def _cell(F, point, cells):
    """Return the row or column of a point from 0 to 1. Points outside are in the first or last one."""
    return F.broadcast_minimum(F.relu(F.floor(F.broadcast_mul(point, cells))), cells - 1)


def _fitting_anchors(F, attrs, head, truths, by_prediction):
    """Return which of the head's anchors have a size that fits the ground truth; it broadcasts to (B, T, A, H, W)."""
    if by_prediction:
        sizes = head.box[2:]
    else:
        anchors, zero = attrs.anchors + (attrs.other_anchors or ()), F.zeros_like(head.width)
        sizes = [F.broadcast_div(constants(F, zero, anchors[i::2], 2), cells)       # 1, 1, anchors of all heads, 1, 1
                 for i, cells in ((0, head.width), (1, head.height))]
    origin, nothing = F.zeros_like(sizes[0]), F.zeros_like(truths.w)
    ious = iou(F, (origin, origin, *sizes), (nothing, nothing, truths.w, truths.h))
    own = F.reshape(F.contrib.arange_like(head.anchor_w, axis=2), shape=(1, 1, -1, 1, 1))
    fitting = F.broadcast_equal(own, F.argmax(ious, axis=2, keepdims=True))
    if attrs.iou_thresh < 1:
        own_ious = F.slice_axis(ious, axis=2, begin=0, end=len(attrs.anchors) // 2)
        fitting = F.broadcast_maximum(fitting, own_ious > attrs.iou_thresh)
    return fitting


# -- targets -----------------------------------------------------------------------------------------------------------
def is_ignored(F, attrs, head: Head, matches: Matches) -> Array:
    """Return which predictions get no loss of their objectness, unless they have a match, (B, A, 1, H, W)."""
    ignored = matches.best_iou > attrs.ignore_thresh
    if attrs.dialect == "alexeyab":
        ignored = ignored * (F.max(head.p, axis=2, keepdims=True) > LIKELY)
    return ignored


def objectness_target(F, attrs, head: Head, matches: Matches, ignored: Array) -> tuple[Array, Array]:
    """Return the target of the objectness and the weight of its error, (B, A, 1, H, W)."""
    zero = F.zeros_like(head.objectness)
    weight = zero + attrs.obj_normalizer
    if attrs.objectness_smooth:
        target = F.where(matches.has_overlap, F.square(matches.best_iou), F.where(ignored, matches.best_iou, zero))
        is_replaced = matches.has_cell * (weight * (target - head.objectness) == 0)
        return F.where(is_replaced, F.ones_like(zero), target), weight
    is_match = F.maximum(matches.has_overlap, matches.has_cell)
    return is_match, F.where(is_match, weight, F.where(ignored, zero, weight))


def class_target(F, attrs, head: Head, truths: Truths, matches: Matches, best: Array) -> tuple[Array, Array]:
    """Return the targets of the classes and the weights of their errors, (B, A, K, H, W).

    ``best``, (B, T, A, H, W), are the pairs of a prediction and the ground truth that it overlaps most, whose class it
    learns although it need not be in its cell.
    """
    positive = 1 - attrs.label_smooth_eps / 2
    has_best = F.expand_dims(F.max(best, axis=1), axis=2)
    is_first = matches.by_cell * F.broadcast_equal(F.argmax(matches.by_cell, axis=1, keepdims=True), truths.order)
    is_first = F.broadcast_mul(is_first, 1 - by_anchor(F, has_best)) + best
    first = classes_of(F, head, truths, is_first)
    further = classes_of(F, head, truths, matches.by_cell + best - is_first)

    zero = F.zeros_like(head.p)
    if attrs.focal_loss:
        p = F.sum(first * head.p, axis=2, keepdims=True) + FOCAL_EPS
        p = F.where(p > 0, p, F.ones_like(p))   # no ground truth
        focal = 0.5 * (p - 1) * (2 * p * F.log(p) + p - 1)
        target, weight = first, F.broadcast_add(zero, focal)
    else:
        target = F.where(first, zero + positive, zero + attrs.label_smooth_eps / 2)
        weight = zero + 1
    if attrs.objectness_smooth:
        overlapping = F.broadcast_mul(first, matches.has_overlap)
        target = F.where(overlapping, F.broadcast_add(zero, F.square(matches.best_iou)), target)
        weight = F.where(overlapping, zero + 1, weight)
    has_class = F.maximum(matches.has_cell, has_best)
    return F.where(further, zero + positive, target), F.broadcast_mul(has_class, F.where(further, zero + 1, weight))


def classes_of(F, head: Head, truths: Truths, pairs: Array) -> Array:
    """Return which classes the ground truths of each prediction have, (B, A, K, H, W)."""
    return _class_counts(F, head, truths, pairs) > 0


def _class_counts(F, head, truths, pairs):
    """Return how many ground truths of each class each prediction has, (B, A, K, H, W)."""
    classes = F.reshape(F.contrib.arange_like(head.p, axis=2), shape=(1, 1, -1))
    own = F.broadcast_equal(F.reshape(truths.class_id, shape=(0, 0, 1)), classes)     # B, T, K
    pairs = F.reshape(pairs, shape=(0, 0, -1))
    own, pairs = (F.cast(value, dtype="float32") for value in (own, pairs))           # batch_dot takes no float16
    counts = F.batch_dot(own, pairs, transpose_a=True)                                # B, K, A * H * W
    counts = F.swapaxes(F.reshape_like(counts, F.swapaxes(head.p, dim1=1, dim2=2)), dim1=1, dim2=2)
    numbers = F.concat(F.zeros_like(head.width), truths.order + 1, dim=1)             # they have the dtype of the data
    return F.take(F.reshape(numbers, shape=(-1,)), counts)


def _statistics(F, head, truths, matches):
    """Return sums over the matches by cell, (B,) each: IoU, recall, the probability of the class, and their number."""
    by_cell, ious = matches.by_cell, matches.iou
    for axis, cell in zip((4, 3), matches.cell):   # only the values in the cell of each ground truth count
        cell = F.broadcast_like(cell, F.slice_axis(ious, axis=axis, begin=0, end=1))
        by_cell, ious = (F.pick(values, cell, axis=axis, keepdims=True) for values in (by_cell, ious))
    ious = by_cell * ious
    probability = head.p * _class_counts(F, head, truths, matches.by_cell)
    return [image_sum(F, ious), image_sum(F, ious > RECALL_IOU), image_sum(F, probability), image_sum(F, by_cell)]


def backward(nd, attrs, shapes: dict, output_grad: Array, gradient: Array) -> dict:
    return {"data": nd.broadcast_mul(gradient, output_grad.reshape((-1, 1, 1, 1)))}
