"""The loss ``gluonops.loss.SoftmaxCELoss``."""
from __future__ import annotations

from mxnet.gluon.loss import _apply_weighting, _reshape_like

from ...core.text import call_text
from .. import softmax_cross_entropy as _softmax_cross_entropy
from .._labels.block import LabelledLoss
from .contract import OP


class SoftmaxCELoss(LabelledLoss):
    """Cross-entropy, fused with its softmax. It replaces ``gluon.loss.SoftmaxCrossEntropyLoss``.

    See :func:`gluonops.ops.softmax_cross_entropy`.

    Parameters
    ----------
    axis : int, default -1
        Axis of the classes.
    sparse_label : bool, default True
        True: `label` holds class indices. False: `label` holds probabilities in the shape of `pred`.
    from_logits : bool, default False
        Whether `pred` already holds log-probabilities (the name is MXNet's).
    weight : float, optional
        Factor of the loss.
    batch_axis : int, default 0
        Axis of the samples. The loss is averaged over all other axes.
    smoothing : float, default 0.0
        Share of the label that is distributed over all classes, at least 0 and below 1.
    ignore_label : int, optional
        Rows with this label have loss 0. They still count in the mean, as with `sample_weight` 0.

    Inputs:
        - **pred**: logits; float16, float32 or float64.
        - **label**: class indices in any float or integer dtype, with the shape of `pred` without `axis`, or with
          size 1 there; or probabilities in the shape and dtype of `pred`.
        - **sample_weight**: optional; broadcasts against `pred` with size 1 at `axis`.

    Outputs:
        - **loss**: (batch_size,), the dtype of `pred`.

    Raises
    ------
    OpError
        An argument is out of range, or `label` has a wrong shape.
    """

    def __init__(self, axis: int = -1, sparse_label: bool = True, from_logits: bool = False,
                 weight: float | None = None, batch_axis: int = 0, *, smoothing: float = 0.0,
                 ignore_label: int | None = None, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._options = {"axis": axis, "sparse_label": sparse_label, "smoothing": smoothing,
                         "ignore_label": ignore_label}
        self._op, self._attrs = OP, OP.parse(self._options)
        if from_logits and (smoothing or ignore_label is not None):
            raise OP.error(f"from_logits is True, smoothing {smoothing}, ignore_label {ignore_label}", "Pass logits")
        self._axis, self._sparse, self._from_logits = axis, sparse_label, from_logits

    def __repr__(self):
        return call_text(self, {**self._options, "from_logits": self._from_logits, "weight": self._weight,
                                "batch_axis": self._batch_axis})

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        if not self._sparse:
            label = _reshape_like(F, label, pred)
        if not self._from_logits:
            rows = _softmax_cross_entropy(pred, label, **self._options)
            # gluon's loss has size 1 at the axis of the classes. sample_weight broadcasts against this shape.
            one_class = F.BlockGrad(F.slice_axis(pred, axis=self._axis, begin=0, end=1))
            loss = F.reshape_like(rows, one_class)
        elif self._sparse:
            loss = -F.pick(pred, label, axis=self._axis, keepdims=True)
        else:
            loss = -F.sum(pred * label, axis=self._axis, keepdims=True)
        loss = _apply_weighting(F, loss, self._weight, sample_weight)
        return F.mean(loss, axis=self._batch_axis, exclude=True)
