"""The base class of the losses of every element."""
from __future__ import annotations

from mxnet.gluon.loss import Loss, _apply_weighting

from ...core.text import call_text


class ElementLoss(Loss):
    """The mean of an operator's losses of every element of a sample.

    A subclass sets ``_op``, the :class:`gluonops.core.contract.Op`, and ``_function``, the operator's function.
    """

    def __init__(self, options: dict, weight: float | None, batch_axis: int, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._options = self._op.parse(options)._asdict()

    def __repr__(self):
        return call_text(self, {**self._options, "weight": self._weight, "batch_axis": self._batch_axis})

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        loss = self._function(pred, label, **self._options)
        loss = _apply_weighting(F, loss, self._weight, sample_weight)
        return F.mean(loss, axis=self._batch_axis, exclude=True)
