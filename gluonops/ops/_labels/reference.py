"""Class labels in MXNet's own operators.

Label arithmetic is done in float64, which holds every label exactly. Its results enter the data's dtype through
``where``.
"""
import math


def exact(F, label):
    """The labels as float64, without a gradient."""
    return F.cast(F.BlockGrad(label), dtype="float64")


def valid_mask(F, label, data, axis):
    """Which labels are a class.

    Parameters
    ----------
    label : NDArray or Symbol
        As :func:`exact` gives it.
    data : NDArray or Symbol
        A tensor that has the classes along ``axis``.

    Returns
    -------
    NDArray or Symbol
        float64, 1 or 0, the shape of ``label``.
    """
    behind = axis + 1 if axis != -1 else None
    classes = F.slice_axis(F.shape_array(F.BlockGrad(data)), axis=0, begin=axis, end=behind)
    below = F.broadcast_lesser(label, F.cast(classes, dtype="float64"))
    return below * (label >= 0) * (F.floor(label) == label)


def ignored_mask(label, ignore_label):
    """Which labels are to be ignored, float64, 1 or 0; None where ``ignore_label`` is None."""
    return None if ignore_label is None else label == ignore_label


def row_weights(F, rows, valid, ignored):
    """1 for a row that counts, 0 for an ignored one, NaN for a label that is no class; dtype and shape of ``rows``."""
    zero = F.zeros_like(F.BlockGrad(rows))
    weights = F.where(valid, zero + 1, zero * float("nan"))
    return weights if ignored is None else F.where(ignored, zero, weights)


def onehot(nd, label, classes, axis, dtype):
    """1 at the label's class along a new axis, else 0; a row of zeros for a label that is no class."""
    axis %= label.ndim + 1
    shape = label.shape[:axis] + (classes,) + label.shape[axis:]
    outer = math.prod(shape[:axis])
    rows = label.astype("float64").reshape((outer, -1))   # MXNet transposes at most 6 dimensions
    return nd.one_hot(rows, classes, dtype=dtype).swapaxes(1, 2).reshape(shape)
