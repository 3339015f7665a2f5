"""The loss ``gluonops.loss.SigmoidFocalLoss``."""
from __future__ import annotations

from .. import sigmoid_focal_loss as _sigmoid_focal_loss
from .._sigmoid.block import ElementLoss
from .contract import OP


class SigmoidFocalLoss(ElementLoss):
    """Focal loss of every element, fused with the sigmoid. See :func:`gluonops.ops.sigmoid_focal_loss`.

    :class:`gluonops.loss.FocalLoss` also takes class indices.

    Parameters
    ----------
    alpha : float, default 0.25
        The weight of positives, at most 1. Negatives have the weight 1 - alpha. -1: no weights.
    gamma : float, default 2.0
        Exponent of the error, at least 0.
    weight : float, optional
        Factor of the loss.
    batch_axis : int, default 0
        Axis of the samples. The loss is averaged over all other axes.
    ignore_label : int, optional
        Elements with this label have loss 0. They still count in the mean.

    Inputs:
        - **pred**: logits in any shape; float16, float32 or float64.
        - **label**: 1 for positives and 0 for negatives, in the shape and dtype of `pred`. It has no gradient.
        - **sample_weight**: optional; broadcasts against `pred`.

    Outputs:
        - **loss**: (batch_size,), the dtype of `pred`.

    Raises
    ------
    OpError
        An argument is out of range, or `label` has a wrong shape.
    """

    _op, _function = OP, staticmethod(_sigmoid_focal_loss)

    def __init__(self, alpha: float = 0.25, gamma: float = 2.0, weight: float | None = None, batch_axis: int = 0, *,
                 ignore_label: int | None = None, **kwargs):
        options = {"alpha": alpha, "gamma": gamma, "ignore_label": ignore_label}
        super().__init__(options, weight, batch_axis, **kwargs)
