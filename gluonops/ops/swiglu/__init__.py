r"""swiglu: the gated linear unit with swish: one half of the channels, times swish of the other.

Along ``axis``, the first half of the data is the gate a, the second half the value v. With :math:`s =
\mathrm{sigmoid}(a)` and the head gradient g,

.. math::

    y = a \, s \, v \qquad \frac{\partial L}{\partial a} = g \, v \, (s + a \, s \, (1 - s)) \qquad
    \frac{\partial L}{\partial v} = g \, a \, s

One dense layer or convolution with twice the channels puts out both halves: no concatenation and no split is needed.

Sources
-------
Shazeer, "GLU Variants Improve Transformer" (2020), equation 5 without the matrices; the order of the halves is that of
``torch.chunk(x, 2)`` in ``silu(gate) * value``.

Notes
-----
At minus infinity ``a sigmoid(a)`` is NaN, as in PyTorch; the gradient at an infinity is not defined.

Work: forward reads both halves of the data and writes an output of the size of one, which is 1.5 times the bytes of the
data. Backward moves 2.5 times the bytes. Only the input stays in memory for backward. MXNet's composition of a split, a
sigmoid and two products keeps five tensors.
"""
from __future__ import annotations

from ...backends.emitter import Array, call
from .contract import OP


def swiglu(data: Array, axis: int = -1, name: str | None = None) -> Array:
    """Compute the swish of the first half along an axis, times the second half.

    Examples
    --------
    >>> data = mx.nd.array([[2, 0, 5, 7]])    # the gates 2 and 0, the values 5 and 7
    >>> print(gops.ops.swiglu(data).asnumpy().round(3))
    [[8.808 0.   ]]
    >>> dense = mx.gluon.nn.Dense(2 * 8)
    >>> dense.initialize()
    >>> print(gops.nn.SwiGLU()(dense(data)).shape)
    (1, 8)
    """
    return call(OP, data, axis=axis, name=name)
