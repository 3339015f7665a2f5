"""The loss ``gluonops.loss.MarginSoftmaxCELoss``."""
from __future__ import annotations

from collections.abc import Sequence

from mxnet.gluon.loss import _apply_weighting

from ...core.text import call_text
from .. import margin_softmax_cross_entropy as _margin_softmax_cross_entropy
from .._labels.block import LabelledLoss
from .contract import OP


class MarginSoftmaxCELoss(LabelledLoss):
    """Cross-entropy of scaled cosines, with a margin for the cosine of the label.

    The defaults are ArcFace's. `m2=0, m3=0.35` is CosFace. :class:`gluonops.nn.ArcFaceHead` computes the cosines as
    well. See :func:`gluonops.ops.margin_softmax_cross_entropy`.

    Parameters
    ----------
    scale : float, default 64.0
        Factor of the cosines, above 0.
    m1 : float, default 1.0
        Factor of the label's angle, above 0 and below 16.
    m2 : float, default 0.5
        Added to the label's angle, in radians; at least 0 and below pi.
    m3 : float, default 0.0
        Subtracted from the label's cosine.
    easy_margin : bool, default False
        Whether labels with an angle above 90 degrees have no margin of the angle.
    weight : float, optional
        Factor of the loss.
    batch_axis : int, default 0
        Axis of the samples. The loss is averaged over all other axes.
    ignore_label : int, optional
        Rows with this label have loss 0. They still count in the mean, as with `sample_weight` 0.
    class_weight : sequence of float or NDArray, optional
        A weight for each class, at least 0, or a single one for all. The default is 1.

    Inputs:
        - **pred**: cosines, (batch, ..., classes); float16, float32 or float64.
        - **label**: class indices, (batch, ...), in any float or integer dtype.
        - **sample_weight**: optional; broadcasts against `pred` with size 1 at the last axis.

    Outputs:
        - **loss**: (batch_size,), the dtype of `pred`.

    Raises
    ------
    OpError
        An argument is out of range, or `label` has a wrong shape.
    """

    _sparse, _from_logits = True, False

    def __init__(self, scale: float = 64.0, m1: float = 1.0, m2: float = 0.5, m3: float = 0.0,
                 easy_margin: bool = False, weight: float | None = None, batch_axis: int = 0, *,
                 ignore_label: int | None = None, class_weight: Sequence[float] | None = None, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._options = {"scale": scale, "m1": m1, "m2": m2, "m3": m3, "easy_margin": easy_margin,
                         "ignore_label": ignore_label, "class_weight": class_weight}
        self._op, self._attrs = OP, OP.parse(self._options)
        self._options["class_weight"] = self._attrs.class_weight   # a tuple, which a cache takes as a key

    def __repr__(self):
        return call_text(self, {**self._options, "weight": self._weight, "batch_axis": self._batch_axis})

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        rows = _margin_softmax_cross_entropy(pred, label, **self._options)
        loss = _apply_weighting(F, F.expand_dims(rows, axis=-1), self._weight, sample_weight)
        return F.mean(loss, axis=self._batch_axis, exclude=True)
