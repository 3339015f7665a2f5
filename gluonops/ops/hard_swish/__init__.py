r"""hard_swish: x times a sigmoid of three straight lines, element by element.

.. math::

    y = x \, \min\left(\max\left(\frac{x}{6} + \frac{1}{2},\ 0\right),\ 1\right) \qquad
    \frac{\partial L}{\partial x} = g \cdot \begin{cases} 0 & x \le -3 \\ x / 3 + 1 / 2 & -3 < x < 3 \\
    1 & x \ge 3 \end{cases}

Sources
-------
Howard et al., "Searching for MobileNetV3" (2019), section 5.2; ``torch.nn.functional.hardswish``.

Notes
-----
The output of minus infinity is NaN.
"""
from __future__ import annotations

from ...backends.emitter import Array, call
from .contract import OP


def hard_swish(data: Array, name: str | None = None) -> Array:
    """Compute ``x * min(max(x / 6 + 1 / 2, 0), 1)`` for every element.

    Examples
    --------
    >>> data = mx.nd.array([-1, 0, 1, 4])
    >>> data.attach_grad()
    >>> with mx.autograd.record():
    ...     output = gops.ops.hard_swish(data)
    >>> output.backward()
    >>> print(output.asnumpy().round(4))
    [-0.3333  0.      0.6667  4.    ]
    >>> print(data.grad.asnumpy().round(4))
    [0.1667 0.5    0.8333 1.    ]
    """
    return call(OP, data, name=name)
