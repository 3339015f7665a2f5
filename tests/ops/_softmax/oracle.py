"""Parts shared by the oracles of the softmax family."""
import numpy as np


def softmax(logits, axis, temperature=1.0):
    powers = np.exp((logits - logits.max(axis=axis, keepdims=True)) / temperature)
    return powers / powers.sum(axis=axis, keepdims=True)


def nll(logits, axis):
    """Return the negative log-likelihood of each class: logsumexp(logits) - logits."""
    shifted = logits - logits.max(axis=axis, keepdims=True)
    return np.log(np.exp(shifted).sum(axis=axis, keepdims=True)) - shifted


def onehot(label, classes, axis):
    """1 at the label's class and 0 elsewhere, in the layout of the logits. The row of an invalid label is NaN."""
    encoded = (label[..., None] == np.arange(classes)).astype("float64")
    encoded[~encoded.any(axis=-1)] = np.nan
    return np.moveaxis(encoded, -1, axis)


def valid_rows(label, ignore_label):
    """True for each row, and False for rows whose label is ignored."""
    if ignore_label is None:
        return np.ones(label.shape, bool)
    return label != ignore_label
