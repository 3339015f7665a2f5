"""The loss ``gluonops.loss.DistillationLoss``."""
from __future__ import annotations

from ...backends.block import OpLoss
from .. import distillation_loss as _distillation_loss


class DistillationLoss(OpLoss, function=_distillation_loss):
    """The divergence of a student's softmax from a teacher's, at a temperature.

    Inputs:
        - **sample_weight**: optional; it must broadcast against ``pred``, with size 1 at ``axis``.
    """

    def __init__(self, temperature: float = 4.0, axis: int = -1, weight: float | None = None, batch_axis: int = 0,
                 **kwargs):
        super().__init__(weight, batch_axis, axis=axis, temperature=temperature, **kwargs)

    def hybrid_forward(self, F, pred, teacher, sample_weight=None):
        return super().hybrid_forward(F, pred, teacher, sample_weight)

    def _losses(self, F, pred, label):
        return F.expand_dims(super()._losses(F, pred, label), axis=self._options["axis"])
