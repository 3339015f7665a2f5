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
    """The label's class as 1, in the layout of the logits."""
    return np.moveaxis(label[..., None] == np.arange(classes), -1, axis).astype("float64")
