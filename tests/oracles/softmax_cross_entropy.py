"""softmax_cross_entropy: of every row, for class indices or probabilities, with label smoothing."""
import numpy as np

from ._softmax import nll, onehot, softmax, valid_rows


def target_and_valid(attrs, data, label):
    """(the weight of every class, which rows count), both with the axis kept."""
    classes, axis = data.shape[attrs.axis], attrs.axis
    uniform = attrs.smoothing / classes
    if not attrs.sparse_label:
        return label * (1 - attrs.smoothing) + uniform, np.ones_like(data.max(axis, keepdims=True))

    label = label.reshape(data.max(axis).shape)   # it may have kept the axis, with one class
    valid = np.expand_dims(valid_rows(label, attrs.ignore_label), axis)
    return onehot(label, classes, axis) * (1 - attrs.smoothing) + uniform, valid


def forward(attrs, data, label):
    """``max`` and ``log_sum`` are hidden outputs, in which an ignored row is a row of zeros."""
    axis = attrs.axis
    target, valid = target_and_valid(attrs, data, label)
    output = (nll(data, axis) * target * valid).sum(axis)

    counted = np.where(valid > 0, data, 0)
    largest = counted.max(axis, keepdims=True)
    log_sum = np.log(np.exp(counted - largest).sum(axis))

    shape = label.shape if attrs.sparse_label else output.shape
    return {"output": output.reshape(shape), "max": largest.reshape(shape), "log_sum": log_sum.reshape(shape)}


def backward(attrs, head, data, label):
    axis = attrs.axis
    target, valid = target_and_valid(attrs, data, label)
    head = head.reshape(data.max(axis, keepdims=True).shape)

    total = target.sum(axis, keepdims=True)
    gradients = {"data": head * valid * (softmax(data, axis) * total - target)}
    if not attrs.sparse_label:
        gradients["label"] = head * (1 - attrs.smoothing) * nll(data, axis)
    return gradients
