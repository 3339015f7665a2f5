r"""softmax_cross_entropy: the loss of every row, fused with its softmax.

Along ``axis``, with the softmax p, the loss of a row with the class k and the smoothing e is

.. math::

    \ell = (1 - e) \, s_k + \frac{e}{C} \sum_j s_j \qquad s_j = -\log p_j

Dense labels q (``sparse_label=False``, the shape of ``data``) are targets :math:`q'` for all classes. They have a
gradient as well:

.. math::

    \ell = \sum_j q'_j \, s_j \qquad q'_j = (1 - e) \, q_j + \frac{e}{C}

    \frac{\partial L}{\partial x_i} = g \, \Big(p_i \sum_j q'_j - q'_i\Big) \qquad
    \frac{\partial L}{\partial q_j} = g \, (1 - e) \, s_j

With class weights w the target of class j is multiplied by :math:`w_j`, as in PyTorch: :math:`\ell = \sum_j w_j \, q'_j
\, s_j`. They are numbers of the graph, not an input: they have no gradient and are saved with the graph.

If every row of a batch is ignored, the result is 0 and not NaN.

Sources
-------
Bridle (1990); label smoothing: Szegedy et al., "Rethinking the Inception architecture" (2015), section 7.

Notes
-----
The output is finite for logits up to 1e4 and beyond. Where float16 is not computed in float32, there are 65,504 classes
at most. Forward keeps two numbers per row for backward (the maximum and the logarithm of the sum), as hidden outputs of
the node.

Work: forward reads the logits once, for any number of classes, and writes three numbers per row. Backward reads the
logits once and writes their gradient. Dense labels are also read, once in forward and twice in backward, and their
gradient is written. On a GPU, several blocks share a row if there are few rows and they are longer than 8,192. The row
is still read once, except in the backward pass of dense labels, which reads it twice.
"""
from __future__ import annotations

from collections.abc import Sequence

from ...backends.emitter import Array, call
from .contract import OP


def softmax_cross_entropy(data: Array, label: Array, axis: int = -1, ignore_label: int | None = None,
                          smoothing: float = 0.0, sparse_label: bool = True,
                          class_weight: Sequence[float] | None = None, name: str | None = None) -> Array:
    """Compute the cross-entropy of every row with its label.

    Examples
    --------
    >>> logits = mx.nd.array([[1, 2, 0], [0, 0, 3], [5, 0, 0]])
    >>> label = mx.nd.array([1, 2, -1])
    >>> logits.attach_grad()
    >>> with mx.autograd.record():
    ...     loss = gops.ops.softmax_cross_entropy(logits, label, ignore_label=-1)
    >>> loss.backward()
    >>> print(loss.asnumpy().round(3))
    [0.408 0.095 0.   ]
    >>> print(logits.grad.asnumpy().round(3))
    [[ 0.245 -0.335  0.09 ]
     [ 0.045  0.045 -0.091]
     [ 0.     0.     0.   ]]
    """
    return call(OP, data, label, axis=axis, ignore_label=ignore_label, smoothing=smoothing, sparse_label=sparse_label,
                class_weight=class_weight, name=name)
