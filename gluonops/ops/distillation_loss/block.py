"""The loss ``gluonops.loss.DistillationLoss``."""
from __future__ import annotations

from mxnet.gluon.loss import Loss, _apply_weighting

from ...core.text import call_text
from .. import distillation_loss as _distillation_loss
from .contract import OP


class DistillationLoss(Loss):
    """The divergence of a student's softmax from a teacher's, at a temperature.

    See :func:`gluonops.ops.distillation_loss`.

    Parameters
    ----------
    temperature : float, default 4.0
        Divides both logits; from 0.01 to below 256.
    axis : int, default -1
        Axis of the classes.
    weight : float, optional
        Factor of the loss.
    batch_axis : int, default 0
        Axis of the samples. The loss is averaged over all other axes.

    Inputs:
        - **pred**: the student's logits; float16, float32 or float64.
        - **teacher**: the teacher's logits, in the shape and dtype of `pred`. It has no gradient.
        - **sample_weight**: optional; broadcasts against `pred` with size 1 at `axis`.

    Outputs:
        - **loss**: (batch_size,), the dtype of `pred`.

    Raises
    ------
    OpError
        An argument is out of range, or `teacher` has a wrong shape.
    """

    def __init__(self, temperature: float = 4.0, axis: int = -1, weight: float | None = None, batch_axis: int = 0,
                 **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._options = {"axis": axis, "temperature": temperature}
        OP.parse(self._options)
        self._axis = axis

    def __repr__(self):
        return call_text(self, {**self._options, "weight": self._weight, "batch_axis": self._batch_axis})

    def hybrid_forward(self, F, pred, teacher, sample_weight=None):
        loss = F.expand_dims(_distillation_loss(pred, teacher, **self._options), axis=self._axis)
        loss = _apply_weighting(F, loss, self._weight, sample_weight)
        return F.mean(loss, axis=self._batch_axis, exclude=True)
