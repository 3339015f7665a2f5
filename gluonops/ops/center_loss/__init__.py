r"""center_loss: half the squared distance of every sample to the centre of its class.

The inputs are features x of shape (B, D), labels y of shape (B,) and centres c of shape (K, D). The loss of sample i
and the gradients are, with the head gradient g,

.. math::

    \ell_i = \frac{1}{2} \sum_d (x_{id} - c_{y_i d})^2

    \frac{\partial L}{\partial x_i} = g_i \, (x_i - c_{y_i}) \qquad
    \frac{\partial L}{\partial c_j} = \sum_{i:\, y_i = j} g_i \, (c_j - x_i)

The paper does not update the centres with this gradient. :class:`gluonops.loss.CenterLoss` updates them as the paper
does, where :math:`n_j` is the number of samples of the class in the batch and the weight of the loss has no influence:

.. math::

    c_j \leftarrow c_j - \alpha \, \frac{\sum_{i:\, y_i = j} (c_j - x_i)}{1 + n_j}

In a Module, one optimizer updates every argument, so the centres follow the gradient. Set ``lr_mult`` and ``wd_mult``
on their variable, or freeze them with ``fixed_param_names``.

Sources
-------
Wen, Zhang, Li, Qiao, "A Discriminative Feature Learning Approach for Deep Face Recognition" (2016), equations 2 to 4.

Notes
-----
On several machines, ``loss.update(trainer)`` needs a Trainer with ``kvstore="dist_sync", update_on_kvstore=False``.
MXNet 1.9.1 has a race condition there, with any loss: the first step can overtake the broadcast of the weights, and
gradients are then received as weights. To avoid it, call ``trainer._init_kvstore(); trainer._init_params();
mx.nd.waitall()`` before the first step.

An invalid label updates no centre.

Squares of differences must not overflow, nor sums of differences. Samples are summed in their order, so the same batch
gives the same bits.

Work: forward reads the features and as many rows of centres. Backward reads both again and writes both gradients. On
a GPU, the blocks of a class look for its samples among all labels.
"""
from __future__ import annotations

from ...backends.emitter import Array, call
from .contract import OP


def center_loss(data: Array, label: Array, centers: Array, name: str | None = None) -> Array:
    """Compute half the squared distance of every sample from the centre of its class.

    Examples
    --------
    >>> features = mx.nd.array([[1, 0], [3, 4]])
    >>> label, centers = mx.nd.array([0, 1]), mx.nd.array([[0, 0], [3, 0]])
    >>> features.attach_grad()
    >>> with mx.autograd.record():
    ...     loss = gops.ops.center_loss(features, label, centers)
    >>> loss.backward()
    >>> print(loss.asnumpy())
    [0.5 8. ]
    >>> print(features.grad.asnumpy())
    [[1. 0.]
     [0. 4.]]
    """
    return call(OP, data, label, centers, name=name)
