"""Class labels, computed with MXNet's own operators.

Labels are compared in float64, which holds every label exactly. ``where`` then selects values in the data's dtype.
"""
from __future__ import annotations

import itertools
import math

from ...core.backend import Array


def exact(F, label: Array) -> Array:
    """The labels as float64, without a gradient."""
    return F.cast(F.BlockGrad(label), dtype="float64")


def valid_mask(F, label: Array, data: Array, axis: int) -> Array:
    """Which labels are valid: whole numbers from 0 to C-1, with C classes.

    Parameters
    ----------
    label : NDArray or Symbol
        The result of :func:`exact`.
    data : NDArray or Symbol
        A tensor that has the classes along ``axis``.
    axis : int
        Axis of the classes.

    Returns
    -------
    NDArray or Symbol
        float64, 1 or 0, the shape of ``label``.
    """
    end = axis + 1 if axis != -1 else None
    classes = F.slice_axis(F.shape_array(F.BlockGrad(data)), axis=0, begin=axis, end=end)
    below = F.broadcast_lesser(label, F.cast(classes, dtype="float64"))
    return below * (label >= 0) * (F.floor(label) == label)


def ignored_mask(label: Array, ignore_label: int | None) -> Array | None:
    """Which labels are ignored: float64, 1 or 0. None if ``ignore_label`` is None."""
    if ignore_label is None:
        return None
    return label == ignore_label


def row_weights(F, rows: Array, valid: Array, ignored: Array | None) -> Array:
    """Weights in the dtype and shape of ``rows``: 1 for a valid label, 0 for an ignored one, NaN for an invalid one."""
    zero = F.zeros_like(F.BlockGrad(rows))
    weights = F.where(valid, zero + 1, zero * float("nan"))
    if ignored is None:
        return weights
    return F.where(ignored, zero, weights)


def onehot(nd, label: Array, classes: int, axis: int, dtype: str) -> Array:
    """1 at the label's class along the new axis ``axis``, 0 elsewhere. An invalid label gives a row of zeros."""
    axis %= label.ndim + 1
    shape = label.shape[:axis] + (classes,) + label.shape[axis:]
    outer = math.prod(shape[:axis])
    rows = label.astype("float64").reshape((outer, -1))   # MXNet transposes at most 6 dimensions
    return nd.one_hot(rows, classes, dtype=dtype).swapaxes(1, 2).reshape(shape)


def numbers_along(F, like: Array, numbers: tuple, axis: int) -> Array:
    """Numbers along an axis, in the shape and dtype of ``like``, without a gradient.

    Parameters
    ----------
    like : NDArray or Symbol
    numbers : tuple of float
        As many as the axis of ``like`` is long, or a single one for all. Equal neighbours take one node of a graph.
    axis : int

    Returns
    -------
    NDArray or Symbol
    """
    like = F.BlockGrad(like)
    if len(numbers) == 1:
        return F.zeros_like(like) + numbers[0]
    zero = F.zeros_like(F.slice_axis(like, axis=axis, begin=0, end=1))
    runs = []
    for number, equal in itertools.groupby(numbers):
        runs.append(F.repeat(zero + number, repeats=len(list(equal)), axis=axis))
    return runs[0] if len(runs) == 1 else F.concat(*runs, dim=axis)
