"""softmax_output: probabilities out, and the gradient of the cross-entropy in: the loss head for Module.

``output = softmax(data)`` along ``axis``. The gradient is ``(output - onehot(label)) * grad_scale / n`` whatever the
head gradient is; the label's is zero. n by ``normalization``: ``null`` 1; ``batch`` the size of the label's first
axis; ``valid`` the number of labels that are not ``ignore_label``, at least 1. Rows with ``ignore_label`` get gradient
0; ``ignore_label=None`` ignores nothing. With ``grad_req="add"`` it accumulates.

A label that is no class (not a whole number from 0 to C-1) makes its row's gradient NaN; with the environment
variable ``GLUONOPS_CHECK_LABELS=1`` an OpError names its position instead: where the function or the layer is called
with arrays, and in graphs of the custom and native backends.

Coming from ``mx.sym.SoftmaxOutput``: that one overwrites under ``grad_req="add"``; divides by the number of spatial
positions with ``multi_output=True`` even when normalization is ``null``; and in ``valid`` counts
``label != ignore_label`` even with ``use_ignore=False``. Exact replacements::

    SoftmaxOutput(x, y)                       -> softmax_output(x, y)
    SoftmaxOutput(x, y, multi_output=True)    -> softmax_output(x, y, axis=1, grad_scale=1 / positions)
    SoftmaxOutput(x, y, use_ignore=True, ignore_label=255, normalization="valid")
                                              -> softmax_output(x, y, ignore_label=255, normalization="valid")

with ``positions = label.size / batch``.

Work: forward 2 times the tensor's bytes, 3 beyond 8,192 classes (2,048 in float64), or beyond 64 (32) along an axis
that is not the last where there are 16,384 rows or more; backward 2 times, and the labels. With ``valid`` and an
``ignore_label`` the labels are counted first, in a launch of their own.

Source: Apache MXNet 1.9.1 ``src/operator/softmax_output-inl.h``.
"""
from ...core.backend import emit
from .contract import OP

__all__ = ["softmax_output"]


def softmax_output(data, label=None, axis=-1, ignore_label=None, normalization="null", grad_scale=1.0, name=None):
    """Softmax whose gradient is that of the cross-entropy with ``label``, for Module.

    Parameters
    ----------
    data : NDArray or Symbol
        Logits, at least two dimensions; float16, float32 or float64.
    label : NDArray or Symbol, optional
        Class indices, the shape of ``data`` without ``axis``; any float or integer dtype. Left out with a Symbol, it
        is the variable ``<name>_label``.
    axis : int, default -1
        The classes.
    ignore_label : int, optional
        Rows with this label get gradient 0.
    normalization : {'null', 'batch', 'valid'}, default 'null'
        What the gradient is divided by: 1, the batch size, the number of labels not ignored.
    grad_scale : float, default 1.0
        Multiplies the gradient.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        Probabilities, the shape and dtype of ``data``.

    Raises
    ------
    OpError
        ``label`` does not have the shape of ``data`` without ``axis``, or an attribute is out of range.
    """
    values = {"axis": axis, "ignore_label": ignore_label, "normalization": normalization, "grad_scale": grad_scale}
    return emit(OP, {"data": data, "label": label}, values, name)
