"""group_norm: the channels of a sample, normalised in groups, scaled and shifted.

The channels are divided into ``num_groups`` groups of neighbours. A group's mean m and variance v, divided by the
number of its elements, are over its channels at all places of one sample: ``output = (data - m) * r * gamma + beta``
with ``r = 1 / sqrt(v + eps)``. With ``u = (data - m) * r`` and ``g = output_grad * gamma``, the gradient of the data
is ``(g - mean(g) - u * mean(g * u)) * r``, where the means are over the group. That of gamma is the sum of
``output_grad * u``, and that of beta the sum of ``output_grad``, over all samples and places. With one group this is
layer normalisation over channels and places; with as many groups as channels it is instance normalisation.

The difference in this gradient cancels where g is nearly the sum of a constant and a multiple of u. What is left is
wrong by a few units in the last place of g, times r, as if the data and g had been rounded: float32 is off by at most
9 * 2^-24 * max(g) * r in groups of random numbers, and more where the mean is large beside the deviation. A pair of
elements always cancels. It is computed as ``(g_1 - g_2) / 2 * eps * r^3`` instead. MXNet's derivative in builtin
graphs computes the difference.

The variance is the mean of squared differences, so a mean that is large beside the deviation costs no digits. Squares
of differences must not overflow: float32 holds those of numbers up to 1e19. NaN or infinity makes its group NaN, and
the gradients of the group's parameters.

Sums are accumulated in float32 for float16, except in a builtin graph of variables with unknown types, which also takes
an eps below 3e-8 for 0. MXNet's ``GroupNorm`` has a gamma and a beta for each group, not for each channel; gluoncv's
cannot be hybridized.

Work, in bytes of the data: forward moves 2 (read, write) and backward 3, if a group fits into the cache. The input
and two numbers for each group of a sample stay in memory for backward. The gradients of gamma and beta have the same
bits for any number of threads.

Sources: Wu and He, "Group Normalization" (2018), equations 1 to 3 and 6; ``torch.nn.GroupNorm``.
"""
from __future__ import annotations

from ...core.backend import Array, call
from .contract import OP

__all__ = ["group_norm"]


def group_norm(data: Array, gamma: Array, beta: Array, num_groups: int = 32, eps: float = 1e-5,
               name: str | None = None) -> Array:
    """The channels of each sample, normalised in groups, scaled and shifted.

    Parameters
    ----------
    data : NDArray or Symbol
        (batch, channels, ...); float16, float32 or float64.
    gamma : NDArray or Symbol
        The factor of each channel, (channels,); the dtype of ``data``.
    beta : NDArray or Symbol
        What is added to each channel, (channels,); the dtype of ``data``.
    num_groups : int, default 32
        The number of groups, by which the number of channels is divisible.
    eps : float, default 1e-5
        What is added to the variance, from 1e-12 to below 1.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        The shape and dtype of ``data``.

    Raises
    ------
    OpError
        The number of channels is not divisible by ``num_groups``, ``gamma`` or ``beta`` has another size or dtype,
        ``eps`` is out of range, or the dtype is not a float.
    """
    return call(OP, locals())
