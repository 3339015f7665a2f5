"""softmax_cross_entropy: the cross-entropy per row, for class indices or probabilities, with label smoothing."""
import numpy as np

from .._softmax.oracle import nll, onehot, softmax, valid_rows


def weights(attrs, data):
    """Return the weight of each class, as torch.nn.functional.cross_entropy has it. It broadcasts against the data."""
    if attrs.class_weight is None:
        return 1
    shape = [1] * data.ndim
    shape[attrs.axis] = -1
    return np.array(attrs.class_weight).reshape(shape)


def prepare(attrs, data, label):
    """Return the logits, and the target of each class in the same shape.

    Both are 0 in an ignored row.
    """
    axis = attrs.axis
    classes = data.shape[axis]
    uniform = attrs.smoothing / classes
    if not attrs.sparse_label:
        return data, weights(attrs, data) * (label * (1 - attrs.smoothing) + uniform)

    label = label.reshape(data.max(axis).shape)   # it may have size 1 at the axis
    valid = np.expand_dims(valid_rows(label, attrs.ignore_label), axis)
    target = weights(attrs, data) * (onehot(label, classes, axis) * (1 - attrs.smoothing) + uniform)
    return np.where(valid, data, 0), np.where(valid, target, 0)


def forward(attrs, data, label):
    """``max`` and ``log_sum`` are hidden outputs."""
    axis = attrs.axis
    logits, target = prepare(attrs, data, label)
    output = (nll(logits, axis) * target).sum(axis)
    largest = logits.max(axis, keepdims=True)
    log_sum = np.log(np.exp(logits - largest).sum(axis))

    shape = label.shape if attrs.sparse_label else output.shape
    return {"output": output.reshape(shape), "max": largest.reshape(shape), "log_sum": log_sum.reshape(shape)}


def backward(attrs, head, data, label):
    axis = attrs.axis
    logits, target = prepare(attrs, data, label)
    head = head.reshape(data.max(axis, keepdims=True).shape)

    target_sum = target.sum(axis, keepdims=True)
    gradients = {"data": head * (softmax(logits, axis) * target_sum - target)}
    if not attrs.sparse_label:
        gradients["label"] = head * (1 - attrs.smoothing) * weights(attrs, data) * nll(logits, axis)
    return gradients
