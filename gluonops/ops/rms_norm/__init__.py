r"""rms_norm: rows divided by the root mean square of their elements, and scaled: layer normalisation without the mean.

A row is what lies along ``axis``.

.. math::

    y = u \cdot \mathrm{scale} \qquad u = x \, r \qquad
    r = \frac{1}{\sqrt{\mathrm{mean}(x^2) + \mathrm{eps}}}

With the head gradient :math:`g_y`, and :math:`g = g_y \cdot \mathrm{scale}`, the gradients are

.. math::

    \frac{\partial L}{\partial x} = (g - u \, \mathrm{mean}(g \, u)) \, r \qquad
    \frac{\partial L}{\partial\, \mathrm{scale}} = \sum_\mathrm{rows} g_y \, u

Sources
-------
Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019), equation 4; ``torch.nn.functional.rms_norm``.

Notes
-----
A row of zeros stays zeros. Squares must not overflow: float32 holds those of numbers up to 1e19. NaN or infinity makes
its row NaN, and the gradient of the scale.

The difference in the data's gradient cancels where g is nearly a multiple of u. What is left is wrong by a few units
in the last place of g, times r, as if the data and g had been rounded: float32 is off by at most 12 * 2^-24 * max(g)
* r in rows of 1 to 4,096 random numbers. A row of a single element always cancels. It is computed as ``g * eps *
r^3`` instead, which has all its digits. MXNet's derivative in builtin graphs computes the difference.

Where float16 is not computed in float32, squares of numbers above 256 overflow.

Work: forward reads the data and writes the output. Backward reads the data and the head gradient, and writes the
gradient. These are 2 and 3 times the bytes of the data, if a row fits into the cache. The input and a number for each
row stay in memory for backward. The gradient of the scale has the same bits for any number of threads.
"""
from __future__ import annotations

from ...backends.emitter import Array, call
from .contract import OP


def rms_norm(data: Array, scale: Array, axis: int = -1, eps: float = 1e-6, name: str | None = None) -> Array:
    """Divide each row by the root of the mean of its squares, and scale it.

    Examples
    --------
    >>> data = mx.nd.array([[3, 4], [0, 2]])
    >>> scale = mx.nd.array([1, 2])
    >>> print(gops.ops.rms_norm(data, scale).asnumpy().round(3))
    [[0.849 2.263]
     [0.    2.828]]
    >>> layer = gops.nn.RMSNorm(in_channels=2)
    >>> layer.initialize()
    >>> print(layer(data).asnumpy().round(3))
    [[0.849 1.131]
     [0.    1.414]]
    """
    return call(OP, data, scale, axis=axis, eps=eps, name=name)
