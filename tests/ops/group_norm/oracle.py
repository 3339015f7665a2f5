"""group_norm: Wu and He, equations 1 to 3 and 6, with a gamma and a beta for each channel, and the derivatives."""
import numpy as np


def normalized(attrs, data):
    """The data in groups, (batch, groups, elements), normalised; their means, and 1 over their deviations."""
    groups = data.reshape(data.shape[0], attrs.num_groups, int(np.prod(data.shape[1:])) // attrs.num_groups)
    mean = groups.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt(((groups - mean) ** 2).mean(-1, keepdims=True) + attrs.eps)
    return (groups - mean) * inverse, mean, inverse


def of_channels(values, data):
    return values.reshape(1, -1, *[1] * (data.ndim - 2))


def forward(attrs, data, gamma, beta):
    unit, mean, inverse = normalized(attrs, data)
    output = unit.reshape(data.shape) * of_channels(gamma, data) + of_channels(beta, data)
    return {"output": output, "mean": mean[..., 0], "inverse": inverse[..., 0]}


def backward(attrs, head, data, gamma, beta):
    unit, _, inverse = normalized(attrs, data)
    by_unit = (head * of_channels(gamma, data)).reshape(unit.shape)
    # Both the mean and the variance depend on every element.
    by_variance = -(by_unit * unit).sum(-1, keepdims=True) * inverse ** 2 / 2
    by_mean = -by_unit.sum(-1, keepdims=True) * inverse
    count = unit.shape[-1]
    by_data = by_unit * inverse + by_variance * 2 * unit / inverse / count + by_mean / count
    others = tuple(axis for axis in range(data.ndim) if axis != 1)
    return {"data": by_data.reshape(data.shape), "gamma": (head * unit.reshape(data.shape)).sum(others),
            "beta": head.sum(others)}
