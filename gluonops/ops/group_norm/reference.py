"""``group_norm`` and its gradients, computed with MXNet's own operators.

The statistics of the groups are computed from those of the channels. So only these are reshaped: MXNet cannot add an
axis to eight, and no size may follow from that of the batch, which may be empty.
"""
import math

from ...backends.emitter import Array

PIXELS = {"axis": (0, 1), "exclude": True}    # all axes but the batch's and the channels'
SAMPLES = {"axis": 1, "exclude": True}        # all axes but the channels'


def group_means(F, attrs, channel_means: Array) -> Array:
    """Return means of groups, (batch, num_groups), from those of channels, (batch, channels, 1, ...)."""
    return F.mean(in_groups(F, attrs, channel_means), axis=2)


def in_groups(F, attrs, per_channel: Array) -> Array:
    """Return an array of shape (batch, channels, 1, ...) as (batch, num_groups, channels of a group)."""
    return F.reshape(F.sum(per_channel, **PIXELS), shape=(0, -4, attrs.num_groups, -1))


def of_channels(F, attrs, per_group: Array, channel_means: Array) -> Array:
    """Return the number of each channel's group: (batch, channels, 1, ...), from (batch, num_groups)."""
    groups = in_groups(F, attrs, F.BlockGrad(channel_means))
    return F.reshape_like(F.broadcast_like(F.expand_dims(per_group, axis=2), groups), F.BlockGrad(channel_means))


def forward(F, attrs, data: Array, gamma: Array, beta: Array) -> tuple[Array, ...]:
    channel_means = F.mean(data, keepdims=True, **PIXELS)
    mean = group_means(F, attrs, channel_means)
    centered = F.broadcast_sub(data, of_channels(F, attrs, mean, channel_means))
    variance = group_means(F, attrs, F.mean(F.square(centered), keepdims=True, **PIXELS))
    root = F.sqrt(variance + attrs.eps)   # its reciprocal would have an infinite derivative in float16
    x_hat = F.broadcast_div(centered, of_channels(F, attrs, root, channel_means))

    one_sample = F.sum(F.BlockGrad(channel_means), axis=0, keepdims=True)   # its shape counts: (1, channels, 1, ...)
    scaled = F.broadcast_mul(x_hat, F.reshape_like(gamma, one_sample))
    output = F.broadcast_add(scaled, F.reshape_like(beta, one_sample))
    return output, mean, 1 / root


def backward(nd, attrs, shapes, output_grad, data, gamma, mean, rstd) -> dict:
    batch, channels, *pixels = data.shape
    groups = (batch, attrs.num_groups, channels // attrs.num_groups * math.prod(pixels))
    rstd = nd.expand_dims(rstd, axis=2)
    centered = nd.broadcast_sub(data.reshape(groups), nd.expand_dims(mean, axis=2))
    x_hat = nd.broadcast_mul(centered, rstd)

    grad_x_hat = nd.broadcast_mul(output_grad, gamma.reshape((1, channels) + (1,) * len(pixels))).reshape(groups)
    if groups[2] <= 2:
        by_data = _gradient_of_pairs(nd, attrs, grad_x_hat, rstd)
    else:
        mean_of_products = nd.mean(grad_x_hat * x_hat, axis=2, keepdims=True)
        mean_grad = nd.mean(grad_x_hat, axis=2, keepdims=True)
        by_mean = nd.broadcast_add(nd.broadcast_mul(x_hat, mean_of_products), mean_grad)
        by_data = nd.broadcast_mul(grad_x_hat - by_mean, rstd)
    return {"data": by_data.reshape(data.shape), "gamma": nd.sum(output_grad * x_hat.reshape(data.shape), **SAMPLES),
            "beta": nd.sum(output_grad, **SAMPLES)}


def _gradient_of_pairs(nd, attrs, grad_x_hat: Array, rstd: Array) -> Array:
    """Return the gradient in groups of one or two elements: half their difference, a multiple of the normalised data.

    So the difference with these cancels: 1 - x_hat^2 is eps * rstd^2.
    """
    half = (grad_x_hat - nd.flip(grad_x_hat, axis=2)) / 2
    return nd.broadcast_mul(half, attrs.eps * rstd * rstd * rstd)
