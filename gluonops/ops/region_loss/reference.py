"""``region_loss`` and its gradient, computed with MXNet's own operators.

``yolo_reference.py`` has what it shares with ``yolo_loss``, and the sizes in shapes.
"""
from ...backends.emitter import Array
from .._boxes.reference import BoxPair, GiouLoss, sides
from .._region import yolo_box_reference as boxes
from .._region import yolo_reference as yolo
from .._region.yolo_reference import backward as backward
from .._softmax.reference import statistics
from ..yolo_loss.contract import OP as YOLO

WARMUP_SCALE = 0.01   # Darknet's weight of the regression toward the priors
PRIORS = (0.5, 0.5, 0, 0)


def forward(F, attrs, data: Array, truth: Array, seen: Array) -> tuple[Array, ...]:
    options = YOLO.parse({"anchors": attrs.anchors, "classes": attrs.classes})
    head = yolo.head_of(F, options, F.BlockGrad(data), softmax=attrs.softmax)
    truths = yolo.truths_of(F, options, F.BlockGrad(truth))
    matches = yolo.matches_of(F, options, head, truths, by_prediction=not attrs.bias_match)
    predicted = [yolo.by_anchor(F, value) for value in head.offsets + head.numbers[2:4]]   # B, A, 1, H, W
    last = boxes.last_truths(F, truths, matches)
    targets, weight = _box_targets(F, attrs, options, head, last, matches, seen)
    errors = [value - target for value, target in zip(predicted, targets)]
    deltas = [weight * error for error in errors]                                          # minus Darknet's delta
    coordinates = sum(delta * error for delta, error in zip(deltas, errors)) / 2
    if attrs.box_loss == "giou":
        giou, derivatives = _giou(F, attrs, head, last, matches)
        coordinates = coordinates + giou
        deltas = [delta + derivative for delta, derivative in zip(deltas, derivatives)]

    target, weight = _objectness_target(F, attrs, head, matches)
    error = head.objectness - target
    deltas.append(weight * error)
    objectness = deltas[-1] * error / 2

    class_targets = _class_targets(F, attrs, head, truths, last, matches)
    class_deltas = (F.broadcast_mul(matches.has_cell, head.p) - class_targets) * attrs.class_scale
    classes = F.broadcast_mul(matches.has_cell, _class_nll(F, attrs, options, head, class_targets)) * attrs.class_scale

    terms = [coordinates, matches.has_cell * objectness, (1 - matches.has_cell) * objectness, classes]
    terms = [yolo.image_sum(F, term) for term in terms]
    cost = yolo.image_sum(F, F.square(F.concat(*deltas, class_deltas, dim=2)))
    slopes = [value * (1 - value) for value in (*predicted[:2], head.objectness)]
    by_x, by_y, by_w, by_h, by_objectness = deltas
    gradient = F.concat(by_x * slopes[0], by_y * slopes[1], by_w, by_h, by_objectness * slopes[2], class_deltas, dim=2)
    return yolo.outputs(F, data, head, truths, matches, terms, cost, gradient)


def _box_targets(F, attrs, options, head, last, matches, seen):
    """Return the targets of x, y, w and h, and the weight of their errors, (B, A, 1, H, W) each."""
    zero = F.zeros_like(matches.has_cell)
    targets = [yolo.by_anchor(F, target) for target in boxes.number_targets(F, options, head, last)]
    weight = yolo.by_anchor(F, attrs.coord_scale * (2 - last.w * last.h))
    targets = [F.where(matches.has_cell, target, zero + prior) for target, prior in zip(targets, PRIORS)]
    warmup = F.cast(seen, dtype="float64") < attrs.warmup_images            # 1
    warmup = F.broadcast_like(F.reshape(warmup, shape=(1, 1, 1, 1, 1)), zero)
    unassigned_weight = F.where(warmup, zero + WARMUP_SCALE, zero)
    return targets, F.where(matches.has_cell, zero if attrs.box_loss == "giou" else weight, unassigned_weight)


def _giou(F, attrs, head, last, matches):
    """Return the loss of the matched boxes, (B, A, 1, H, W), and its derivatives with respect to x, y, w and h."""
    giou = GiouLoss(BoxPair(F, sides(head.box, "center"), boxes.not_empty(F, last), eps=0))
    by_x, by_y, by_w, by_h = giou.gradient()
    _, _, w, h = head.box
    values = giou.value(), F.broadcast_div(by_x, head.width), F.broadcast_div(by_y, head.height), by_w * w, by_h * h
    values = [yolo.by_anchor(F, value) * attrs.coord_scale for value in values]
    loss, *derivatives = [F.where(matches.has_cell, value, F.zeros_like(value)) for value in values]
    return loss, derivatives


def _objectness_target(F, attrs, head, matches):
    """Return the target of the objectness and the weight of its error, (B, A, 1, H, W)."""
    zero = F.zeros_like(head.objectness)
    target = matches.has_cell
    if attrs.rescore:
        target = target * yolo.by_anchor(F, F.pick(matches.iou, matches.last, axis=1, keepdims=True))
    unassigned_weight = F.where(matches.best_iou > attrs.thresh, zero, zero + attrs.noobject_scale)
    return target, F.where(matches.has_cell, zero + attrs.object_scale, unassigned_weight)


def _class_targets(F, attrs, head, truths, last, matches):
    """Return which classes are targets of each prediction, (B, A, K, H, W).

    With a softmax it is that of the last ground truth. With sigmoids the ground truths of a prediction add up their
    classes. Darknet clears them if the error of class 0 is exactly 0, which happens if the sigmoid is equal to the
    target so far.
    """
    if attrs.softmax:
        classes = F.reshape(F.contrib.arange_like(head.p, axis=2), shape=(1, 1, -1, 1, 1))
        return F.broadcast_mul(matches.has_cell, F.broadcast_equal(yolo.by_anchor(F, last.class_id), classes))
    number = F.broadcast_mul(matches.by_cell, truths.order + 1)
    last_number = matches.last + 1
    of_class_0 = F.broadcast_mul(number, truths.class_id == 0)
    has_class_0 = F.max(of_class_0, axis=1, keepdims=True) > 0
    before_last = of_class_0 * F.broadcast_lesser(number, last_number)
    cleared_at_1 = F.max(before_last, axis=1, keepdims=True) + 1                          # the first one since
    cleared_at_0 = F.where(has_class_0, F.argmax(of_class_0 > 0, axis=1, keepdims=True) + 1, last_number)
    p = F.swapaxes(F.slice_axis(head.p, axis=2, begin=0, end=1), dim1=1, dim2=2)          # the probability of class 0
    first = F.where(p == 1, cleared_at_1, F.where(p == 0, cleared_at_0, F.ones_like(p)))
    return yolo.classes_of(F, head, truths, matches.by_cell * F.broadcast_greater_equal(number, first))


def _class_nll(F, attrs, options, head, targets):
    """Return the terms of the cross-entropy of the classes, (B, A, K, H, W)."""
    if not attrs.softmax:
        return yolo.entropy(F, options, head.logits, targets)
    _, logits, log_sum = statistics(F, head.logits, 2)
    return F.broadcast_sub(log_sum, logits) * targets
