"""The loss ``gluonops.loss.SigmoidCELoss``."""
from ...backends.block import OpLoss
from .. import sigmoid_cross_entropy as _sigmoid_cross_entropy


class SigmoidCELoss(OpLoss, function=_sigmoid_cross_entropy):
    """Binary cross-entropy of every element, fused with the sigmoid. Ignored elements count in the mean."""

    _keywords = ("ignore_label",)
