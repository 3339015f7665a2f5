"""``region_loss`` and its gradient, computed with MXNet's own operators.

Sizes in shapes: B images, A anchors, H rows, W columns, K classes. The targets are constants: only the loss has a
gradient.
"""
from __future__ import annotations

from ...core.emitter import Array
from .._boxes.reference import BoxPair, GiouLoss, sides
from .._region.assignment import assign
from .._region.reference import (
    CLASSES,
    HEIGHT,
    OBJECT,
    WIDTH,
    X,
    Y,
    channel,
    class_nll,
    class_probabilities,
    decode_boxes,
    grid,
    split,
)

WARMUP_SCALE = 0.01   # Darknet's weight of the regression toward the priors
BOX = (X, Y, WIDTH, HEIGHT)
LOGISTIC = (X, Y, OBJECT)   # channels with a sigmoid


def forward(F, attrs, data: Array, truth: Array, seen: Array) -> tuple[Array, ...]:
    maps = split(F, attrs, data)                                            # B, A, 5+K, H, W
    predicted = [channel(F, maps, i) for i in range(CLASSES)]               # B, A, 1, H, W each
    predicted = [F.sigmoid(value) if i in LOGISTIC else value for i, value in enumerate(predicted)]
    p = class_probabilities(F, attrs, maps)                                 # B, A, K, H, W
    grid_constants = grid(F, attrs, maps)
    boxes = [F.BlockGrad(predicted[i]) for i in BOX]
    assignment = assign(F, attrs, grid_constants, boxes, F.BlockGrad(p), F.BlockGrad(truth))
    assigned = assignment.assigned

    targets, weights = _targets(F, attrs, assignment, seen)
    error = {i: predicted[i] - targets[i] for i in targets}
    weighted_error = {i: weights[i] * error[i] for i in targets}            # minus Darknet's delta
    class_targets = F.broadcast_mul(assigned, assignment.classes)
    class_error = (F.broadcast_mul(assigned, p) - class_targets) * attrs.class_scale

    coordinates = _image_sum(F, sum(weighted_error[i] * error[i] for i in BOX)) * 0.5
    if attrs.box_loss == "giou":
        giou_terms, derivatives = _giou(F, attrs, grid_constants, [predicted[i] for i in BOX], assignment)
        coordinates = coordinates + _image_sum(F, giou_terms)
        for i in BOX:
            weighted_error[i] = weighted_error[i] + derivatives[i]
    objectness = _image_sum(F, weighted_error[OBJECT] * error[OBJECT] * assigned) * 0.5
    no_objectness = _image_sum(F, weighted_error[OBJECT] * error[OBJECT] * (1 - assigned)) * 0.5
    classes = _image_sum(F, assigned * class_nll(F, attrs, maps, class_targets)) * attrs.class_scale
    loss = (coordinates + objectness + no_objectness + classes) * assignment.nan_if_invalid

    cost = _image_sum(F, sum(value * value for value in weighted_error.values()))
    cost = cost + _image_sum(F, class_error * class_error)
    parts = F.stack(coordinates, objectness, no_objectness, classes, cost, assignment.total_iou,
                    assignment.total_recall, assignment.total_probability, assignment.count, axis=1)
    parts = F.broadcast_mul(parts, F.expand_dims(assignment.nan_if_invalid, axis=1))

    for i in LOGISTIC:
        weighted_error[i] = weighted_error[i] * predicted[i] * (1 - predicted[i])
    gradient = F.concat(*[weighted_error[i] for i in range(CLASSES)], class_error, dim=2)
    gradient = F.broadcast_mul(gradient, F.reshape(assignment.nan_if_invalid, shape=(-1, 1, 1, 1, 1)))
    return loss, F.BlockGrad(parts), F.BlockGrad(F.reshape_like(gradient, data))


def _targets(F, attrs, assignment, seen):
    """Targets of the five channels, and weights of their errors: two dicts by channel of (B, A, 1, H, W)."""
    assigned = assignment.assigned
    zero = F.zeros_like(assigned)
    warmup = F.cast(seen, dtype="float64") < attrs.warmup_images            # 1
    warmup = F.broadcast_like(F.reshape(warmup, shape=(1, 1, 1, 1, 1)), zero)

    assigned_weight = zero if attrs.box_loss == "giou" else assignment.scale
    box_weight = F.where(assigned, assigned_weight, F.where(warmup, zero + WARMUP_SCALE, zero))
    unassigned_weight = F.where(assignment.max_iou > attrs.thresh, zero, zero + attrs.noobject_scale)
    weights = dict.fromkeys(BOX, box_weight)
    weights[OBJECT] = F.where(assigned, zero + attrs.object_scale, unassigned_weight)

    targets = {X: F.where(assigned, assignment.x, zero + 0.5),
               Y: F.where(assigned, assignment.y, zero + 0.5),
               WIDTH: F.where(assigned, assignment.w, zero),
               HEIGHT: F.where(assigned, assignment.h, zero),
               OBJECT: assigned * assignment.iou if attrs.rescore else assigned}
    return targets, weights


def _giou(F, attrs, grid_constants, activations, assignment):
    """The loss of the assigned boxes, (B, A, 1, H, W), and its derivatives with respect to x, y, w and h."""
    _, _, width, height, _, _ = grid_constants
    box = decode_boxes(F, grid_constants, *activations)
    truth = decode_boxes(F, grid_constants, assignment.x, assignment.y, assignment.w, assignment.h)
    giou = GiouLoss(BoxPair(F, sides(box, "center"), sides(truth, "center"), eps=0))
    by_x, by_y, by_w, by_h = [F.BlockGrad(value) for value in giou.gradient()]
    derivatives = F.broadcast_div(by_x, width), F.broadcast_div(by_y, height), by_w * box[2], by_h * box[3]
    scale = assignment.assigned * attrs.coord_scale
    return scale * giou.value(), [scale * value for value in derivatives]


def _image_sum(F, values):
    """The sum over each image, (B,)."""
    return F.sum(values, axis=(1, 2, 3, 4))


def backward(nd, attrs, shapes, output_grad, gradient) -> dict:
    return {"data": nd.broadcast_mul(gradient, output_grad.reshape((-1, 1, 1, 1)))}
