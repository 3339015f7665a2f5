"""softmax_focal_loss: Lin et al. (2017), equation 5, with the softmax's probability of the label's class."""
import numpy as np

from .._softmax.oracle import nll, onehot, softmax, valid_rows


def prepare(attrs, data, label):
    """Return the logits, 0 in an ignored row; onehot times the weight of the class, 0 in an ignored row."""
    axis = attrs.axis
    label = label.reshape(data.max(axis).shape)   # it may have size 1 at the axis
    valid = np.expand_dims(valid_rows(label, attrs.ignore_label), axis)
    shape = [1] * data.ndim
    shape[axis] = -1
    alpha = np.reshape(1.0 if attrs.alpha is None else attrs.alpha, shape)
    return np.where(valid, data, 0), np.where(valid, onehot(label, data.shape[axis], axis), 0), alpha


def forward(attrs, data, label):
    """``max`` and ``log_sum`` are hidden outputs."""
    axis = attrs.axis
    logits, target, alpha = prepare(attrs, data, label)
    minus_log_p = nll(logits, axis)
    terms = np.where(target != 0, target * alpha * (-np.expm1(-minus_log_p)) ** attrs.gamma * minus_log_p, 0)
    largest = logits.max(axis, keepdims=True)
    log_sum = np.log(np.exp(logits - largest).sum(axis))
    return {"output": terms.sum(axis).reshape(label.shape), "max": largest.reshape(label.shape),
            "log_sum": log_sum.reshape(label.shape)}


def backward(attrs, head, data, label):
    """The chain rule over p: d p_k / d x_j = p_k * (onehot_j - p_j)."""
    axis, gamma = attrs.axis, attrs.gamma
    logits, target, alpha = prepare(attrs, data, label)
    p, minus_log_p = softmax(logits, axis), nll(logits, axis)
    error = -np.expm1(-minus_log_p)
    is_class = target != 0
    easing = gamma * np.where(error > 0, error, 1) ** (gamma - 1) * p * minus_log_p * (error > 0)
    by_nll = (np.where(is_class, target * alpha * (error ** gamma + easing), 0)).sum(axis, keepdims=True)
    head = head.reshape(by_nll.shape)
    return {"data": head * by_nll * (p - is_class)}
