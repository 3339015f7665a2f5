"""Rows divided by the root of the mean, or of the sum, of their squares."""
import numpy as np


def along(attrs, data, scale):
    """Return the scale in the shape of its axis."""
    shape = [1] * data.ndim
    shape[attrs.axis] = -1
    return scale.reshape(shape)


def rstd_of(mean_or_sum, attrs, data):
    return 1 / np.sqrt(mean_or_sum(data ** 2, axis=attrs.axis, keepdims=True) + attrs.eps)


def scaled_rows(mean_or_sum, attrs, data, scale):
    rstd = rstd_of(mean_or_sum, attrs, data)
    return {"output": data * rstd * along(attrs, data, scale), "rstd": rstd}


def gradients(mean_or_sum, attrs, head, data, scale):
    rstd = rstd_of(mean_or_sum, attrs, data)
    by_x_hat = head * along(attrs, data, scale)
    by_rstd = (by_x_hat * data).sum(attrs.axis, keepdims=True)
    share = 1 / data.shape[attrs.axis] if mean_or_sum is np.mean else 1
    others = tuple(axis for axis in range(data.ndim) if axis != attrs.axis % data.ndim)
    return {"data": by_x_hat * rstd - by_rstd * rstd ** 3 * share * data,
            "scale": (head * data * rstd).sum(others)}
