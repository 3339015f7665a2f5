"""group_norm: Wu and He, equations 1 to 3 and 6, with a gamma and a beta for each channel, and the derivatives."""
import numpy as np


def normalized(attrs, data):
    """Return the data in groups, (batch, groups, elements), normalised; their means, and 1 over their deviations."""
    groups = data.reshape(data.shape[0], attrs.num_groups, int(np.prod(data.shape[1:])) // attrs.num_groups)
    mean = groups.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(((groups - mean) ** 2).mean(-1, keepdims=True) + attrs.eps)
    return (groups - mean) * rstd, mean, rstd


def of_channels(values, data):
    return values.reshape(1, -1, *[1] * (data.ndim - 2))


def forward(attrs, data, gamma, beta):
    x_hat, mean, rstd = normalized(attrs, data)
    output = x_hat.reshape(data.shape) * of_channels(gamma, data) + of_channels(beta, data)
    return {"output": output, "mean": mean[..., 0], "rstd": rstd[..., 0]}


def backward(attrs, head, data, gamma, beta):
    x_hat, _, rstd = normalized(attrs, data)
    by_x_hat = (head * of_channels(gamma, data)).reshape(x_hat.shape)
    # Both the mean and the variance depend on every element.
    by_variance = -(by_x_hat * x_hat).sum(-1, keepdims=True) * rstd ** 2 / 2
    by_mean = -by_x_hat.sum(-1, keepdims=True) * rstd
    count = x_hat.shape[-1]
    by_data = by_x_hat * rstd + by_variance * 2 * x_hat / rstd / count + by_mean / count
    others = tuple(axis for axis in range(data.ndim) if axis != 1)
    return {"data": by_data.reshape(data.shape), "gamma": (head * x_hat.reshape(data.shape)).sum(others),
            "beta": head.sum(others)}
