"""softmax_output: probabilities. The gradient is that of the weighted cross-entropy. The head gradient is ignored."""
import numpy as np

from .._softmax.oracle import nll, onehot, softmax, valid_rows


def row_weights(attrs, label):
    """Return the factor of each row's gradient."""
    valid = valid_rows(label, attrs.ignore_label)
    divisor = {"null": 1, "batch": label.shape[0], "valid": max(1, valid.sum())}[attrs.normalization]
    return valid * attrs.grad_scale / divisor


def forward(attrs, data, label):
    return {"output": softmax(data, attrs.axis)}


def backward(attrs, head, data, label):
    error = softmax(data, attrs.axis) - onehot(label, data.shape[attrs.axis], attrs.axis)
    weighted_error = error * np.expand_dims(row_weights(attrs, label), attrs.axis)
    valid = np.expand_dims(valid_rows(label, attrs.ignore_label), attrs.axis)
    return {"data": np.where(valid, weighted_error, 0)}


def objective(attrs, head, data, label):
    """Return the weighted cross-entropy."""
    target = onehot(label, data.shape[attrs.axis], attrs.axis)
    losses = (nll(data, attrs.axis) * target).sum(attrs.axis)
    valid = valid_rows(label, attrs.ignore_label)
    return (losses * row_weights(attrs, label))[valid].sum()
