"""The loss ``gluonops.loss.SigmoidFocalLoss``."""
from __future__ import annotations

from ...core.block import OpLoss
from .. import sigmoid_focal_loss as _sigmoid_focal_loss
from .contract import OP


class SigmoidFocalLoss(OpLoss):
    """Focal loss of every element, fused with the sigmoid. Ignored elements count in the mean.

    :class:`gluonops.loss.FocalLoss` also takes class indices.
    """

    _op, _function = OP, staticmethod(_sigmoid_focal_loss)

    def __init__(self, alpha: float = 0.25, gamma: float = 2.0, weight: float | None = None, batch_axis: int = 0, *,
                 ignore_label: int | None = None, **kwargs):
        super().__init__(weight, batch_axis, alpha=alpha, gamma=gamma, ignore_label=ignore_label, **kwargs)
