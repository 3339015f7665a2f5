"""The loss ``gluonops.loss.SoftmaxFocalLoss``."""
from __future__ import annotations

from .. import softmax_focal_loss as _softmax_focal_loss
from .._labels.block import LabelledLoss
from .contract import OP


class SoftmaxFocalLoss(LabelledLoss):
    """Cross-entropy with less weight on easy examples, fused with its softmax. Ignored rows count in the mean.

    Inputs:
        - **sample_weight**: optional; broadcasts against ``pred`` with size 1 at ``axis``.
    """

    _op, _function = OP, staticmethod(_softmax_focal_loss)

    def _losses(self, F, pred, label):
        rows = super()._losses(F, pred, label)
        # As in gluon's losses, sample_weight broadcasts against size 1 at the axis of the classes.
        one_class = F.BlockGrad(F.slice_axis(pred, axis=self._options["axis"], begin=0, end=1))
        return F.reshape_like(rows, one_class)
