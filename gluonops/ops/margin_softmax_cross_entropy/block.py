"""The loss ``gluonops.loss.MarginSoftmaxCELoss``."""
from __future__ import annotations

from collections.abc import Sequence

from .. import margin_softmax_cross_entropy as _margin_softmax_cross_entropy
from .._labels.block import LabelledLoss
from .contract import OP


class MarginSoftmaxCELoss(LabelledLoss):
    """Cross-entropy of scaled cosines, with a margin for the cosine of the label. Ignored rows count in the mean.

    The defaults are ArcFace's. ``m2=0, m3=0.35`` is CosFace. :class:`gluonops.nn.ArcFaceHead` computes the cosines as
    well.

    Inputs:
        - **sample_weight**: optional; broadcasts against ``pred`` with size 1 at the last axis.
    """

    _op, _function = OP, staticmethod(_margin_softmax_cross_entropy)

    def __init__(self, scale: float = 64.0, m1: float = 1.0, m2: float = 0.5, m3: float = 0.0,
                 easy_margin: bool = False, weight: float | None = None, batch_axis: int = 0, *,
                 ignore_label: int | None = None, class_weight: Sequence[float] | None = None, **kwargs):
        super().__init__(weight, batch_axis, scale=scale, m1=m1, m2=m2, m3=m3, easy_margin=easy_margin,
                         ignore_label=ignore_label, class_weight=class_weight, **kwargs)

    def _losses(self, F, pred, label):
        return F.expand_dims(super()._losses(F, pred, label), axis=-1)
