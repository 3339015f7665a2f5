r"""distillation_loss: how far a student's softmax is from a teacher's, at a temperature.

With q the softmax of ``data / T`` along ``axis``, p that of ``teacher / T``, and the temperature T, the loss of a row
is :math:`T^2` times the Kullback-Leibler divergence:

.. math::

    \ell = T^2 \sum_j p_j \, (\log p_j - \log q_j) \qquad \frac{\partial L}{\partial x_j} = g \, T \, (q_j - p_j)

with the head gradient g. The teacher has no gradient, because it is the target.

Without the factor T^2 the gradient would shrink as 1 / T^2 while T grows. With it, the weight of this loss beside a
cross-entropy does not depend on T. The divergence and the cross-entropy of q with p, which the paper minimises, have
the same gradient. The divergence is 0 where the student agrees with its teacher.

Sources
-------
Hinton, Vinyals and Dean, "Distilling the knowledge in a neural network" (2015), sections 2 and 2.1. In torch:
``kl_div(log_softmax(data / T), log_softmax(teacher / T), log_target=True, reduction="none").sum(axis) * T ** 2``.

Notes
-----
The output is finite for logits up to 1e4 and beyond. Where float16 is not computed in float32, a gradient is NaN if
``g * T^2`` is above 65504. Forward keeps four numbers per row for backward, as hidden outputs of the node. No
probability is stored.

Work: forward reads the logits of student and teacher once. Backward reads them once and writes one gradient. On a CPU
this holds if a row fits into the cache. A GPU needs no cache for it.
"""
from __future__ import annotations

from ...backends.emitter import Array, call
from .contract import OP


def distillation_loss(data: Array, teacher: Array, axis: int = -1, temperature: float = 4.0,
                      name: str | None = None) -> Array:
    """Compute how far each row of a student is from its teacher's: the divergence times the squared temperature.

    Examples
    --------
    >>> teacher = mx.nd.array([[4, 1, 0], [0, 2, 1]])
    >>> student = mx.nd.array([[4, 1, 0], [2, 0, 0]])
    >>> student.attach_grad()
    >>> with mx.autograd.record():
    ...     loss = gops.ops.distillation_loss(student, teacher, temperature=2)
    >>> loss.backward()
    >>> print(loss.asnumpy().round(3))
    [0.   1.38]
    >>> print(student.grad.asnumpy().round(3))
    [[ 0.     0.     0.   ]
     [ 0.78  -0.589 -0.191]]
    """
    return call(OP, data, teacher, axis=axis, temperature=temperature, name=name)
