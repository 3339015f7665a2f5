"""The loss ``gluonops.loss.SigmoidCELoss``."""
from __future__ import annotations

from collections.abc import Sequence

from .. import sigmoid_cross_entropy as _sigmoid_cross_entropy
from .._sigmoid.block import ElementLoss
from .contract import OP


class SigmoidCELoss(ElementLoss):
    """Binary cross-entropy of every element, fused with the sigmoid. See :func:`gluonops.ops.sigmoid_cross_entropy`.

    Parameters
    ----------
    axis : int, default -1
        Axis of the classes, along which `pos_weight` varies.
    pos_weight : float, sequence of float or NDArray, optional
        The weight of positives, at least 0: one for each class, or a single one for all. The default is 1.
    weight : float, optional
        Factor of the loss.
    batch_axis : int, default 0
        Axis of the samples. The loss is averaged over all other axes.
    ignore_label : int, optional
        Elements with this label have loss 0. They still count in the mean.

    Inputs:
        - **pred**: logits in any shape; float16, float32 or float64.
        - **label**: probabilities from 0 to 1, in the shape and dtype of `pred`. They have no gradient.
        - **sample_weight**: optional; broadcasts against `pred`.

    Outputs:
        - **loss**: (batch_size,), the dtype of `pred`.

    Raises
    ------
    OpError
        An argument is out of range, or `label` has a wrong shape.
    """

    _op, _function = OP, staticmethod(_sigmoid_cross_entropy)

    def __init__(self, axis: int = -1, pos_weight: float | Sequence[float] | None = None,
                 weight: float | None = None, batch_axis: int = 0, *, ignore_label: int | None = None, **kwargs):
        options = {"axis": axis, "pos_weight": pos_weight, "ignore_label": ignore_label}
        super().__init__(options, weight, batch_axis, **kwargs)
