"""The base class of losses that check their labels."""
from mxnet.ndarray import NDArray

from ...backends import label_checks
from ...backends.block import OpLoss
from ...backends.emitter import Array


class LabelledLoss(OpLoss):
    """A loss that checks shapes before MXNet does, and label values as :mod:`gluonops.backends.label_checks` says.

    The checks need NDArrays, and also run if the loss is hybridized.
    """

    _keywords = ("ignore_label", "class_weight")
    _sparse = True          # whether labels are class indices
    _from_logits = False    # whether the prediction already holds log-probabilities

    def forward(self, pred: Array, label: Array, *args: Array) -> Array:
        if isinstance(pred, NDArray) and isinstance(label, NDArray):
            self._check(pred, label)
        return super().forward(pred, label, *args)

    def _check(self, pred, label):
        if not self._sparse and pred.size != label.size:
            raise self._op.error(f"label has shape {label.shape} and sparse_label is False; expected probabilities in "
                                 f"the shape of pred, {pred.shape}", "Pass class indices with sparse_label=True")
        if self._sparse and not self._from_logits:
            self._op.validate(self._attrs, (pred, label))
            label_checks.check_call(self, self._op, self._attrs, {"data": pred, "label": label})
