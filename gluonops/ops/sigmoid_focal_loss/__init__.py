r"""sigmoid_focal_loss: binary cross-entropy with less weight on easy elements, fused with the sigmoid.

With the label y and the head gradient g, the cross-entropy c of an element is weighted by its error e and by
:math:`\alpha_t`, which is 1 if ``alpha`` is negative:

.. math::

    \ell = \alpha_t \, e^\gamma \, c \qquad c = -y \log p - (1 - y) \log(1 - p) \qquad p = \mathrm{sigmoid}(x)

    e = y \, (1 - p) + (1 - y) \, p \qquad \alpha_t = \alpha \, y + (1 - \alpha) (1 - y)

    \frac{\partial L}{\partial x} = g \, \alpha_t \, e^\gamma \left((p - y) + \gamma \, c \, \frac{e'}{e}\right) \qquad
    e' = (1 - 2 y) \, p \, (1 - p)

A label is 0 or 1; a number between is taken as the formula says, as in torchvision.

Sources
-------
Lin, Goyal, Girshick, He, Dollar, "Focal Loss for Dense Object Detection" (2017), equations 1 to 5; torchvision's
``sigmoid_focal_loss``.

Notes
-----
Logarithms and errors are computed from the logits without a difference: loss and gradient keep their digits near 0,
and are finite until logit times head gradient comes near the largest number. Beyond that they may be NaN.

Work: forward reads logits and labels and writes the loss. Backward reads them and the head gradient, and writes the
gradient. No probabilities are stored.
"""
from __future__ import annotations

from ...backends.emitter import Array, call
from .contract import OP


def sigmoid_focal_loss(data: Array, label: Array, alpha: float = 0.25, gamma: float = 2.0,
                       ignore_label: int | None = None, name: str | None = None) -> Array:
    """Compute the focal loss of every element with its label.

    Examples
    --------
    >>> logits = mx.nd.array([4, 1, -1, -4])
    >>> label = mx.nd.array([1, 1, 0, 0])
    >>> print(gops.ops.sigmoid_focal_loss(logits, label).asnumpy().round(4))
    [0.     0.0057 0.017  0.    ]
    >>> print(gops.ops.sigmoid_focal_loss(logits, label, alpha=-1, gamma=0).asnumpy().round(4))
    [0.0181 0.3133 0.3133 0.0181]
    """
    return call(OP, data, label, alpha=alpha, gamma=gamma, ignore_label=ignore_label, name=name)
