"""The loss ``gluonops.loss.SigmoidCELoss``."""
from __future__ import annotations

from ...core.block import OpLoss
from .. import sigmoid_cross_entropy as _sigmoid_cross_entropy
from .contract import OP


class SigmoidCELoss(OpLoss):
    """Binary cross-entropy of every element, fused with the sigmoid. Ignored elements count in the mean."""

    _op, _function = OP, staticmethod(_sigmoid_cross_entropy)
    _keywords = ("ignore_label",)
