r"""softmax_focal_loss: cross-entropy with less weight on easy rows, fused with its softmax.

With the softmax p along ``axis``, the head gradient g and :math:`s = -\log p_k`, a row with the class k has

.. math::

    \ell = \alpha_k \, (1 - p_k)^\gamma \, s

    \frac{\partial L}{\partial x_j} = g \, \alpha_k \, (1 - p_k)^\gamma
    \left(1 + \gamma \, \frac{p_k \, s}{1 - p_k}\right) (p_j - [j = k])

Gamma 0 is the cross-entropy. A larger one gives less weight to the rows whose class the net already predicts. ``alpha``
is a weight for each class. It is part of the graph, and has no gradient.

Sources
-------
Lin, Goyal, Girshick, He, Dollar, "Focal Loss for Dense Object Detection" (2017), equation 5, with a softmax instead of
the sigmoid. :func:`gluonops.ops.sigmoid_focal_loss` is the paper's own.

Notes
-----
The loss follows from the logarithm of the probability, which is computed from the logits. So both are finite for
logits up to 1e4 and beyond, whether p is near 0 or near 1. A logit of -infinity at the class makes the loss infinite,
and the gradient that of the cross-entropy. Forward keeps two numbers per row for backward, as hidden outputs of the
node, and no probabilities.

Work: forward reads the logits once, and writes three numbers per row. Backward reads the logits once and writes their
gradient.
"""
from __future__ import annotations

from collections.abc import Sequence

from ...backends.emitter import Array, call
from .contract import OP


def softmax_focal_loss(data: Array, label: Array, axis: int = -1, gamma: float = 2.0,
                       alpha: float | Sequence[float] | None = None, ignore_label: int | None = None,
                       name: str | None = None) -> Array:
    """Compute the focal loss of every row with its label.

    Examples
    --------
    >>> logits = mx.nd.array([[0, 4], [0, 1], [1, 0]])
    >>> label = mx.nd.array([1, 1, 1])
    >>> print(gops.ops.softmax_focal_loss(logits, label).asnumpy().round(4))
    [0.     0.0227 0.7019]
    >>> print(gops.ops.softmax_focal_loss(logits, label, gamma=0).asnumpy().round(4))
    [0.0181 0.3133 1.3133]
    >>> print(gops.ops.softmax_focal_loss(logits, label, alpha=(1, 3)).asnumpy().round(4))
    [0.     0.068  2.1056]
    """
    return call(OP, data, label, axis=axis, gamma=gamma, alpha=alpha, ignore_label=ignore_label, name=name)
