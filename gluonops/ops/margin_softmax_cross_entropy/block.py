"""The loss ``gluonops.loss.MarginSoftmaxCELoss``."""
from .. import margin_softmax_cross_entropy as _margin_softmax_cross_entropy
from .._labels.block import LabelledLoss


class MarginSoftmaxCELoss(LabelledLoss, function=_margin_softmax_cross_entropy):
    """Cross-entropy of scaled cosines, with a margin for the cosine of the label. Ignored rows count in the mean.

    The defaults are ArcFace's. ``m2=0, m3=0.35`` is CosFace. :class:`gluonops.nn.ArcFaceHead` computes the cosines as
    well.

    Inputs:
        - **sample_weight**: optional; it must broadcast against ``pred``, with size 1 at the last axis.
    """

    def _losses(self, F, pred, label):
        return F.expand_dims(super()._losses(F, pred, label), axis=-1)
