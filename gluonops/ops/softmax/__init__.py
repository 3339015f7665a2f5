r"""softmax: probabilities along an axis, as an ordinary layer.

Along ``axis``, with the temperature T and the head gradient g,

.. math::

    y_i = \frac{e^{x_i / T}}{\sum_j e^{x_j / T}} \qquad
    \frac{\partial L}{\partial x_i} = \frac{y_i}{T} \Big(g_i - \sum_j g_j \, y_j\Big)

Any rank and any axis work. :func:`~gluonops.ops.softmax_output` ignores the head gradient; this operator does not.

Sources
-------
Bridle, "Probabilistic interpretation of feedforward classification network outputs" (1990); temperature: Hinton,
Vinyals and Dean, "Distilling the knowledge in a neural network" (2015).

Notes
-----
The largest logit of a row is subtracted first, so the output is finite for every finite input. Where float16 is not
computed in float32, the result is divided by its own sum: MXNet's softmax sums in float16, and is wrong by a factor of
two at 4,096 equal classes.

Work: forward reads and writes every element once, and computes the maximum and the sum in one pass. Backward reads two
tensors and writes one. These are 2 and 3 times the bytes of the tensor. On a GPU the threads hold up to 8,192 classes
of a row in registers, or 4,096 in float64, and read the other classes again. Along an axis that is not the last one,
where there are 16,384 rows or more, one to four threads hold a row, with 32 classes each. Several blocks share a row of
more than 8,192 classes if there are fewer than 256 rows. Then all of the row is read again.
"""
from __future__ import annotations

from ...backends.emitter import Array, call
from .contract import OP


def softmax(data: Array, axis: int = -1, temperature: float = 1.0, name: str | None = None) -> Array:
    """Compute probabilities along an axis.

    Examples
    --------
    >>> logits = mx.nd.array([[1, 2, 3], [0, 0, 0]])
    >>> print(gops.ops.softmax(logits).asnumpy().round(3))
    [[0.09  0.245 0.665]
     [0.333 0.333 0.333]]
    >>> print(gops.ops.softmax(logits, temperature=4).asnumpy().round(3))
    [[0.254 0.326 0.419]
     [0.333 0.333 0.333]]
    >>> print(gops.ops.softmax(logits, axis=0).asnumpy().round(3))
    [[0.731 0.881 0.953]
     [0.269 0.119 0.047]]
    """
    return call(OP, data, axis=axis, temperature=temperature, name=name)
