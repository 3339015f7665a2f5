"""The loss ``gluonops.loss.LovaszSoftmaxLoss``."""
from __future__ import annotations

from collections.abc import Sequence

from mxnet.gluon.loss import _apply_weighting

from ...core.text import call_text
from .. import lovasz_softmax as _lovasz_softmax
from .._labels.block import LabelledLoss
from .contract import OP


class LovaszSoftmaxLoss(LabelledLoss):
    """The Jaccard index of a segmentation as a loss. See :func:`gluonops.ops.lovasz_softmax`.

    Parameters
    ----------
    per_sample : bool, default False
        Whether each sample has a loss of its own. If not, all samples have the loss of the whole batch.
    present_only : bool, default True
        Whether classes without a label do not count in the mean.
    ignore_label : int, optional
        Places with this label do not count.
    class_weight : sequence of float or NDArray, optional
        A weight for each class, at least 0, or a single one for all. The default is 1.
    weight : float, optional
        Factor of the loss.

    Inputs:
        - **pred**: logits, (batch, classes, ...); float16, float32 or float64.
        - **label**: class indices in any float or integer dtype, (batch, ...).
        - **sample_weight**: optional; (batch,).

    Outputs:
        - **loss**: (batch,), the dtype of `pred`.

    Raises
    ------
    OpError
        An argument is out of range, or `label` has a wrong shape.
    """

    def __init__(self, per_sample: bool = False, present_only: bool = True, ignore_label: int | None = None,
                 class_weight: Sequence[float] | None = None, weight: float | None = None, **kwargs):
        super().__init__(weight, 0, **kwargs)
        self._options = {"per_sample": per_sample, "present_only": present_only, "ignore_label": ignore_label,
                         "class_weight": class_weight}
        self._op, self._attrs = OP, OP.parse(self._options)
        self._options["class_weight"] = self._attrs.class_weight   # a tuple, which a cache takes as a key
        self._sparse, self._from_logits = True, False

    def __repr__(self):
        return call_text(self, {**self._options, "weight": self._weight})

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        return _apply_weighting(F, _lovasz_softmax(pred, label, **self._options), self._weight, sample_weight)
