"""The loss ``gluonops.loss.SoftmaxFocalLoss``."""
from __future__ import annotations

from collections.abc import Sequence

from mxnet.gluon.loss import _apply_weighting

from ...core.text import call_text
from .. import softmax_focal_loss as _softmax_focal_loss
from .._labels.block import LabelledLoss
from .contract import OP


class SoftmaxFocalLoss(LabelledLoss):
    """Cross-entropy with less weight on easy examples, fused with its softmax.

    See :func:`gluonops.ops.softmax_focal_loss`.

    Parameters
    ----------
    axis : int, default -1
        Axis of the classes.
    gamma : float, default 2.0
        Exponent of 1 - p, at least 0. 0 is the cross-entropy.
    alpha : float, sequence of float or NDArray, optional
        A weight for each class, at least 0, or a single one for all. The default is 1.
    weight : float, optional
        Factor of the loss.
    batch_axis : int, default 0
        Axis of the samples. The loss is averaged over all other axes.
    ignore_label : int, optional
        Rows with this label have loss 0. They still count in the mean.

    Inputs:
        - **pred**: logits; float16, float32 or float64.
        - **label**: class indices in any float or integer dtype, with the shape of `pred` without `axis`, or with
          size 1 there.
        - **sample_weight**: optional; broadcasts against `pred` with size 1 at `axis`.

    Outputs:
        - **loss**: (batch_size,), the dtype of `pred`.

    Raises
    ------
    OpError
        An argument is out of range, or `label` has a wrong shape.
    """

    _sparse, _from_logits = True, False

    def __init__(self, axis: int = -1, gamma: float = 2.0, alpha: float | Sequence[float] | None = None,
                 weight: float | None = None, batch_axis: int = 0, *, ignore_label: int | None = None, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._op = OP
        self._attrs = OP.parse({"axis": axis, "gamma": gamma, "alpha": alpha, "ignore_label": ignore_label})

    def __repr__(self):
        return call_text(self, {**self._attrs._asdict(), "weight": self._weight, "batch_axis": self._batch_axis})

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        rows = _softmax_focal_loss(pred, label, **self._attrs._asdict())
        # As in gluon's losses, sample_weight broadcasts against size 1 at the axis of the classes.
        one_class = F.BlockGrad(F.slice_axis(pred, axis=self._attrs.axis, begin=0, end=1))
        loss = F.reshape_like(rows, one_class)
        loss = _apply_weighting(F, loss, self._weight, sample_weight)
        return F.mean(loss, axis=self._batch_axis, exclude=True)
