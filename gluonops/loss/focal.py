"""The loss ``gluonops.loss.FocalLoss``, which has gluoncv's arguments for the operator ``sigmoid_focal_loss``."""
from __future__ import annotations

from mxnet.gluon.loss import Loss, _apply_weighting
from mxnet.ndarray import NDArray

from .. import ops
from ..backends.emitter import Array
from ..backends.layer import EitherModeBlock
from ..backends.printed import Printed
from ..contract.attributes import Bool, Float, Int, Optional, parsed
from ..contract.errors import OpError
from ..contract.shapes import normalized_axis
from ..ops.sigmoid_focal_loss.contract import OP

__all__ = ["FocalLoss"]

OPTIONS = {"axis": Int(), "alpha": Optional(Float(low=0)), "gamma": Float(low=0), "sparse_label": Bool(),
           "from_logits": Bool(), "eps": Float(above=0), "size_average": Bool()}
NO_WEIGHTS = -1   # the operator's alpha for it


class FocalLoss(Printed, EitherModeBlock, Loss):
    """Cross-entropy with less weight on easy examples, with the arguments of gluoncv's ``FocalLoss``.

    Each class is a separate binary classification, as in the paper. The loss of each is that of
    :func:`gluonops.ops.sigmoid_focal_loss`. :class:`gluonops.loss.SigmoidFocalLoss` takes labels in the shape of the
    prediction, and :class:`gluonops.loss.SoftmaxFocalLoss` is for classes of which one is right. gluoncv's `num_class`
    is not needed here.

    Parameters
    ----------
    axis : int, default -1
        Axis of the classes.
    alpha : float or None, default 0.25
        Weight of the positives, from 0 to 1. Negatives have the weight 1 - alpha. With None nothing is weighted.
    gamma : float, default 2
        Exponent, at least 0. 0 is the plain cross-entropy. A higher value gives less weight to easy examples.
    sparse_label : bool, default True
        Whether `label` holds class indices. If not, it has the shape of `pred`, 1 for positives and 0 for negatives.
    from_logits : bool, default False
        Whether `pred` already holds probabilities (the name is gluoncv's).
    batch_axis : int, default 0
        Axis of the samples. The loss is averaged over all other axes.
    weight : float, optional
        Factor of the loss.
    eps : float, default 1e-12
        Lower bound, above 0, of a probability p and of 1 - p. It is used with `from_logits` only.
    size_average : bool, default True
        Whether the loss of a sample is the mean of its terms, or their sum.

    Inputs:
        - **pred**: logits, or probabilities with `from_logits`; float16, float32 or float64.
        - **label**: class indices, with the shape of `pred` without `axis` or with size 1 there; any float or integer
          dtype. With ``sparse_label=False`` the shape and dtype of `pred`. An index that is not a class, such as -1,
          means background: every class is a negative.
        - **sample_weight**: optional; it must broadcast against `pred`.

    Outputs:
        - **loss**: (batch_size,), the dtype of `pred`.

    Raises
    ------
    OpError
        An argument is out of range, or the shape of `label` does not match `pred`.
    """

    def __init__(self, axis: int = -1, alpha: float | None = 0.25, gamma: float = 2.0, sparse_label: bool = True,
                 from_logits: bool = False, batch_axis: int = 0, weight: float | None = None, *, eps: float = 1e-12,
                 size_average: bool = True, **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        self._options = parsed("FocalLoss", OPTIONS, axis=axis, alpha=alpha, gamma=gamma, sparse_label=sparse_label,
                               from_logits=from_logits, eps=eps, size_average=size_average)
        self._focal = {"alpha": NO_WEIGHTS if alpha is None else alpha, "gamma": gamma}
        OP.parse(self._focal)

    def forward(self, pred: Array, label: Array, *args: Array) -> Array:
        if isinstance(pred, NDArray) and isinstance(label, NDArray):
            self._check_shapes(pred, label)
        return super().forward(pred, label, *args)

    def _check_shapes(self, pred, label):
        axis = normalized_axis("FocalLoss", self._options["axis"], pred.ndim, "pred")
        allowed = [pred.shape]
        if self._options["sparse_label"]:
            before, after = pred.shape[:axis], pred.shape[axis + 1:]
            allowed = [before + after, before + (1,) + after]
        if label.shape not in allowed:
            raise OpError("FocalLoss", f"label has shape {label.shape}; expected {allowed[0]} to match pred of "
                          f"shape {pred.shape}", "Reshape label, or set sparse_label or axis")

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        positive = self._onehot(F, pred, label) if self._options["sparse_label"] else label
        logits = self._logits(F, pred) if self._options["from_logits"] else pred
        terms = ops.sigmoid_focal_loss(logits, positive, **self._focal)
        terms = _apply_weighting(F, terms, self._weight, sample_weight)
        reduce = F.mean if self._options["size_average"] else F.sum
        return reduce(terms, axis=self._batch_axis, exclude=True)

    def _logits(self, F, probability):
        """Return the logits whose sigmoid gives these probabilities."""
        eps = self._options["eps"]
        return F.log(F.maximum(probability, eps)) - F.log(F.maximum(1 - probability, eps))

    def _onehot(self, F, pred, label):
        """Return 1 at the label's class and 0 elsewhere, in the shape and the dtype of `pred`."""
        pred = F.BlockGrad(pred)
        axis = self._options["axis"]
        label = F.reshape_like(label, F.slice_axis(pred, axis=axis, begin=0, end=1))
        label = F.cast(label, dtype="float64")   # float64 holds every index exactly
        index = F.squeeze(F.contrib.index_array(pred, axes=(axis,)), axis=-1)
        is_class = F.broadcast_equal(F.cast(index, dtype="float64"), label)
        return F.where(is_class, F.ones_like(pred), F.zeros_like(pred))
