"""softmax_cross_entropy: the loss of every row, fused with its softmax.

With ``s_j = max + log(sum(exp(x - max))) - x_j`` along ``axis``, the loss of a row with class k is ``s_k``. With
smoothing e it is ``(1 - e) * s_k + e * mean_j(s_j)``. With dense labels q (``sparse_label=False``, the shape of
``data``) it is ``sum_j(q'_j * s_j)`` with ``q' = (1 - e) * q + e / C``. The operator honours the head gradient g. The
gradient of the data is ``g * (p * sum(q') - q')`` with the softmax p. Dense labels have a gradient as well: ``g * (1
- e) * s``.

With class weights w the target of class j is multiplied by ``w_j``: the loss is ``(1 - e) * w_k * s_k + e *
mean_j(w_j * s_j)``, and ``sum_j(w_j * q'_j * s_j)`` with dense labels, as in PyTorch. They are numbers of the graph,
not an input: they have no gradient and are saved with the graph.

Rows with ``ignore_label`` have loss 0 and gradient 0. If every row of a batch is ignored, the result is 0 and not
NaN. A label is valid if it is a whole number from 0 to C-1. An invalid label makes the loss and the gradient of its
row NaN. With ``GLUONOPS_CHECK_LABELS=1`` an OpError names its position instead: if you call the function or the loss
with arrays, and in graphs of the custom and native backends.

The output is finite for logits up to 1e4 and beyond. float16 is computed in float32. There is one exception: a
builtin graph of variables with unknown types, and no parameter among them, is computed in float16, up to 65,504
classes. Forward keeps two numbers per row for backward (the maximum and the logarithm of the sum), as hidden outputs
of the node.

Work: forward reads the logits once, for any number of classes, and writes three numbers per row. Backward reads and
writes them once. Dense labels are also read: once in forward and twice in backward. Their gradient is written. On a
GPU, several blocks share a row if there are few rows and they are longer than 8,192. The row is still read once.

Sources: Bridle (1990); label smoothing: Szegedy et al., "Rethinking the Inception architecture" (2015), section 7.
"""
from __future__ import annotations

from collections.abc import Sequence

from ...core.backend import Array, call
from .contract import OP

__all__ = ["softmax_cross_entropy"]


def softmax_cross_entropy(data: Array, label: Array, axis: int = -1, ignore_label: int | None = None,
                          smoothing: float = 0.0, sparse_label: bool = True,
                          class_weight: Sequence[float] | None = None, name: str | None = None) -> Array:
    """Cross-entropy of every row with its label.

    Parameters
    ----------
    data : NDArray or Symbol
        Logits, at least two dimensions; float16, float32 or float64.
    label : NDArray or Symbol
        Class indices in any float or integer dtype, with the shape of ``data`` without ``axis``, or with size 1 there.
        With ``sparse_label=False``, probabilities in the shape and dtype of ``data``.
    axis : int, default -1
        The axis of the classes.
    ignore_label : int, optional
        Rows with this label have loss and gradient 0. Valid with sparse labels only.
    smoothing : float, default 0.0
        The share of the label that is distributed over all classes, at least 0 and below 1.
    sparse_label : bool, default True
        Whether ``label`` holds class indices.
    class_weight : sequence of float or NDArray, optional
        A weight for each class, at least 0, or a single one for all. The default is 1.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        The loss of every row: the shape of a sparse label, or of ``data`` without ``axis``. The dtype of ``data``.

    Raises
    ------
    OpError
        ``label`` has a wrong shape, or an attribute is out of range.
    """
    return call(OP, locals())
