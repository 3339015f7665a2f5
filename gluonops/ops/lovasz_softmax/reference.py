"""``lovasz_softmax`` and its gradient, computed with MXNet's own operators.

A selection is a sample, or the whole batch. Tensors have the shape (selections, classes, pixels) here.
"""
import math

from ...backends.emitter import Array
from .._labels.reference import exact, first_class, label_masks, numbers_along, row_weights
from .._order.reference import descending, take
from .._softmax.reference import probabilities

LARGEST = 2.0   # stands for NaN, which a sort must not meet
IGNORED = -1.0   # is sorted behind all errors


def forward(F, attrs, data: Array, label: Array) -> tuple[Array, ...]:
    # max refuses tensors without elements, on which MXNet's reshape would end the process.
    labels = exact(F, label, F.max(first_class(F, data, 1), axis=1))
    valid, ignored = label_masks(F, labels, data, 1, attrs.ignore_label)
    if ignored is None:
        ignored = F.zeros_like(labels)
    is_ignored = F.broadcast_like(F.expand_dims(ignored, axis=1), F.BlockGrad(data))
    data = F.where(is_ignored, F.zeros_like(data), data)   # a NaN there must not reach the sums

    p = _by_class(F, probabilities(F, data, 1), attrs)
    zero = F.zeros_like(F.BlockGrad(p))
    is_ignored = _by_class(F, is_ignored, attrs)
    is_class = _is_class(F, _by_pixel(F, labels, attrs), zero) * (1 - is_ignored)
    steps = _steps(F, attrs, data, is_class, is_ignored)
    shares = _shares(F, attrs, F.sum(zero, axis=2), is_class, is_ignored)

    rows = F.sum(zero, axis=(1, 2))
    invalid = F.sum(_by_pixel(F, (1 - valid) * (1 - ignored), attrs), axis=1) > 0
    rows = row_weights(F, rows, 1 - invalid, None)   # 1, or NaN
    factors = F.broadcast_mul(shares, F.expand_dims(rows, axis=1))
    errors = F.where(is_class, 1 - p, p)
    losses = F.sum(F.sum(errors * steps, axis=2) * factors, axis=1)
    samples = F.sum(F.zeros_like(F.BlockGrad(data)), axis=0, exclude=True)

    slopes = F.broadcast_mul(F.where(is_class, -steps, steps), F.expand_dims(factors, axis=2))
    mean = F.sum(slopes * p, axis=1, keepdims=True)
    slopes = F.where(is_ignored, zero, p * F.broadcast_sub(slopes, mean))
    return F.broadcast_add(samples, losses), _as_data(F, slopes, data, attrs)


def _by_class(F, values: Array, attrs) -> Array:
    """Return an array of shape (batch, classes, ...) as (selections, classes, pixels)."""
    values = F.reshape(values, shape=(0, 0, -1))
    if attrs.per_sample:
        return values
    return F.expand_dims(F.reshape(F.transpose(values, axes=(1, 0, 2)), shape=(0, -1)), axis=0)


def _by_pixel(F, values: Array, attrs) -> Array:
    """Return an array of shape (batch, ...) as (selections, pixels)."""
    return F.reshape(values, shape=(0, -1) if attrs.per_sample else (1, -1))


def _as_data(F, values: Array, data: Array, attrs) -> Array:
    """Return the inverse of :func:`_by_class`."""
    if not attrs.per_sample:
        by_class = F.transpose(F.reshape(F.BlockGrad(data), shape=(0, 0, -1)), axes=(1, 0, 2))
        values = F.transpose(F.reshape_like(values, by_class), axes=(1, 0, 2))
    return F.reshape_like(values, F.BlockGrad(data))


def _is_class(F, labels: Array, like: Array) -> Array:
    """Return 1 where a pixel has the label of the class, and 0 elsewhere, in float64 and the shape of ``like``."""
    one_pixel = F.cast(F.slice_axis(like, axis=2, begin=0, end=1), dtype="float64")
    classes = F.reshape(F.contrib.arange_like(one_pixel, axis=1), shape=(1, -1, 1))
    return F.broadcast_equal(F.expand_dims(labels, axis=1), classes)


def _steps(F, attrs, data: Array, is_class: Array, is_ignored: Array) -> Array:
    """Return how much each pixel raises the Jaccard loss of the pixels with larger errors. Ignored pixels have 0."""
    p = _by_class(F, F.softmax(F.cast(F.BlockGrad(data), dtype="float64"), axis=1), attrs)
    errors = F.where(is_class, 1 - p, p)
    errors = F.where(errors != errors, F.ones_like(errors) * LARGEST, errors)
    errors = F.where(is_ignored, F.ones_like(errors) * IGNORED, errors)
    order, rank, first = descending(F, F.reshape(errors, shape=(-3, 0)))

    zero = F.zeros_like(_by_class(F, F.BlockGrad(data), attrs))
    target = F.reshape(F.where(is_class, zero + 1, zero), shape=(-3, 0))
    in_order = take(F, target, order, first)
    members = F.cumsum(in_order, axis=1)
    count = F.sum(target, axis=1, keepdims=True)
    union = F.broadcast_add(count, F.cumsum(F.ones_like(target), axis=1) - members)
    intersection = F.broadcast_sub(count, members)
    others = intersection / union / F.maximum(union - 1, 1)
    others = F.where(union == 1, F.ones_like(union), others)   # the first pixel, where no pixel has the class
    steps = take(F, F.where(in_order, 1 / union, others), rank, first)
    return F.BlockGrad(F.where(is_ignored, zero, F.reshape_like(steps, zero)))


def _shares(F, attrs, zero: Array, is_class: Array, is_ignored: Array) -> Array:
    """Return the weight of each class in the mean, in the shape and dtype of ``zero``, (selections, classes)."""
    pixels = is_class if attrs.present_only else 1 - is_ignored
    counts = F.sum(pixels, axis=2) > 0
    class_weight = attrs.class_weight or (1.0,)
    # Only ratios count. The largest weight becomes one from 1 to 2, so float16 holds all of them.
    unit = 2.0 ** (math.frexp(max(class_weight))[1] - 1)
    weights = numbers_along(F, zero, [weight / unit for weight in class_weight], 1)
    weights = F.where(counts, weights, zero)
    total = F.sum(weights, axis=1, keepdims=True)
    return F.broadcast_div(weights, F.where(total > 0, total, F.ones_like(total)))


def backward(nd, attrs, shapes, output_grad, derivative) -> dict:
    if not attrs.per_sample:
        output_grad = nd.broadcast_add(nd.zeros_like(output_grad), nd.sum(output_grad))
    grads_out = output_grad.reshape((-1, *(1,) * (derivative.ndim - 1)))
    return {"data": nd.broadcast_mul(derivative, grads_out)}
