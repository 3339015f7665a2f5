"""The loss ``gluonops.loss.SoftmaxCELoss``."""
from mxnet.gluon.loss import _apply_weighting, _reshape_like

from ...core.text import call_text
from .. import softmax_cross_entropy as _softmax_cross_entropy
from .._labels.block import LabelledLoss
from .contract import OP


class SoftmaxCELoss(LabelledLoss):
    """Softmax and cross-entropy in one: a drop-in for ``gluon.loss.SoftmaxCrossEntropyLoss``.
    See :func:`gluonops.ops.softmax_cross_entropy`.

    Parameters
    ----------
    axis : int, default -1
        The classes.
    sparse_label : bool, default True
        Whether `label` holds class indices; else probabilities in the shape of `pred`.
    from_logits : bool, default False
        Whether `pred` already holds log-probabilities (the name is MXNet's).
    weight : float, optional
        Multiplies the loss.
    batch_axis : int, default 0
        The axis that is not averaged over.
    smoothing : float, default 0.0
        Share of the label that is spread over all classes; from 0 up, below 1.
    ignore_label : int, optional
        Rows with this label have loss 0; they still count in the mean, as with `sample_weight` 0.

    Inputs:
        - **pred**: logits.
        - **label**: class indices, the shape of `pred` without `axis` or with 1 there; or probabilities.
        - **sample_weight**: optional; broadcasts against `pred` with 1 at `axis`.

    Outputs:
        - **loss**: (batch_size,), the mean over every other axis.
    """

    def __init__(self, axis=-1, sparse_label=True, from_logits=False, weight=None, batch_axis=0, *, smoothing=0.0,
                 ignore_label=None, **kwargs):
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
            # One class in place of all: the shape that gluon's loss weights and averages.
            loss = F.reshape_like(rows, F.BlockGrad(F.slice_axis(pred, axis=self._axis, begin=0, end=1)))
        elif self._sparse:
            loss = -F.pick(pred, label, axis=self._axis, keepdims=True)
        else:
            loss = -F.sum(pred * label, axis=self._axis, keepdims=True)
        return F.mean(_apply_weighting(F, loss, self._weight, sample_weight), axis=self._batch_axis, exclude=True)
