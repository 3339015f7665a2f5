"""dice_loss: 1 minus the Dice coefficient of a segmentation and its label, for each class of a sample.

With the softmax p of ``data`` along axis 1, and y that is 1 at the places of a class and 0 elsewhere, the loss of a
class is ``1 - (2 I + s) / (U + s)``, with ``I = sum(p * y)``, ``U = sum(p^2) + sum(y)`` and the constant s,
``smooth``. The sums are over the places of a sample. With ``squared=False`` it is ``U = sum(p) + sum(y)``. The loss of
a class does not grow with its area, so small things count as much as large ones. A class that a sample does not have
has a loss near 1 where it is predicted, and 0 where it is not. One logit x and its sigmoid are two classes with the
logits 0 and x. So :class:`gluonops.loss.DiceLoss` has ``activation="sigmoid"`` for masks that may overlap, of this
operator: it passes each mask as a sample of two classes. This takes twice the memory of the masks' logits.

With the head gradient g, the gradient of a probability is ``a = g * ((2 I + s) * 2 p / (U + s)^2 - 2 y / (U + s))``,
with 1 in place of 2 p if not squared, and that of the data ``p * (a - sum(a * p))``, where the sum is over the classes
of a place.

Places with ``ignore_label`` are in no sum, and their gradient is 0. A label is valid if it is a whole number from 0 to
C-1. An invalid label makes the losses and the gradients of its sample NaN. With ``GLUONOPS_CHECK_LABELS=1`` an OpError
names its position instead.

float16 is computed in float32, except in a builtin graph of variables with unknown types, up to 65,504 places. Forward
keeps two numbers for each class of a sample and two for each place as hidden outputs of the node. No probability is
stored.

Work, in bytes of the data: on a CPU forward reads 1, and backward reads 1 and writes 1. On a GPU forward reads 2, and
backward reads 2 and writes 1, if the cache does not hold what is read again.

Sources: Milletari, Navab and Ahmadi, "V-Net" (2016), section 3; MONAI's ``DiceLoss(softmax=True)`` with
``squared_pred``, which has ``squared=False`` as its default.
"""
from __future__ import annotations

from ...core.backend import Array, call
from .contract import OP

__all__ = ["dice_loss"]


def dice_loss(data: Array, label: Array, ignore_label: int | None = None, smooth: float = 1e-5, squared: bool = True,
              name: str | None = None) -> Array:
    """1 minus the Dice coefficient of each class of each sample.

    Parameters
    ----------
    data : NDArray or Symbol
        Logits, (batch, classes, ...); float16, float32 or float64.
    label : NDArray or Symbol
        Class indices in any float or integer dtype, (batch, ...).
    ignore_label : int, optional
        Places with this label do not count.
    smooth : float, default 1e-5
        What is added to the numerator and to the denominator, from 1e-7 to below 1e6.
    squared : bool, default True
        Whether the denominator has the squares of the probabilities, as in the paper.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        (batch, classes), the dtype of ``data``.

    Raises
    ------
    OpError
        ``label`` has a wrong shape, or an attribute is out of range.
    """
    return call(OP, locals())
