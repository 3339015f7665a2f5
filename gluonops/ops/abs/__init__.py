r"""abs: the absolute value, element by element.

.. math::

    y = |x| \qquad \frac{\partial L}{\partial x} = g \, \mathrm{sign}(x)

with the head gradient ``g``. The gradient is 0 where ``x`` is 0 or NaN, as in MXNet. The operator takes any number of
dimensions and has no axis.

Sources
-------
Definition; the C++ tutorial's ``abs`` operator in Apache MXNet 1.9.1.

Notes
-----
Integers overflow as usual: the smallest int8, int32 or int64 has no absolute value in its type and stays unchanged. In
a builtin graph of variables with unknown types, int64 is computed in float64. This is exact up to 2**53.

Work: forward reads every element and writes one for it. Backward reads two and writes one. So they move 2 and 3 times
the bytes of the tensor. ``grad_req="add"`` reads the old gradient as well.
"""
from __future__ import annotations

from ...backends.emitter import Array, call
from .contract import OP


def abs(data: Array, name: str | None = None) -> Array:   # pylint: disable=redefined-builtin
    """Compute the absolute value of every element.

    Examples
    --------
    >>> data = mx.nd.array([-2, 0, 3])
    >>> data.attach_grad()
    >>> with mx.autograd.record():
    ...     output = gops.ops.abs(data)
    >>> output.backward()
    >>> print(output.asnumpy(), data.grad.asnumpy())
    [2. 0. 3.] [-1.  0.  1.]
    """
    return call(OP, data, name=name)
