"""The loss ``gluonops.loss.IoULoss``."""
from __future__ import annotations

from ...core.block import OpLoss
from .. import iou_loss as _iou_loss
from .contract import OP


class IoULoss(OpLoss):
    """1 minus the overlap of boxes and their ground truth.

    Inputs:
        - **sample_weight**: optional; broadcasts against ``pred`` with size 1 at the last axis. 0 for a box without a
          ground truth.
    """

    _op, _function = OP, staticmethod(_iou_loss)

    def _losses(self, F, pred, label):
        return F.expand_dims(super()._losses(F, pred, label), axis=-1)
