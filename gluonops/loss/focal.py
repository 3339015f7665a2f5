"""The loss ``gluonops.loss.FocalLoss``; a composition, without a kernel of its own."""
from __future__ import annotations

from mxnet.gluon.loss import Loss, _apply_weighting
from mxnet.ndarray import NDArray

from .. import ops
from ..core.contract import Attr, Bool, Choice, Float, Int, Optional, normalized_axis
from ..core.errors import OpError
from ..core.text import call_text

__all__ = ["FocalLoss"]

OPTIONS = (Attr("axis", Int(), None, ""), Attr("alpha", Optional(Float(low=0)), None, ""),
           Attr("gamma", Float(low=0), None, ""), Attr("sparse_label", Bool(), None, ""),
           Attr("from_logits", Bool(), None, ""), Attr("eps", Float(above=0), None, ""),
           Attr("size_average", Bool(), None, ""), Attr("activation", Choice("sigmoid", "softmax"), None, ""))
SMALLEST = 1e-7   # of 1 - p before it is raised to gamma; a power below 1 has no finite derivative at 0


class FocalLoss(Loss):
    """Cross-entropy with less weight on easy examples: ``-alpha_t * (1 - p_t)^gamma * log(p_t)``.

    With ``activation="sigmoid"``, as in the paper, every class is a binary classification of its own. For the class of
    the label p_t is ``sigmoid(pred)`` and alpha_t is `alpha`. For every other class p_t is ``1 - sigmoid(pred)`` and
    alpha_t is ``1 - alpha``. With ``"softmax"`` p_t is the probability of the label's class and alpha_t is `alpha`: one
    term for each label.

    Loss and gradient are finite for logits of any size: the loss is computed from logarithms of probabilities that the
    logits give directly, such as ``log(sigmoid(x)) = -log(1 + exp(-x))``. (In float16 with a softmax, while `gamma`
    times the spread of the logits is below 65504.)

    Source: Lin, Goyal, Girshick, He, Dollar, "Focal Loss for Dense Object Detection" (2017), equations 1 to 5. The
    arguments are named after gluoncv's ``FocalLoss``, whose `num_class` is not needed here.

    Parameters
    ----------
    axis : int, default -1
        The classes.
    alpha : float or None, default 0.25
        Weight of the positives, from 0; up to 1 with a sigmoid. None: no weighting.
    gamma : float, default 2
        From 0 (plain cross-entropy) up. The higher it is, the less weight easy examples get.
    sparse_label : bool, default True
        Whether `label` holds class indices. If not, it has the shape of `pred`. With a sigmoid it is 1 for positives
        and 0 for negatives; with a softmax it holds probabilities.
    from_logits : bool, default False
        Whether `pred` already holds probabilities (the name is gluoncv's); not with a softmax.
    batch_axis : int, default 0
        The axis that is not averaged over.
    weight : float, optional
        Multiplies the loss.
    eps : float, default 1e-12
        Lower bound of the probabilities; for `from_logits`.
    size_average : bool, default True
        Whether the loss of a sample is the mean of its terms, or their sum.
    activation : {'sigmoid', 'softmax'}, default 'sigmoid'

    Inputs:
        - **pred**: logits, or probabilities.
        - **label**: class indices, the shape of `pred` without `axis`; or the shape of `pred`. With a sigmoid an index
          that is no class, such as -1, is background: every class is a negative. With a softmax the loss is NaN there.
        - **sample_weight**: optional; broadcasts against the terms: the shape of `pred`, with a softmax 1 at `axis`.

    Outputs:
        - **loss**: (batch_size,).

    Raises
    ------
    OpError
        An argument is out of range.
    """

    def __init__(self, axis=-1, alpha=0.25, gamma=2.0, sparse_label=True, from_logits=False, batch_axis=0, weight=None,
                 *, eps=1e-12, size_average=True, activation="sigmoid", **kwargs):
        super().__init__(weight, batch_axis, **kwargs)
        given = {"axis": axis, "alpha": alpha, "gamma": gamma, "sparse_label": sparse_label, "eps": eps,
                 "from_logits": from_logits, "size_average": size_average, "activation": activation}
        for option in OPTIONS:
            setattr(self, f"_{option.name}", option.parse("FocalLoss", given[option.name]))
        if activation == "sigmoid" and alpha is not None and alpha > 1:
            raise OpError("FocalLoss", f"alpha is {alpha}; expected at most 1, the negatives weigh 1 - alpha",
                          "Pass another alpha, or None and a weight")
        if activation == "softmax" and from_logits:
            raise OpError("FocalLoss", "from_logits is True and activation is 'softmax'; expected logits",
                          "Pass what goes into the softmax")

    def forward(self, pred, label, *args):
        if isinstance(pred, NDArray) and isinstance(label, NDArray):
            axis = normalized_axis("FocalLoss", self._axis, pred.ndim, "pred")
            before, after = pred.shape[:axis], pred.shape[axis + 1:]
            allowed = [before + after, before + (1,) + after] if self._sparse_label else [pred.shape]
            if label.shape not in allowed:
                raise OpError("FocalLoss", f"label has shape {label.shape}; expected {allowed[0]} to match pred of "
                              f"shape {pred.shape}", "Reshape label, or see sparse_label and axis")
        return super().forward(pred, label, *args)

    def hybrid_forward(self, F, pred, label, sample_weight=None):
        terms = (self._softmax if self._activation == "softmax" else self._sigmoid)(F, pred, label)
        terms = _apply_weighting(F, terms, self._weight, sample_weight)
        return (F.mean if self._size_average else F.sum)(terms, axis=self._batch_axis, exclude=True)

    def _sigmoid(self, F, pred, label):
        """The terms, in the shape of `pred`."""
        positive = self._onehot(F, pred, label) if self._sparse_label else label
        if self._from_logits:
            right = F.where(positive, pred, 1 - pred)
            terms = self._power(F, 1 - right) * -F.log(F.maximum(right, self._eps))
        else:
            logit = F.where(positive, pred, -pred)   # of the right answer
            # (1 - p_t)^gamma from its logarithm: no power of 0, whose derivative may be infinite
            terms = F.exp(-self._gamma * _softplus(F, logit)) * _softplus(F, -logit)
        if self._alpha is None:
            return terms
        return terms * F.where(positive, F.ones_like(terms) * self._alpha, F.ones_like(terms) * (1 - self._alpha))

    def _softmax(self, F, pred, label):
        """The terms, in the shape of `pred` with one class in place of all."""
        nll = ops.softmax_cross_entropy(pred, label, axis=self._axis, sparse_label=self._sparse_label)
        wrong = -F.expm1(-nll)   # 1 - p_t
        terms = self._power(F, wrong) * nll
        if self._alpha is not None:
            terms = terms * self._alpha
        return F.reshape_like(terms, self._one_class(F, pred))

    def _onehot(self, F, pred, label):
        """1 at the label's class, in the shape of `pred`. The number of classes follows from `pred`."""
        label = F.cast(F.reshape_like(label, self._one_class(F, pred)), dtype="float64")   # holds every index exactly
        index = F.squeeze(F.contrib.index_array(F.BlockGrad(pred), axes=(self._axis,)), axis=-1)
        return F.broadcast_equal(F.cast(index, dtype="float64"), label)

    def _one_class(self, F, pred):
        return F.BlockGrad(F.slice_axis(pred, axis=self._axis, begin=0, end=1))

    def __repr__(self):
        options = {option.name: getattr(self, f"_{option.name}") for option in OPTIONS}
        return call_text(self, {**options, "weight": self._weight, "batch_axis": self._batch_axis})

    def _power(self, F, wrong):
        """``wrong ** gamma`` for probabilities, with a finite derivative at 0."""
        return F.maximum(wrong, SMALLEST) ** self._gamma


def _softplus(F, x):
    """``log(1 + exp(x))``, exact for any x, and so is its derivative: whichever MXNet takes for max(x, 0) at 0, it
    cancels out of the sum."""
    above = F.maximum(x, 0)
    return above + F.log1p(F.exp(x - 2 * above))
