"""The loss ``gluonops.loss.IoULoss``."""
from __future__ import annotations

from mxnet.gluon.loss import Loss, _apply_weighting

from ...core.text import call_text
from .. import iou_loss as _iou_loss
from .contract import OP


class IoULoss(Loss):
    """1 minus the overlap of boxes and their ground truth. See :func:`gluonops.ops.iou_loss`.

    Parameters
    ----------
    kind : {'iou', 'giou', 'diou', 'ciou'}, default 'giou'
        The measure of the overlap.
    format : {'corner', 'center'}, default 'corner'
        What the four numbers of a box are: (xmin, ymin, xmax, ymax), or (centre x, centre y, width, height).
    weight : float, optional
        Factor of the loss.
    batch_axis : int, default 0
        Axis of the samples. The loss is averaged over all other axes.

    Inputs:
        - **pred**: boxes, (batch, ..., 4); float16, float32 or float64.
        - **label**: the ground truth of every box, in the shape and dtype of `pred`. It has no gradient.
        - **sample_weight**: optional; broadcasts against `pred` with size 1 at the last axis. 0 for a box without a
          ground truth.

    Outputs:
        - **loss**: (batch_size,), the dtype of `pred`.

    Raises
    ------
    OpError
        An argument is unknown, or `label` has a wrong shape.
    """

    def __init__(self, kind: str = "giou", format: str = "corner", weight: float | None = None,   # noqa: A002
                 batch_axis: int = 0, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._options = {"kind": kind, "format": format}
        OP.parse(self._options)

    def __repr__(self):
        return call_text(self, {**self._options, "weight": self._weight, "batch_axis": self._batch_axis})

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        loss = F.expand_dims(_iou_loss(pred, label, **self._options), axis=-1)
        loss = _apply_weighting(F, loss, self._weight, sample_weight)
        return F.mean(loss, axis=self._batch_axis, exclude=True)
