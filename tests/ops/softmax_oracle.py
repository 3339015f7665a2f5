"""The softmax family in NumPy, from the formulas."""
import numpy as np


def softmax(x, axis, temperature=1.0):
    e = np.exp((x - x.max(axis=axis, keepdims=True)) / temperature)
    return e / e.sum(axis=axis, keepdims=True)


def surprise(x, axis):
    """logsumexp(x) - x for every class."""
    top = x.max(axis=axis, keepdims=True)
    return np.log(np.exp(x - top).sum(axis=axis, keepdims=True)) - (x - top)


def onehot(label, classes, axis):
    """The label's class as 1, in the layout of the logits; NaN throughout the row of a label that is no class."""
    hot = (label[..., None] == np.arange(classes)).astype("float64")
    hot[~hot.any(-1)] = np.nan
    return np.moveaxis(hot, -1, axis)


def counts(label, ignore_label):
    """Whether each row counts."""
    return np.ones(label.shape, bool) if ignore_label is None else label != ignore_label
