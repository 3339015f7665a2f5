"""The loss ``gluonops.loss.SoftmaxFocalLoss``."""
from .. import softmax_focal_loss as _softmax_focal_loss
from .._labels.block import LabelledLoss


class SoftmaxFocalLoss(LabelledLoss, function=_softmax_focal_loss):
    """Cross-entropy with less weight on easy examples, fused with its softmax. Ignored rows count in the mean.

    Inputs:
        - **sample_weight**: optional; broadcasts against ``pred`` with size 1 at ``axis``.
    """

    def _losses(self, F, pred, label):
        rows = super()._losses(F, pred, label)
        # As in gluon's losses, sample_weight broadcasts against size 1 at the axis of the classes.
        one_class = F.BlockGrad(F.slice_axis(pred, axis=self._options["axis"], begin=0, end=1))
        return F.reshape_like(rows, one_class)
