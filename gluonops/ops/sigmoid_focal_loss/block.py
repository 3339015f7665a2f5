"""The loss ``gluonops.loss.SigmoidFocalLoss``."""
from ...backends.block import OpLoss
from .. import sigmoid_focal_loss as _sigmoid_focal_loss


class SigmoidFocalLoss(OpLoss, function=_sigmoid_focal_loss):
    """Focal loss of every element, fused with the sigmoid. Ignored elements count in the mean.

    :class:`gluonops.loss.FocalLoss` also takes class indices.
    """

    _keywords = ("ignore_label",)
