"""The loss ``gluonops.loss.SoftmaxCELoss``."""
from __future__ import annotations

from collections.abc import Sequence

from mxnet.gluon.loss import _apply_weighting, _reshape_like

from .. import softmax_cross_entropy as _softmax_cross_entropy
from .._labels.block import LabelledLoss
from .._labels.reference import number_of_label
from .contract import OP

LOGITS_INSTEAD = "Pass logits, and leave from_logits out"


class SoftmaxCELoss(LabelledLoss, function=_softmax_cross_entropy):
    """Cross-entropy, fused with its softmax. It replaces ``gluon.loss.SoftmaxCrossEntropyLoss``.

    Ignored rows count in the mean, as with a ``sample_weight`` of 0.

    Parameters
    ----------
    from_logits : bool, default False
        Whether ``pred`` already holds log-probabilities (the name is MXNet's).
    weighted_mean : bool, default False
        Whether losses are divided by the weights of their labels' classes, instead of by their number, as PyTorch's
        ``reduction="mean"`` does: an ignored row has the weight 0, and a row without ``class_weight`` 1. The mean of
        the returned losses over a batch is then PyTorch's. Valid with class indices and logits.

    Inputs:
        - **sample_weight**: optional; broadcasts against ``pred`` with size 1 at ``axis``.
    """

    def __init__(self, axis: int = -1, sparse_label: bool = True, from_logits: bool = False,
                 weight: float | None = None, batch_axis: int = 0, *, smoothing: float = 0.0,
                 ignore_label: int | None = None, class_weight: Sequence[float] | None = None,
                 weighted_mean: bool = False, **kwargs):
        super().__init__(weight, batch_axis, axis=axis, sparse_label=sparse_label, smoothing=smoothing,
                         ignore_label=ignore_label, class_weight=class_weight, **kwargs)
        if from_logits and (smoothing or ignore_label is not None):
            raise OP.error(f"from_logits is True, smoothing is {smoothing} and ignore_label is {ignore_label}; "
                           "expected neither smoothing nor ignore_label with log probabilities", LOGITS_INSTEAD)
        if from_logits and class_weight is not None:
            raise OP.error("from_logits is True and class_weight is set; expected no class_weight with log "
                           "probabilities",
                           LOGITS_INSTEAD)
        if weighted_mean and (from_logits or not sparse_label):
            raise OP.error(f"weighted_mean is True, from_logits is {from_logits} and sparse_label is {sparse_label}; "
                           "expected logits and class indices with weighted_mean",
                           "Leave weighted_mean, from_logits and sparse_label out, and pass logits and class indices")
        self._weighted_mean = weighted_mean
        self._axis, self._sparse, self._from_logits = axis, sparse_label, from_logits

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        if not self._sparse:
            label = _reshape_like(F, label, pred)
        if not self._from_logits:
            rows = self._losses(F, pred, label)
            # gluon's loss has size 1 at the axis of the classes. sample_weight broadcasts against this shape.
            one_class = F.BlockGrad(F.slice_axis(pred, axis=self._axis, begin=0, end=1))
            loss = F.reshape_like(rows, one_class)
        elif self._sparse:
            loss = -F.pick(pred, label, axis=self._axis, keepdims=True)
        else:
            loss = -F.sum(pred * label, axis=self._axis, keepdims=True)
        loss = _apply_weighting(F, loss, self._weight, sample_weight)
        if not self._weighted_mean:
            return F.mean(loss, axis=self._batch_axis, exclude=True)
        weights = F.reshape_like(self._row_weights(F, pred, label), F.BlockGrad(loss))
        # This is the mean weight of a row, or 1 where no row counts and the loss is 0.
        mean_weight = F.mean(weights)
        mean_weight = F.where(mean_weight > 0, mean_weight, F.ones_like(mean_weight))
        return F.broadcast_div(F.mean(loss, axis=self._batch_axis, exclude=True), mean_weight)

    def _row_weights(self, F, pred, label):
        """Return the weight of each label's class, and 0 for an ignored one; without a gradient."""
        pred, label = F.BlockGrad(pred), F.BlockGrad(label)
        label = F.reshape_like(label, F.slice_axis(pred, axis=self._axis, begin=0, end=1))
        weights = number_of_label(F, pred, self._options["class_weight"] or (1.0,), self._axis, label)
        if self._options["ignore_label"] is None:
            return weights
        return F.where(label == self._options["ignore_label"], F.zeros_like(weights), weights)
