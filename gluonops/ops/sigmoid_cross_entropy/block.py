"""The loss ``gluonops.loss.SigmoidCELoss``."""
from __future__ import annotations

from collections.abc import Sequence

from ...core.block import OpLoss
from .. import sigmoid_cross_entropy as _sigmoid_cross_entropy
from .contract import OP


class SigmoidCELoss(OpLoss):
    """Binary cross-entropy of every element, fused with the sigmoid. Ignored elements count in the mean."""

    _op, _function = OP, staticmethod(_sigmoid_cross_entropy)

    def __init__(self, axis: int = -1, pos_weight: float | Sequence[float] | None = None,
                 weight: float | None = None, batch_axis: int = 0, *, ignore_label: int | None = None, **kwargs):
        super().__init__(weight, batch_axis, axis=axis, pos_weight=pos_weight, ignore_label=ignore_label, **kwargs)
