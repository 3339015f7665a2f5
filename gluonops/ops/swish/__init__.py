r"""swish: x times its sigmoid, element by element; with beta = 1 it is called SiLU.

.. math::

    y = x \, s \qquad s = \mathrm{sigmoid}(\beta x) \qquad
    \frac{\partial L}{\partial x} = g \, (s + \beta \, x \, s \, (1 - s))

With beta 0 it is x / 2; with a large beta it comes close to ReLU. beta is a constant and is not learned.

Sources
-------
Ramachandran et al., "Searching for Activation Functions" (2017), section 4; Elfwing et al., "Sigmoid-weighted linear
units" (2017); ``torch.nn.functional.silu``.

Notes
-----
At minus infinity the formula is ``-inf * 0``, so the output is NaN, as in PyTorch. The gradient at an infinity is not
defined.
"""
from __future__ import annotations

from ...backends.emitter import Array, call
from .contract import OP


def swish(data: Array, beta: float = 1.0, name: str | None = None) -> Array:
    """Compute ``x sigmoid(beta x)`` for every element.

    Examples
    --------
    >>> data = mx.nd.array([-1, 0, 2])
    >>> print(gops.ops.swish(data).asnumpy().round(4))
    [-0.2689  0.      1.7616]
    >>> print(gops.ops.swish(data, beta=2).asnumpy().round(4))
    [-0.1192  0.      1.964 ]
    >>> layer = gops.nn.Swish()
    >>> print(layer(data).asnumpy().round(4))
    [-0.2689  0.      1.7616]
    """
    return call(OP, data, beta=beta, name=name)
