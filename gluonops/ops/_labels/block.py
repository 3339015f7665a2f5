"""A loss that says what is wrong with its labels."""
from mxnet.gluon.loss import Loss
from mxnet.ndarray import NDArray

from ...core import labels


class LabelledLoss(Loss):
    """Checks the shapes of arrays before MXNet does, hybridized or not; and the labels, if label checks are on.

    A loss that derives from it sets ``_op``, ``_attrs``, ``_sparse`` and ``_from_logits``.
    """

    def forward(self, pred, label, *args):
        if isinstance(pred, NDArray) and isinstance(label, NDArray):
            self._check(pred, label)
        return super().forward(pred, label, *args)

    def _check(self, pred, label):
        if not self._sparse and pred.size != label.size:
            raise self._op.error(f"label has shape {label.shape} and sparse_label is False; expected probabilities in "
                                 f"the shape of pred, {pred.shape}", "Pass class indices with sparse_label=True")
        if self._sparse and not self._from_logits:
            self._op.validate(self._attrs, (pred.shape, label.shape), (pred.dtype, label.dtype))
            labels.check_call(self._op, self._attrs, {"data": pred, "label": label})
