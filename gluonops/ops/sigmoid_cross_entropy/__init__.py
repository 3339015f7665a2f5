"""sigmoid_cross_entropy: binary cross-entropy of every element, fused with the sigmoid.

With ``p = sigmoid(x)``, the label y and the weight w of positives, the loss of an element is ``-(w * y * log(p) + (1
- y) * log(1 - p))``. A label is a probability: 0, 1 or a number between. ``pos_weight`` has a weight for each class
along ``axis``, or a single one. It is part of the graph, and has no gradient. Nor has the label. The operator honours
the head gradient g. The gradient of the data is ``g * ((1 - y) * p - w * y * (1 - p))``.

Elements whose label is ``ignore_label`` have loss 0 and gradient 0. The logarithms are computed from the logits: loss
and gradient are finite for every finite logit, and keep their digits near 0. With an infinite logit, 0 * infinity
makes the loss NaN, as in PyTorch. float16 is computed in float32, except in a builtin graph of variables with unknown
types.

Work: forward reads logits and labels and writes the loss. Backward reads them and the head gradient, and writes the
gradient. No probabilities are stored.

Source: PyTorch's ``binary_cross_entropy_with_logits``, whose ``pos_weight`` this is.
"""
from __future__ import annotations

from collections.abc import Sequence

from ...core.backend import Array, call
from .contract import OP

__all__ = ["sigmoid_cross_entropy"]


def sigmoid_cross_entropy(data: Array, label: Array, axis: int = -1,
                          pos_weight: float | Sequence[float] | None = None, ignore_label: int | None = None,
                          name: str | None = None) -> Array:
    """Binary cross-entropy of every element with its label.

    Parameters
    ----------
    data : NDArray or Symbol
        Logits in any shape; float16, float32 or float64.
    label : NDArray or Symbol
        Probabilities from 0 to 1, in the shape and dtype of ``data``. They have no gradient.
    axis : int, default -1
        The axis of the classes, along which ``pos_weight`` varies.
    pos_weight : float, sequence of float or NDArray, optional
        The weight of positives, at least 0: one for each class, or a single one for all. The default is 1.
    ignore_label : int, optional
        Elements with this label have loss and gradient 0.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        The loss of every element, in the shape and dtype of ``data``.

    Raises
    ------
    OpError
        ``label`` has a wrong shape or dtype, or an attribute is out of range.
    """
    return call(OP, locals())
