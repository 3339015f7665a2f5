r"""l2_normalize: rows divided by their Euclidean length, and scaled by a learned factor for each channel.

A row is what lies along ``axis``; by default these are the channels at one place of a feature map.

.. math::

    y = u \cdot \mathrm{scale} \qquad u = x \, r \qquad
    r = \frac{1}{\sqrt{\mathrm{sum}(x^2) + \mathrm{eps}}}

With the head gradient :math:`g_y`, and :math:`g = g_y \cdot \mathrm{scale}`, the gradients are

.. math::

    \frac{\partial L}{\partial x} = (g - u \, \mathrm{sum}(g \, u)) \, r \qquad
    \frac{\partial L}{\partial\, \mathrm{scale}} = \sum_\mathrm{rows} g_y \, u

Sources
-------
Liu et al., "ParseNet" (2015), equations 1 to 5; the layer ``Normalize`` of Liu et al., "SSD" (2016).

Notes
-----
The notes of :func:`gluonops.ops.rms_norm` hold here as well: there is a mean where this operator has the sum. MXNet's
``L2Normalization`` has no scale; its mode "channel" is this with ``axis=1``.
"""
from __future__ import annotations

from ...backends.emitter import Array, call
from .contract import OP


def l2_normalize(data: Array, scale: Array, axis: int = 1, eps: float = 1e-10, name: str | None = None) -> Array:
    """Divide each row by its Euclidean length, and scale it.

    Examples
    --------
    >>> data = mx.nd.array([[3, 4], [0, 2]])
    >>> scale = mx.nd.array([10, 10])
    >>> print(gops.ops.l2_normalize(data, scale).asnumpy().round(3))
    [[ 6.  8.]
     [ 0. 10.]]
    >>> layer = gops.nn.L2Normalize(in_channels=2, scale_initializer=mx.init.Constant(20))
    >>> layer.initialize()
    >>> print(layer(data).asnumpy().round(3))
    [[12. 16.]
     [ 0. 20.]]
    """
    return call(OP, data, scale, axis=axis, eps=eps, name=name)
