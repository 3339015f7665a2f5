"""The loss ``gluonops.loss.IoULoss``."""
from ...backends.block import OpLoss
from .. import iou_loss as _iou_loss


class IoULoss(OpLoss, function=_iou_loss):
    """1 minus the overlap of boxes and their ground truth.

    Inputs:
        - **sample_weight**: optional; it must broadcast against ``pred``, with size 1 at the last axis. It is 0 for a
          box without a ground truth.
    """

    def _losses(self, F, pred, label):
        return F.expand_dims(super()._losses(F, pred, label), axis=-1)
