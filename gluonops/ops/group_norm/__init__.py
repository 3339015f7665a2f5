r"""group_norm: the channels of a sample, normalised in groups, scaled and shifted.

The channels are divided into ``num_groups`` groups of neighbours. A group's mean m and variance v, divided by the
number of its elements, are over its channels at all pixels of one sample. With the factor ``gamma`` and the shift
``beta`` of the channel,

.. math::

    y = u \, \gamma + \beta \qquad u = (x - m) \, r \qquad r = \frac{1}{\sqrt{v + \mathrm{eps}}}

With the head gradient :math:`g_y` and :math:`g = g_y \, \gamma`, the gradients are these. The means are over the group,
the sums over all samples and pixels:

.. math::

    \frac{\partial L}{\partial x} = (g - \mathrm{mean}(g) - u \, \mathrm{mean}(g \, u)) \, r \qquad
    \frac{\partial L}{\partial \gamma} = \sum g_y \, u \qquad \frac{\partial L}{\partial \beta} = \sum g_y

With one group this is layer normalisation over channels and pixels; with as many groups as channels it is instance
normalisation.

Sources
-------
Wu and He, "Group Normalization" (2018), equations 1 to 3 and 6; ``torch.nn.GroupNorm``.

Notes
-----
The difference in this gradient cancels where g is nearly the sum of a constant and a multiple of u. What is left is
wrong by a few units in the last place of g, times r, as if the data and g had been rounded: float32 is off by at most
9 * 2^-24 * max(g) * r in groups of random numbers, and more where the mean is large beside the deviation. A pair of
elements always cancels. It is computed as ``(g_1 - g_2) / 2 * eps * r^3`` instead. MXNet's derivative in builtin
graphs computes the difference.

The variance is the mean of squared differences, so a mean that is large beside the deviation costs no digits. Squares
of differences must not overflow: float32 holds those of numbers up to 1e19. NaN or infinity makes its group NaN, and
the gradients of the group's parameters.

Where float16 is not computed in float32, an eps below 3e-8 counts as 0. MXNet's ``GroupNorm`` has a gamma and a beta
for each group, not for each channel; gluoncv's cannot be hybridized.

Work: forward reads the data and writes the output. Backward reads the data and the head gradient, and writes the
gradient. These are 2 and 3 times the bytes of the data, if a group fits into the cache. The input and two numbers for
each group of a sample stay in memory for backward. The gradients of gamma and beta have the same bits for any number of
threads.
"""
from __future__ import annotations

from ...backends.emitter import Array, call
from .contract import OP


def group_norm(data: Array, gamma: Array, beta: Array, num_groups: int = 32, eps: float = 1e-5,
               name: str | None = None) -> Array:
    """Normalise the channels of each sample in groups, scale them and shift them.

    Examples
    --------
    >>> data = mx.nd.array([[[1, 3], [5, 7], [0, 0], [2, 2]]])    # 4 channels, 2 pixels
    >>> gamma, beta = mx.nd.ones(4), mx.nd.zeros(4)
    >>> print(gops.ops.group_norm(data, gamma, beta, num_groups=2).asnumpy().round(2))
    [[[-1.34 -0.45]
      [ 0.45  1.34]
      [-1.   -1.  ]
      [ 1.    1.  ]]]
    >>> layer = gops.nn.GroupNorm(num_groups=2, in_channels=4)
    >>> layer.initialize()
    >>> print(layer(data).shape)
    (1, 4, 2)
    """
    return call(OP, data, gamma, beta, num_groups=num_groups, eps=eps, name=name)
