"""The loss ``gluonops.loss.DiceLoss``."""
from __future__ import annotations

from mxnet.gluon.loss import _apply_weighting

from ...core.text import call_text
from .. import dice_loss as _dice_loss
from .._labels.block import LabelledLoss
from .contract import OP


class DiceLoss(LabelledLoss):
    """1 minus the Dice coefficient of a segmentation and its label. See :func:`gluonops.ops.dice_loss`.

    Parameters
    ----------
    smooth : float, default 1e-5
        What is added to the numerator and to the denominator, from 1e-7 to below 1e6.
    squared : bool, default True
        Whether the denominator has the squares of the probabilities, as in the paper.
    ignore_label : int, optional
        Places with this label do not count.
    weight : float, optional
        Factor of the loss.

    Inputs:
        - **pred**: logits, (batch, classes, ...); float16, float32 or float64.
        - **label**: class indices in any float or integer dtype, (batch, ...).
        - **sample_weight**: optional; broadcasts against (batch, classes): (batch, 1), or (1, classes).

    Outputs:
        - **loss**: (batch,), the dtype of `pred`: the mean over the classes.

    Raises
    ------
    OpError
        An argument is out of range, or `label` has a wrong shape.
    """

    def __init__(self, smooth: float = 1e-5, squared: bool = True, ignore_label: int | None = None,
                 weight: float | None = None, **kwargs):
        super().__init__(weight, 0, **kwargs)
        self._options = {"smooth": smooth, "squared": squared, "ignore_label": ignore_label}
        self._op, self._attrs = OP, OP.parse(self._options)
        self._sparse, self._from_logits = True, False

    def __repr__(self):
        return call_text(self, {**self._options, "weight": self._weight})

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        loss = _apply_weighting(F, _dice_loss(pred, label, **self._options), self._weight, sample_weight)
        return F.mean(loss, axis=1)
