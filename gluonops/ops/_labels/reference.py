"""Class labels, computed with MXNet's own operators.

Labels are compared in float64, which holds every label exactly. ``where`` then selects values in the data's dtype.
"""
from __future__ import annotations

import math

import mxnet as mx

from ...backends.concat import constants
from ...backends.emitter import Array
from ...backends.pins import same_shape


def exact(F, label: Array, rows: Array | None = None) -> Array:
    """Return the labels as float64, without a gradient. A graph takes none of another shape than that of ``rows``."""
    label = F.cast(F.BlockGrad(label), dtype="float64")
    if rows is None or F is mx.nd:
        return label
    return same_shape(F, label, F.cast(F.BlockGrad(rows), dtype="float64"))


def first_class(F, data: Array, axis: int) -> Array:
    """Return the logits of the first class, with the axis of the classes; their shape counts."""
    return F.BlockGrad(F.slice_axis(data, axis=axis, begin=0, end=1))


def valid_mask(F, label: Array, data: Array, axis: int) -> Array:
    """Return which labels are valid: whole numbers from 0 to C-1, where ``data`` has C classes along ``axis``.

    ``label`` is the result of :func:`exact`. This one is float64, 1 or 0.
    """
    end = axis + 1 if axis != -1 else None
    classes = F.slice_axis(F.shape_array(F.BlockGrad(data)), axis=0, begin=axis, end=end)
    below = F.broadcast_lesser(label, F.cast(classes, dtype="float64"))
    return below * (label >= 0) * (F.floor(label) == label)


def ignored_mask(label: Array, ignore_label: int | None) -> Array | None:
    """Return which labels are ignored: float64, 1 or 0. Return None if ``ignore_label`` is None."""
    if ignore_label is None:
        return None
    return label == ignore_label


def label_masks(F, label: Array, data: Array, axis: int, ignore_label: int | None) -> tuple[Array, Array | None]:
    """Return the results of :func:`valid_mask` and :func:`ignored_mask`."""
    return valid_mask(F, label, data, axis), ignored_mask(label, ignore_label)


def without_ignored(F, values: Array, ignored: Array | None) -> Array:
    """Return ``values`` with 0 in ignored rows, whatever these hold. ``ignored`` has size 1 along the classes."""
    if ignored is None:
        return values
    return F.where(F.broadcast_like(ignored, values), F.zeros_like(values), values)


def row_weights(F, rows: Array, valid: Array, ignored: Array | None) -> Array:
    """Return 1 for a valid label, 0 for an ignored one and NaN for an invalid one, in shape and dtype of ``rows``."""
    zero = F.zeros_like(F.BlockGrad(rows))
    weights = F.where(valid, zero + 1, zero * float("nan"))
    if ignored is None:
        return weights
    return F.where(ignored, zero, weights)


def onehot(nd, label: Array, classes: int, axis: int, dtype: str) -> Array:
    """Return 1 at the label's class along the new axis ``axis``, and 0 elsewhere. An invalid label gives zeros."""
    axis %= label.ndim + 1
    shape = label.shape[:axis] + (classes,) + label.shape[axis:]
    outer = math.prod(shape[:axis])
    rows = label.astype("float64").reshape((outer, -1))   # MXNet transposes at most 6 dimensions
    return nd.one_hot(rows, classes, dtype=dtype).swapaxes(1, 2).reshape(shape)


def numbers_along(F, like: Array, numbers: tuple, axis: int) -> Array:
    """Return numbers along an axis, in the shape and dtype of ``like``, without a gradient.

    There are as many ``numbers`` as the axis of ``like`` is long, or a single one for all.
    """
    like = F.BlockGrad(like)
    if len(numbers) == 1:
        return F.zeros_like(like) + numbers[0]
    zero = F.zeros_like(F.slice_axis(like, axis=axis, begin=0, end=1))
    return same_shape(F, constants(F, zero, numbers, axis), like)


def number_of_label(F, data: Array, numbers: tuple, axis: int, label: Array) -> Array:
    """Return the number of each row's class; see :func:`numbers_along`. ``label`` has size 1 along the classes."""
    return F.pick(numbers_along(F, data, numbers, axis), label, axis=axis, mode="clip", keepdims=True)
