"""The loss ``gluonops.loss.LovaszSoftmaxLoss``."""
from __future__ import annotations

from collections.abc import Sequence

from mxnet.gluon.loss import _apply_weighting

from .. import lovasz_softmax as _lovasz_softmax
from .._labels.block import LabelledLoss


class LovaszSoftmaxLoss(LabelledLoss, function=_lovasz_softmax):
    """The Jaccard index of a segmentation as a loss.

    Inputs:
        - **sample_weight**: optional, (batch,).
    """

    def __init__(self, per_sample: bool = False, present_only: bool = True, ignore_label: int | None = None,
                 class_weight: Sequence[float] | None = None, weight: float | None = None, **kwargs):
        super().__init__(weight, per_sample=per_sample, present_only=present_only, ignore_label=ignore_label,
                         class_weight=class_weight, **kwargs)

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        return _apply_weighting(F, self._losses(F, pred, label), self._weight, sample_weight)
