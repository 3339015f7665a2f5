"""The loss ``gluonops.loss.FocalLoss``. It consists of other operators and has no kernel of its own."""
from __future__ import annotations

from mxnet.gluon.loss import Loss, _apply_weighting
from mxnet.ndarray import NDArray

from .. import ops
from ..core.backend import Array
from ..core.contract import Attr, Bool, Choice, Float, Int, Optional, normalized_axis
from ..core.errors import OpError
from ..core.text import call_text

__all__ = ["FocalLoss"]

OPTIONS = (
    Attr("axis", Int(), -1, "axis of the classes"),
    Attr("alpha", Optional(Float(low=0)), 0.25, "weight of the positives"),
    Attr("gamma", Float(low=0), 2.0, "exponent of 1 - p"),
    Attr("sparse_label", Bool(), True, "whether label holds class indices"),
    Attr("from_logits", Bool(), False, "whether pred already holds probabilities"),
    Attr("eps", Float(above=0), 1e-12, "lower bound of the probabilities"),
    Attr("size_average", Bool(), True, "whether the terms are averaged or summed"),
    Attr("activation", Choice("sigmoid", "softmax"), "sigmoid", "function from logits to probabilities"),
)
MIN_BASE = 1e-7   # lower bound of 1 - p before the power gamma; a power below 1 has no finite derivative at 0


class FocalLoss(Loss):
    """Cross-entropy with less weight on easy examples: ``-alpha_t * (1 - p_t)^gamma * log(p_t)``.

    With ``activation="sigmoid"``, as in the paper, each class is a separate binary classification. For the class of
    the label, p_t is ``sigmoid(pred)`` and alpha_t is `alpha`. For every other class, p_t is ``1 - sigmoid(pred)`` and
    alpha_t is ``1 - alpha``. With ``activation="softmax"`` there is one term per label: p_t is the probability of the
    label's class, and alpha_t is `alpha`.

    Loss and gradient are finite for logits of any size. The logarithms of the probabilities are computed directly from
    the logits, for example ``log(sigmoid(x)) = -log(1 + exp(-x))``. In float16 with a softmax, `gamma` times the
    difference between the largest and the smallest logit must be below 65504.

    Source: Lin, Goyal, Girshick, He, Dollar, "Focal Loss for Dense Object Detection" (2017), equations 1 to 5. The
    arguments have the names of gluoncv's ``FocalLoss``. Its `num_class` is not needed here.

    Parameters
    ----------
    axis : int, default -1
        Axis of the classes.
    alpha : float or None, default 0.25
        Weight of the positives, at least 0. With a sigmoid it is at most 1. None: no weights.
    gamma : float, default 2
        Exponent, at least 0. 0 is the plain cross-entropy. A higher value gives less weight to easy examples.
    sparse_label : bool, default True
        Whether `label` holds class indices. If not, it has the shape of `pred`. With a sigmoid it is 1 for positives
        and 0 for negatives. With a softmax it holds probabilities.
    from_logits : bool, default False
        Whether `pred` already holds probabilities (the name is gluoncv's). Valid with a sigmoid only.
    batch_axis : int, default 0
        Axis of the samples. The loss is averaged over all other axes.
    weight : float, optional
        Factor of the loss.
    eps : float, default 1e-12
        Lower bound of the probabilities, above 0. Used with `from_logits`.
    size_average : bool, default True
        Whether the loss of a sample is the mean of its terms, or their sum.
    activation : {'sigmoid', 'softmax'}, default 'sigmoid'
        Function from logits to probabilities.

    Inputs:
        - **pred**: logits, or probabilities with `from_logits`; float16, float32 or float64.
        - **label**: class indices, with the shape of `pred` without `axis` or with size 1 there; any float or integer
          dtype. With ``sparse_label=False`` the shape of `pred`. An index that is not a class, such as -1, means
          background with a sigmoid: every class is a negative. With a softmax the loss is NaN there.
        - **sample_weight**: optional; broadcasts against the terms. The terms have the shape of `pred`, with size 1 at
          `axis` for a softmax.

    Outputs:
        - **loss**: (batch_size,), the dtype of `pred`.

    Raises
    ------
    OpError
        An argument is out of range, or the shape of `label` does not match `pred`.
    """

    def __init__(self, axis: int = -1, alpha: float | None = 0.25, gamma: float = 2.0, sparse_label: bool = True,
                 from_logits: bool = False, batch_axis: int = 0, weight: float | None = None, *, eps: float = 1e-12,
                 size_average: bool = True, activation: str = "sigmoid", **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        given = {"axis": axis, "alpha": alpha, "gamma": gamma, "sparse_label": sparse_label, "eps": eps,
                 "from_logits": from_logits, "size_average": size_average, "activation": activation}
        for option in OPTIONS:
            setattr(self, f"_{option.name}", option.parse("FocalLoss", given[option.name]))
        if activation == "sigmoid" and alpha is not None and alpha > 1:
            raise OpError("FocalLoss", f"alpha is {alpha}; expected at most 1, because the weight of the negatives is "
                          "1 - alpha", "Pass another alpha, or None and a weight")
        if activation == "softmax" and from_logits:
            raise OpError("FocalLoss", "from_logits is True and activation is 'softmax'; expected logits",
                          "Pass the input of the softmax")

    def forward(self, pred: Array, label: Array, *args: Array) -> Array:
        if isinstance(pred, NDArray) and isinstance(label, NDArray):
            self._check_shapes(pred, label)
        return super().forward(pred, label, *args)

    def _check_shapes(self, pred, label):
        axis = normalized_axis("FocalLoss", self._axis, pred.ndim, "pred")
        allowed = [pred.shape]
        if self._sparse_label:
            before, after = pred.shape[:axis], pred.shape[axis + 1:]
            allowed = [before + after, before + (1,) + after]
        if label.shape not in allowed:
            raise OpError("FocalLoss", f"label has shape {label.shape}; expected {allowed[0]} to match pred of "
                          f"shape {pred.shape}", "Reshape label, or set sparse_label or axis")

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        compute_terms = self._softmax_terms if self._activation == "softmax" else self._sigmoid_terms
        terms = compute_terms(F, pred, label)
        terms = _apply_weighting(F, terms, self._weight, sample_weight)

        reduce = F.mean if self._size_average else F.sum
        return reduce(terms, axis=self._batch_axis, exclude=True)

    def _sigmoid_terms(self, F, pred, label):
        """The terms, in the shape of `pred`."""
        positive = self._onehot(F, pred, label) if self._sparse_label else label
        if self._from_logits:
            p_t = F.where(positive, pred, 1 - pred)
            terms = self._power(F, 1 - p_t) * -F.log(F.maximum(p_t, self._eps))
        else:
            logit = F.where(positive, pred, -pred)   # p_t = sigmoid(logit)
            # (1 - p_t)^gamma is computed from its logarithm. A power of 0 could have an infinite derivative.
            terms = F.exp(-self._gamma * _softplus(F, logit)) * _softplus(F, -logit)

        if self._alpha is None:
            return terms
        one = F.ones_like(terms)
        return terms * F.where(positive, one * self._alpha, one * (1 - self._alpha))

    def _softmax_terms(self, F, pred, label):
        """The terms, in the shape of `pred` with size 1 at the axis."""
        nll = ops.softmax_cross_entropy(pred, label, axis=self._axis, sparse_label=self._sparse_label)
        error = -F.expm1(-nll)   # 1 - p_t
        terms = self._power(F, error) * nll
        if self._alpha is not None:
            terms = terms * self._alpha
        return F.reshape_like(terms, self._one_class(F, pred))

    def _onehot(self, F, pred, label):
        """1 at the label's class and 0 elsewhere, in the shape of `pred`. `pred` gives the number of classes."""
        label = F.reshape_like(label, self._one_class(F, pred))
        label = F.cast(label, dtype="float64")   # float64 holds every index exactly
        index = F.squeeze(F.contrib.index_array(F.BlockGrad(pred), axes=(self._axis,)), axis=-1)
        return F.broadcast_equal(F.cast(index, dtype="float64"), label)

    def _one_class(self, F, pred):
        """A tensor in the keepdims shape of `pred`, without a gradient."""
        return F.BlockGrad(F.slice_axis(pred, axis=self._axis, begin=0, end=1))

    def __repr__(self):
        options = {option.name: getattr(self, f"_{option.name}") for option in OPTIONS}
        return call_text(self, {**options, "weight": self._weight, "batch_axis": self._batch_axis})

    def _power(self, F, error):
        """``error ** gamma`` of probabilities, with a finite derivative at 0."""
        return F.maximum(error, MIN_BASE) ** self._gamma


def _softplus(F, x):
    """``log(1 + exp(x))``, exact for any x. So is its derivative: MXNet's derivative of max(x, 0) at 0 cancels out."""
    positive_part = F.maximum(x, 0)
    return positive_part + F.log1p(F.exp(x - 2 * positive_part))
