"""The loss ``gluonops.loss.SigmoidCELoss``."""
from __future__ import annotations

from collections.abc import Sequence

from mxnet.gluon.loss import Loss, _apply_weighting

from ...core.text import call_text
from .. import sigmoid_cross_entropy as _sigmoid_cross_entropy
from .contract import OP


class SigmoidCELoss(Loss):
    """Binary cross-entropy of every element, fused with the sigmoid. See :func:`gluonops.ops.sigmoid_cross_entropy`.

    Parameters
    ----------
    axis : int, default -1
        Axis of the classes, along which `pos_weight` varies.
    pos_weight : float or sequence of float, optional
        The weight of positives, at least 0: one for each class, or a single one for all. The default is 1.
    weight : float, optional
        Factor of the loss.
    batch_axis : int, default 0
        Axis of the samples. The loss is averaged over all other axes.
    ignore_label : int, optional
        Elements with this label have loss 0. They still count in the mean.

    Inputs:
        - **pred**: logits in any shape; float16, float32 or float64.
        - **label**: probabilities from 0 to 1, in the shape and dtype of `pred`. They have no gradient.
        - **sample_weight**: optional; broadcasts against `pred`.

    Outputs:
        - **loss**: (batch_size,), the dtype of `pred`.

    Raises
    ------
    OpError
        An argument is out of range, or `label` has a wrong shape.
    """

    def __init__(self, axis: int = -1, pos_weight: float | Sequence[float] | None = None,
                 weight: float | None = None, batch_axis: int = 0, *, ignore_label: int | None = None, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._options = OP.parse({"axis": axis, "pos_weight": pos_weight, "ignore_label": ignore_label})._asdict()

    def __repr__(self):
        return call_text(self, {**self._options, "weight": self._weight, "batch_axis": self._batch_axis})

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        loss = _sigmoid_cross_entropy(pred, label, **self._options)
        loss = _apply_weighting(F, loss, self._weight, sample_weight)
        return F.mean(loss, axis=self._batch_axis, exclude=True)
