r"""gelu: x times the probability that a normal number is smaller than x, element by element.

With ``approximation="erf"``, the normal distribution function P and its density p,

.. math::

    y = x \, P(x) = \frac{x}{2} \left(1 + \mathrm{erf} \frac{x}{\sqrt{2}}\right) \qquad
    \frac{\partial L}{\partial x} = g \, (P(x) + x \, p(x))

With ``approximation="tanh"``, which differs from it by up to 0.0005, and which BERT and GPT-2 were trained with,

.. math::

    y = \frac{x}{2} \left(1 + \tanh\left(\sqrt{2 / \pi} \, (x + 0.044715 \, x^3)\right)\right)

Sources
-------
Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016), section 2; ``torch.nn.functional.gelu``. The attribute has
the name and the values of MXNet 2's ``gluon.nn.GELU``.

Notes
-----
The kernels compute the probability without a difference: it keeps its digits where x is far below 0. The smallest value
is -0.17, at x = -0.75. At minus infinity the formula is ``-inf * 0``, so the output is NaN, as in PyTorch. The gradient
at an infinity is not defined.
"""
from __future__ import annotations

from ...backends.emitter import Array, call
from .contract import OP


def gelu(data: Array, approximation: str = "erf", name: str | None = None) -> Array:
    """Compute ``x P(x)`` for every element, with the normal distribution function P.

    Examples
    --------
    >>> data = mx.nd.array([-1, 0, 2])
    >>> print(gops.ops.gelu(data).asnumpy().round(4))
    [-0.1587  0.      1.9545]
    >>> print(gops.ops.gelu(data, approximation="tanh").asnumpy().round(4))
    [-0.1588  0.      1.9546]
    >>> layer = gops.nn.GELU()
    >>> print(layer(data).asnumpy().round(4))
    [-0.1587  0.      1.9545]
    """
    return call(OP, data, approximation=approximation, name=name)
