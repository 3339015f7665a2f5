r"""dice_loss: 1 minus the Dice coefficient of a segmentation and its label, for each class of a sample.

With the softmax p of ``data`` along axis 1, and y that is 1 at the pixels of a class and 0 elsewhere, the loss of a
class is

.. math::

    \ell = 1 - \frac{2 I + s}{U + s} \qquad I = \sum p \, y \qquad U = \sum p^2 + \sum y

with the constant s, ``smooth``. The sums are over the pixels of a sample. With ``squared=False``, p is not squared. The
loss of a class does not grow with its area, so small things count as much as large ones. A class that a sample does not
have has a loss near 1 where it is predicted, and 0 where it is not.

With the head gradient g, the gradients of a probability and of the data are

.. math::

    a = g \left( \frac{(2 I + s) \, 2 p}{(U + s)^2} - \frac{2 y}{U + s} \right) \qquad
    \frac{\partial L}{\partial x} = p \, \Big( a - \sum a \, p \Big)

with 1 for 2 p if not squared, and the last sum over the classes of a pixel.

Sources
-------
Milletari, Navab and Ahmadi, "V-Net" (2016), section 3; MONAI's ``DiceLoss(softmax=True)`` with ``squared_pred``, which
has ``squared=False`` as its default.

Notes
-----
One logit x and its sigmoid are two classes with the logits 0 and x. So :class:`gluonops.loss.DiceLoss` has
``activation="sigmoid"`` for masks that may overlap: it passes each mask as a sample of two classes to this operator.
This takes twice the memory of the masks' logits.

Where float16 is not computed in float32, there are 65,504 pixels at most. Forward keeps two numbers for each class of a
sample and two for each pixel as hidden outputs of the node. No probability is stored.

Work: forward reads the data once, and backward reads it once and writes its gradient. A GPU with a small cache reads
the data twice.
"""
from __future__ import annotations

from ...backends.emitter import Array, call
from .contract import OP


def dice_loss(data: Array, label: Array, ignore_label: int | None = None, smooth: float = 1e-5, squared: bool = True,
              name: str | None = None) -> Array:
    """Compute 1 minus the Dice coefficient of each class in each sample.

    Examples
    --------
    >>> logits = mx.nd.array([[[4, 4, -4, -4], [-4, -4, 4, 4]]])    # 2 classes at 4 pixels
    >>> label = mx.nd.array([[0, 0, 1, 0]])
    >>> print(gops.ops.dice_loss(logits, label).asnumpy().round(3))
    [[0.2   0.333]]
    >>> print(gops.ops.dice_loss(logits, label, ignore_label=1).asnumpy().round(3))
    [[0.2 1. ]]
    >>> print(gops.loss.DiceLoss()(logits, label).asnumpy().round(3))
    [0.267]
    """
    return call(OP, data, label, ignore_label=ignore_label, smooth=smooth, squared=squared, name=name)
