"""softmax_output: the loss head for Module. It outputs probabilities and has the gradient of the cross-entropy.

``output = softmax(data)`` along ``axis``. The gradient is ``(output - onehot(label)) * grad_scale / n``. It ignores
the head gradient. The gradient of the label is zero. ``normalization`` selects n: ``null`` is 1, ``batch`` is the
size of the first axis of the label, and ``valid`` is the number of labels that are not ``ignore_label``, at least 1.
Rows with ``ignore_label`` have gradient 0. ``ignore_label=None`` ignores nothing. With ``grad_req="add"`` the
gradient accumulates.

A label is valid if it is a whole number from 0 to C-1. An invalid label makes the gradient of its row NaN. With the
environment variable ``GLUONOPS_CHECK_LABELS=1`` an OpError names its position instead: if you call the function or
the layer with arrays, and in graphs of the custom and native backends.

``mx.sym.SoftmaxOutput`` differs in three ways. It overwrites under ``grad_req="add"``. With ``multi_output=True`` it
divides by the number of spatial positions even if normalization is ``null``. In ``valid`` it counts
``label != ignore_label`` even with ``use_ignore=False``. Exact replacements::

    SoftmaxOutput(x, y)                       -> softmax_output(x, y)
    SoftmaxOutput(x, y, multi_output=True)    -> softmax_output(x, y, axis=1, grad_scale=1 / positions)
    SoftmaxOutput(x, y, use_ignore=True, ignore_label=255, normalization="valid")
                                              -> softmax_output(x, y, ignore_label=255, normalization="valid")

with ``positions = label.size / batch``.

Work: forward moves 2 times the tensor's bytes, with the exceptions of softmax. Backward moves 2 times the bytes, and
the labels. With ``valid`` and an ``ignore_label``, the labels are counted first, in a separate launch.

Source: Apache MXNet 1.9.1 ``src/operator/softmax_output-inl.h``.
"""
from __future__ import annotations

from ...core.backend import Array, call
from .contract import OP

__all__ = ["softmax_output"]


def softmax_output(data: Array, label: Array | None = None, axis: int = -1, ignore_label: int | None = None,
                   normalization: str = "null", grad_scale: float = 1.0, name: str | None = None) -> Array:
    """Softmax with the gradient of the cross-entropy with ``label``, for Module.

    Parameters
    ----------
    data : NDArray or Symbol
        Logits, at least two dimensions; float16, float32 or float64.
    label : NDArray or Symbol, optional
        Class indices, with the shape of ``data`` without ``axis``, in any float or integer dtype. For a Symbol the
        default is the variable ``<name>_label``.
    axis : int, default -1
        The axis of the classes.
    ignore_label : int, optional
        Rows with this label get gradient 0.
    normalization : {'null', 'batch', 'valid'}, default 'null'
        Divisor of the gradient: 1, the batch size, or the number of labels that are not ignored.
    grad_scale : float, default 1.0
        Multiplies the gradient.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        Probabilities, with the shape and dtype of ``data``.

    Raises
    ------
    OpError
        ``label`` does not have the shape of ``data`` without ``axis``, or an attribute is out of range.
    """
    return call(OP, locals())
