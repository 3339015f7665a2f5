"""``gaussian_yolo_loss`` and its gradient, computed with MXNet's own operators.

``yolo_reference.py`` has what it shares with ``yolo_loss``, and the sizes in shapes.
"""
import math

from ...backends.emitter import Array
from .._region import yolo_box_reference as boxes
from .._region import yolo_reference as yolo
from .._region.contract import count
from .._region.reference import channel
from .._region.yolo_reference import backward as backward
from ..yolo_loss.contract import OP as YOLO
from .contract import SHIFTS

MEANS = (0, 2, 4, 6)
DEVIATIONS = (1, 3, 5, 7)
OBJECT = 8
WIDER = 0.3           # sigma_const of AlexeyAB's program
DENSITY_EPS = 1e-9    # the constant of AlexeyAB's program
LOG_EPS = math.log(DENSITY_EPS)


def forward(F, attrs, data: Array, truth: Array) -> tuple[Array, ...]:
    options, shift = _as_yolo(attrs), SHIFTS[attrs.point]
    maps = F.reshape(F.BlockGrad(data), shape=(0, -4, count(attrs), 9 + attrs.classes, 0, 0))
    rest = F.slice_axis(maps, axis=2, begin=OBJECT, end=None)
    means = F.concat(*[channel(F, maps, i) for i in MEANS], rest, dim=2)
    head = yolo.head_of(F, options, F.reshape(means, shape=(0, -3, 0, 0)), shift)
    deviations = [F.sigmoid(F.swapaxes(channel(F, maps, i), dim1=1, dim2=2)) for i in DEVIATIONS]
    truths = yolo.truths_of(F, options, F.BlockGrad(truth))
    matches = yolo.matches_of(F, options, head, truths, shift)
    ignored = yolo.is_ignored(F, options, head, matches)
    objectness = _objectness_target(F, attrs, head, matches, ignored)
    best = matches.by_overlap
    if attrs.objectness_smooth:
        learns = F.maximum(matches.has_overlap, ignored)
        best = F.broadcast_mul(yolo.is_best(F, truths, matches.iou), F.swapaxes(learns, dim1=1, dim2=2))
    classes = yolo.class_target(F, options, head, truths, matches, best)
    errors = _box_errors(F, attrs, options, head, deviations, truths, matches, shift)
    *deltas, loss = boxes.sum_matches(F, options, truths, matches, errors)
    return yolo.result(F, options, data, head, truths, matches, objectness, classes, (deltas, loss, F.ones_like))


def _as_yolo(attrs):
    """Return the attributes of a ``yolo_loss`` with the same boxes."""
    own = {name: value for name, value in attrs._asdict().items() if name not in ("uc_normalizer", "point")}
    return YOLO.parse({**own, "dialect": "alexeyab", "box_loss": "mse" if attrs.box_loss == "nll" else attrs.box_loss})


def _objectness_target(F, attrs, head, matches, ignored):
    """Return the target of the objectness and the weight of its error, (B, A, 1, H, W)."""
    if not attrs.objectness_smooth:
        return yolo.objectness_target(F, attrs, head, matches, ignored)
    zero = F.zeros_like(head.objectness)
    overlaps = F.maximum(matches.has_overlap, ignored)
    target = F.where(overlaps, F.square(matches.best_iou), zero)
    return F.where(matches.has_cell, F.ones_like(zero), target), zero + attrs.obj_normalizer


def _box_errors(F, attrs, options, head, deviations, truths, matches, shift):
    """Return the deltas of the eight channels, and the loss, (B, T, A, H, W) each."""
    like = F.zeros_like(matches.by_cell)
    scale = F.broadcast_add(like, 2 - truths.w * truths.h)
    means = head.offsets + head.numbers[2:4]
    targets = boxes.number_targets(F, options, head, truths, shift)
    by_means, by_deviations, losses = [], [], []
    for target, mean, deviation in zip(targets, means, deviations):
        error = F.broadcast_sub(F.broadcast_add(like, target), mean)
        nll, by_mean, by_deviation = _nll(F, error, F.broadcast_add(like, deviation))
        by_means.append(boxes.limited(F, attrs, attrs.iou_normalizer * scale * by_mean))
        by_deviations.append(boxes.limited(F, attrs, attrs.uc_normalizer * scale * by_deviation))
        losses.append(scale * nll)
    loss = sum(losses[1:], losses[0])
    if attrs.box_loss == "nll":
        loss = attrs.iou_normalizer * loss
    else:
        *by_means, overlap_loss = boxes.iou_errors(F, options, head, truths, shift)
        loss = overlap_loss + attrs.uc_normalizer * loss
    pairs = zip(by_means, by_deviations)
    return [*[delta for pair in pairs for delta in pair], loss]


def _nll(F, error, deviation):
    """Return half of the negative log-likelihood of a number, and its decrease by the mean and the deviation.

    It counts by the logarithm of the density, because float16 has no number as small as DENSITY_EPS.
    """
    wider = deviation + WIDER
    score = F.where(error == 0, error, error / deviation)
    log_density = -F.square(score) / 2 - F.log(math.sqrt(2 * math.pi) * wider)
    above = log_density - LOG_EPS
    share = F.sigmoid(above) / 2
    log_sum = F.relu(above) + F.log(1 + F.exp(-F.abs(above))) + LOG_EPS   # log(density + DENSITY_EPS)
    by_deviation = share * (F.square(score) / deviation - 1 / wider)
    return -log_sum / 2, share * score / deviation, by_deviation
