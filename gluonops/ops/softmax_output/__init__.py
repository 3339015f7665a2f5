r"""softmax_output: the loss head for Module. It outputs probabilities and has the gradient of the cross-entropy.

.. math::

    y = \mathrm{softmax}(x) \qquad
    \frac{\partial L}{\partial x_j} = \frac{\mathrm{grad\_scale}}{n} \, (y_j - [j = k])

along ``axis``, for a row with the class k. The head gradient is ignored. ``normalization`` selects n: ``null`` is 1,
``batch`` is the size of the first axis of the label, and ``valid`` is the number of labels that are not
``ignore_label``, at least 1. With ``grad_req="add"`` the gradient accumulates.

``mx.sym.SoftmaxOutput`` differs in three ways. It overwrites under ``grad_req="add"``. With ``multi_output=True`` it
divides by the number of spatial positions even if normalization is ``null``. In ``valid`` it counts
``label != ignore_label`` even with ``use_ignore=False``. Exact replacements::

    SoftmaxOutput(x, y)                       -> softmax_output(x, y)
    SoftmaxOutput(x, y, multi_output=True)    -> softmax_output(x, y, axis=1, grad_scale=1 / positions)
    SoftmaxOutput(x, y, use_ignore=True, ignore_label=255, normalization="valid")
                                              -> softmax_output(x, y, ignore_label=255, normalization="valid")

with ``positions = label.size / batch``.

Sources
-------
Apache MXNet 1.9.1 ``src/operator/softmax_output-inl.h``.

Notes
-----
Work: forward reads and writes every element once, with the exceptions that the notes of softmax name. Backward reads
the output and the labels, and writes the gradient. With ``valid`` and an ``ignore_label``, the labels are counted
first, in a separate launch.
"""
from __future__ import annotations

from ...backends.emitter import Array, call
from .contract import OP


def softmax_output(data: Array, label: Array | None = None, axis: int = -1, ignore_label: int | None = None,
                   normalization: str = "null", grad_scale: float = 1.0, name: str | None = None) -> Array:
    """Compute a softmax whose gradient is that of the cross-entropy with ``label``, for Module.

    For a Symbol the default of ``label`` is the variable ``<name>_label``.

    Examples
    --------
    >>> logits = mx.nd.array([[1, 2, 0], [0, 0, 3]])
    >>> logits.attach_grad()
    >>> with mx.autograd.record():
    ...     output = gops.ops.softmax_output(logits, mx.nd.array([1, 2]), normalization="batch")
    >>> output.backward()
    >>> print(output.asnumpy().round(3))
    [[0.245 0.665 0.09 ]
     [0.045 0.045 0.909]]
    >>> print(logits.grad.asnumpy().round(3))
    [[ 0.122 -0.167  0.045]
     [ 0.023  0.023 -0.045]]
    """
    return call(OP, data, label, axis=axis, ignore_label=ignore_label, normalization=normalization,
                grad_scale=grad_scale, name=name)
