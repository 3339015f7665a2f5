"""``margin_softmax_cross_entropy`` and its gradient, computed with MXNet's own operators."""
import math

from ...backends.emitter import Array
from .._labels.reference import exact, first_class, label_masks, number_of_label, row_weights, without_ignored

LIMIT = 1 - 2.0 ** -20   # beyond it the derivative by the angle is not finite
MIN_SINE = 2.0 ** -10    # less than the sine at the limit, which float16 rounds to 1


def forward(F, attrs, data: Array, label: Array) -> tuple[Array, ...]:
    keepdims_label = F.reshape(F.BlockGrad(label), shape=(-2, 1))   # expand_dims would infer a wrong shape
    labels = exact(F, keepdims_label, first_class(F, data, -1))
    valid, ignored = label_masks(F, labels, data, -1, attrs.ignore_label)
    data = without_ignored(F, data, ignored)   # a NaN in an ignored row must not reach the gradient

    cosine = F.pick(data, keepdims_label, axis=-1, mode="clip", keepdims=True)
    target = _with_gradient(F, attrs, cosine)
    if ignored is not None:
        target = F.where(ignored, cosine, target)
    data = F.where(_is_label(F, data, labels), F.broadcast_like(target, data), data)

    row_max = F.BlockGrad(F.max(data, axis=-1, keepdims=True))
    exponents = F.broadcast_sub(data, row_max) * attrs.scale
    log_sum = F.log(F.sum(F.exp(exponents), axis=-1, keepdims=True))
    loss = log_sum - (target - row_max) * attrs.scale
    if attrs.class_weight is not None:
        loss = loss * number_of_label(F, data, attrs.class_weight, -1, keepdims_label)
    loss = loss * row_weights(F, loss, valid, ignored)
    return tuple(F.squeeze(rows, axis=-1) for rows in (loss, row_max, log_sum))


def margin(F, attrs, cosine: Array) -> tuple[Array, Array]:
    """Return the label's cosine with its margin, and its derivative by the cosine."""
    if attrs.m1 == 1 and attrs.m2 == 0:
        return cosine - attrs.m3, cosine * 0 + 1
    limited = F.clip(cosine, -LIMIT, LIMIT)
    sine = F.maximum(F.sqrt((1 - limited) * (1 + limited)), MIN_SINE)
    value, slope = _additive(F, attrs, limited, sine) if attrs.m1 == 1 else _monotone(F, attrs, limited, sine)
    if attrs.easy_margin:
        value, slope = _where(F, cosine > 0, value, slope, cosine)
    return value - attrs.m3, slope


def _additive(F, attrs, cosine, sine):
    """Return ArcFace's cos(angle + m2), which is a line beyond pi."""
    cosine_of_m2, sine_of_m2 = math.cos(attrs.m2), math.sin(attrs.m2)
    value = cosine * cosine_of_m2 - sine * sine_of_m2
    slope = cosine / sine * sine_of_m2 + cosine_of_m2
    return _where(F, cosine > -cosine_of_m2, value, slope, cosine - attrs.m2 * sine_of_m2)


def _where(F, condition, value, slope, line):
    """Return the value and its slope where the condition holds, else those of a line with the slope 1."""
    return F.where(condition, value, line), (slope - 1) * condition + 1


def _monotone(F, attrs, cosine, sine):
    """Return SphereFace's (-1)^k cos(u) - 2 k, where u is from k pi to (k + 1) pi."""
    half_turns = (F.arccos(cosine) * attrs.m1 + attrs.m2) / math.pi
    k = F.floor(half_turns)
    rest = (half_turns - k) * math.pi
    return F.cos(rest) - 2 * k, F.sin(rest) / sine * attrs.m1


def _with_gradient(F, attrs, cosine):
    """Return the margin's value, whose derivative by the cosine is the margin's slope."""
    fixed = F.BlockGrad(cosine)
    value, slope = margin(F, attrs, fixed)
    return value + slope * (cosine - fixed)


def _is_label(F, data, labels):
    """Return 1 at the class of each row's label, and 0 elsewhere, in float64 and the shape of the data."""
    numbers = F.cast(F.zeros_like(data), dtype="int32")   # float16 does not hold every class
    classes = F.BlockGrad(F.contrib.arange_like(numbers, axis=-1))
    return F.broadcast_equal(labels, F.cast(classes, dtype="float64"))


def backward(nd, attrs, shapes, output_grad, data, label, max, log_sum) -> dict:   # pylint: disable=redefined-builtin
    label, grad_out = label.expand_dims(-1), output_grad.expand_dims(-1)
    labels = exact(nd, label)
    valid, ignored = label_masks(nd, labels, data, -1, attrs.ignore_label)
    grad_out = grad_out * row_weights(nd, grad_out, valid, ignored) * attrs.scale
    if attrs.class_weight is not None:
        grad_out = grad_out * number_of_label(nd, data, attrs.class_weight, -1, label)

    target, slope = margin(nd, attrs, nd.pick(data, label, axis=-1, mode="clip", keepdims=True))
    row_max, row_log_sum = max.expand_dims(-1), log_sum.expand_dims(-1)
    probability = nd.exp((target - row_max) * attrs.scale - row_log_sum)
    probabilities = nd.exp(nd.broadcast_sub(nd.broadcast_sub(data, row_max) * attrs.scale, row_log_sum))
    factors = nd.where(_is_label(nd, data, labels), nd.broadcast_like((probability - 1) * slope, data), probabilities)
    return {"data": without_ignored(nd, nd.broadcast_mul(factors, grad_out), ignored)}
