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
    _keywords = ("ignore_label",)
