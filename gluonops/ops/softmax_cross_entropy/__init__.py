"""softmax_cross_entropy: the loss of every row, fused with its softmax.

With ``s_j = max + log(sum(exp(x - max))) - x_j`` along ``axis``, the loss of a row with class k is ``s_k``; with
smoothing e it is ``(1 - e) * s_k + e * mean_j(s_j)``. With dense labels q (``sparse_label=False``, the shape of
``data``) it is ``sum_j(q'_j * s_j)`` with ``q' = (1 - e) * q + e / C``. It honours the head gradient g: the gradient
of the data is ``g * (p * sum(q') - q')``, p the softmax; dense labels get one as well, ``g * (1 - e) * s``.

Rows with ``ignore_label`` have loss 0 and gradient 0, so a batch in which every row is ignored is 0 and not NaN. A
label that is no class (not a whole number from 0 to C-1) makes its row's loss and gradient NaN; with
``GLUONOPS_CHECK_LABELS=1`` an OpError names its position instead: where the function or the loss is called with
arrays, and in graphs of the custom and native backends.

Finite for logits up to 1e4 and beyond. float16 is computed in float32; but in float16, up to 65,504 classes, by a
builtin graph of variables whose types it does not know, no parameter's among them.
Forward keeps two numbers per row for backward (the maximum and the logarithm of the sum), as hidden outputs of the
node.

Work: forward reads the logits once, however many classes, and writes three numbers per row; backward reads and writes
them once. Dense labels are read with them in forward and twice in backward, and their gradient is written. On a GPU
several blocks share a row where rows are few and longer than 32,767; it is still read once.

Sources: Bridle (1990); label smoothing: Szegedy et al., "Rethinking the Inception architecture" (2015), section 7.
"""
from ...core.backend import emit
from .contract import OP

__all__ = ["softmax_cross_entropy"]


def softmax_cross_entropy(data, label, axis=-1, ignore_label=None, smoothing=0.0, sparse_label=True, name=None):
    """Cross-entropy of every row with its label.

    Parameters
    ----------
    data : NDArray or Symbol
        Logits, at least two dimensions; float16, float32 or float64.
    label : NDArray or Symbol
        Class indices in any float or integer dtype, the shape of ``data`` without ``axis`` or with 1 there; with
        ``sparse_label=False`` probabilities in the shape and dtype of ``data``.
    axis : int, default -1
        The classes.
    ignore_label : int, optional
        Rows with this label have loss and gradient 0. Goes with sparse labels only.
    smoothing : float, default 0.0
        From 0 up, below 1: the share of the label that is spread over all classes.
    sparse_label : bool, default True
        Whether ``label`` holds class indices.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        The loss of every row: the shape of a sparse label, or of ``data`` without ``axis``; the dtype of ``data``.

    Raises
    ------
    OpError
        ``label`` has another shape, or an attribute is out of range.
    """
    values = {"axis": axis, "ignore_label": ignore_label, "smoothing": smoothing, "sparse_label": sparse_label}
    return emit(OP, {"data": data, "label": label}, values, name)
