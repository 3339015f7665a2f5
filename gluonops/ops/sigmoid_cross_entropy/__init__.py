r"""sigmoid_cross_entropy: binary cross-entropy of every element, fused with the sigmoid.

With the label y, the weight w of positives and the head gradient g,

.. math::

    \ell = -w \, y \log p - (1 - y) \log(1 - p) \qquad p = \mathrm{sigmoid}(x)

    \frac{\partial L}{\partial x} = g \, ((1 - y) \, p - w \, y \, (1 - p))

A label is a probability: 0, 1 or a number between. ``pos_weight`` has a weight for each class along ``axis``, or a
single one. It is part of the graph, and has no gradient.

Sources
-------
PyTorch's ``binary_cross_entropy_with_logits``, whose ``pos_weight`` this is.

Notes
-----
The logarithms are computed from the logits: loss and gradient are finite for every finite logit, and keep their digits
near 0. With an infinite logit, 0 * infinity makes the loss NaN, as in PyTorch.

Work: forward reads logits and labels and writes the loss. Backward reads them and the head gradient, and writes the
gradient. No probabilities are stored.
"""
from __future__ import annotations

from collections.abc import Sequence

from ...backends.emitter import Array, call
from .contract import OP


def sigmoid_cross_entropy(data: Array, label: Array, axis: int = -1,
                          pos_weight: float | Sequence[float] | None = None, ignore_label: int | None = None,
                          name: str | None = None) -> Array:
    """Compute the binary cross-entropy of every element with its label.

    Examples
    --------
    >>> logits = mx.nd.array([[2, -1, 0], [0, 3, -2]])
    >>> label = mx.nd.array([[1, 0, 1], [0, 1, -1]])
    >>> loss = gops.ops.sigmoid_cross_entropy(logits, label, pos_weight=(1, 1, 5), ignore_label=-1)
    >>> print(loss.asnumpy().round(3))
    [[0.127 0.313 3.466]
     [0.693 0.049 0.   ]]
    >>> layer = gops.loss.SigmoidCELoss(pos_weight=(1, 1, 5), ignore_label=-1)
    >>> print(layer(logits, label).asnumpy().round(3))
    [1.302 0.247]
    """
    return call(OP, data, label, axis=axis, pos_weight=pos_weight, ignore_label=ignore_label, name=name)
