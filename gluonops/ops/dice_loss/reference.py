"""``dice_loss`` and its gradient, computed with MXNet's own operators."""
from __future__ import annotations

from ...backends.emitter import Array
from .._labels.reference import exact, first_class, label_masks, onehot, row_weights, without_ignored
from .._softmax.reference import statistics

PIXELS = {"axis": (0, 1), "exclude": True}   # all axes but the batch's and the classes'


def forward(F, attrs, data: Array, label: Array) -> tuple[Array, ...]:
    labels = exact(F, label, F.squeeze(first_class(F, data, 1), axis=1))
    valid, ignored = label_masks(F, labels, data, 1, attrs.ignore_label)
    is_ignored = None
    if ignored is not None:   # a NaN at an ignored pixel must not reach the sums
        is_ignored = F.broadcast_like(F.expand_dims(ignored, axis=1), F.BlockGrad(data))
        data = _zero_where(F, is_ignored, data)

    row_max, logits, log_sum = statistics(F, data, 1)
    weights = row_weights(F, F.BlockGrad(log_sum), F.expand_dims(valid, axis=1),
                          None if ignored is None else F.expand_dims(ignored, axis=1))
    log_probabilities = F.broadcast_sub(logits, log_sum)
    probabilities = F.broadcast_mul(F.exp(log_probabilities), weights)

    one_sample = F.sum(F.zeros_like(F.BlockGrad(data)), axis=1, exclude=True, keepdims=True)   # its shape counts
    classes = F.reshape_like(F.contrib.arange_like(F.cast(one_sample, dtype="float64"), axis=1), one_sample)
    is_class = F.broadcast_equal(F.expand_dims(labels, axis=1), classes)
    zero = F.zeros_like(F.BlockGrad(data))
    target = F.broadcast_mul(F.where(is_class, zero + 1, zero), weights)

    intersection = F.sum(F.where(is_class, probabilities, zero), **PIXELS)
    powers = F.square(probabilities) if attrs.squared else probabilities
    total = F.BlockGrad(F.sum(powers + target, **PIXELS))
    denominator = total + attrs.smooth
    log_powers = 2 * log_probabilities if attrs.squared else log_probabilities
    growth = _growth(F, log_powers, weights, is_ignored, denominator)
    output = 1 - (2 * intersection + attrs.smooth) / denominator / growth
    return output, intersection, total, F.squeeze(row_max, axis=1), F.squeeze(log_sum, axis=1)


def _growth(F, log_powers: Array, weights: Array, is_ignored: Array | None, denominator: Array) -> Array:
    """Return 1, with the gradient of the denominator's logarithm.

    The gradient of MXNet's division has the square of the denominator, which may be 0 in float16. Here the powers are
    divided by the denominator before they are summed, as a difference of logarithms. So no number is large.
    """
    log_denominator = F.reshape_like(F.log(denominator), F.sum(F.BlockGrad(log_powers), keepdims=True, **PIXELS))
    log_shares = F.broadcast_sub(log_powers, F.BlockGrad(log_denominator))
    if is_ignored is not None:   # these are not in the denominator, and may be large
        log_shares = _zero_where(F, is_ignored, log_shares)
    shares = F.sum(F.broadcast_mul(F.exp(log_shares), weights), **PIXELS)
    return shares - F.BlockGrad(shares) + 1


def _zero_where(F, condition: Array, values: Array) -> Array:
    return F.where(condition, F.zeros_like(values), values)


def backward(nd, attrs, shapes, output_grad, data, label, intersection, total, max, log_sum) -> dict:   # noqa: A002
    max, log_sum = max.expand_dims(1), log_sum.expand_dims(1)   # noqa: A001
    valid, ignored = label_masks(nd, exact(nd, label.expand_dims(1)), data, 1, attrs.ignore_label)
    per_class = (*output_grad.shape, *(1,) * (data.ndim - 2))
    denominator = total + attrs.smooth
    by_power = output_grad * (2 * intersection + attrs.smooth) / nd.square(denominator)
    by_target = -2 * output_grad / denominator

    probabilities = nd.exp(nd.broadcast_sub(nd.broadcast_sub(data, max), log_sum))
    slope = 2 * probabilities if attrs.squared else nd.ones_like(probabilities)
    target = onehot(nd, label, data.shape[1], 1, data.dtype)
    by_probability = nd.broadcast_mul(slope, by_power.reshape(per_class))
    by_probability = by_probability + nd.broadcast_mul(target, by_target.reshape(per_class))

    mean = nd.sum(by_probability * probabilities, axis=1, keepdims=True)
    weights = row_weights(nd, log_sum, valid, ignored)
    gradient = nd.broadcast_mul(probabilities * nd.broadcast_sub(by_probability, mean), weights)
    return {"data": without_ignored(nd, gradient, ignored)}
