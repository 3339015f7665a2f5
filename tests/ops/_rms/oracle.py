"""Rows divided by the root of the mean, or of the sum, of their squares."""
import numpy as np


def along(attrs, data, scale):
    """The scale in the shape of its axis."""
    shape = [1] * data.ndim
    shape[attrs.axis] = -1
    return scale.reshape(shape)


def inverse_roots(mean_or_sum, attrs, data):
    return 1 / np.sqrt(mean_or_sum(data ** 2, axis=attrs.axis, keepdims=True) + attrs.eps)


def scaled_rows(mean_or_sum, attrs, data, scale):
    inverse = inverse_roots(mean_or_sum, attrs, data)
    return {"output": data * inverse * along(attrs, data, scale), "inverse": inverse}


def gradients(mean_or_sum, attrs, head, data, scale):
    inverse = inverse_roots(mean_or_sum, attrs, data)
    by_unit = head * along(attrs, data, scale)
    by_inverse = (by_unit * data).sum(attrs.axis, keepdims=True)
    share = 1 / data.shape[attrs.axis] if mean_or_sum is np.mean else 1
    others = tuple(axis for axis in range(data.ndim) if axis != attrs.axis % data.ndim)
    return {"data": by_unit * inverse - by_inverse * inverse ** 3 * share * data,
            "scale": (head * data * inverse).sum(others)}
