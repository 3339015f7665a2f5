r"""mish: a smooth activation without an upper bound, element by element.

.. math::

    y = x \, t \qquad t = \tanh(\ln(1 + e^x)) \qquad
    \frac{\partial L}{\partial x} = g \, (t + x \, (1 - t^2) \, \mathrm{sigmoid}(x))

Sources
-------
Misra, "Mish" (2019), equation 1; ``torch.nn.functional.mish``.

Notes
-----
The smallest value is -0.309, at x = -1.19. At minus infinity the formula is ``-inf * 0``, so the output is NaN, as in
PyTorch. The gradient at an infinity is not defined. MXNet's ``x * tanh(softrelu(x))`` keeps three tensors in memory.
"""
from __future__ import annotations

from ...backends.emitter import Array, call
from .contract import OP


def mish(data: Array, name: str | None = None) -> Array:
    """Compute ``x tanh(softplus(x))`` for every element.

    Examples
    --------
    >>> data = mx.nd.array([-1, 0, 2])
    >>> data.attach_grad()
    >>> with mx.autograd.record():
    ...     output = gops.ops.mish(data)
    >>> output.backward()
    >>> print(output.asnumpy().round(4))
    [-0.3034  0.      1.944 ]
    >>> print(data.grad.asnumpy().round(4))
    [0.0592 0.6    1.0693]
    """
    return call(OP, data, name=name)
