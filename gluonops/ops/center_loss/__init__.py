"""center_loss: half the squared distance of every sample to the centre of its class.

The inputs are features x of shape (B, D), labels y of shape (B,) and centres c of shape (K, D). The loss of sample i
is ``1/2 * sum_d (x_id - c_{y_i}d)^2``, shape (B,), 0 or more. The operator honours the head gradient g. Both
gradients are the exact derivatives: the gradient of x_i is ``g_i * (x_i - c_{y_i})``, and that of c_j is ``sum_i [y_i
= j] g_i * (c_j - x_i)``. It is 0 for a class without samples in the batch.

The paper does not update the centres with this gradient. It uses ``c_j -= alpha * sum_i [y_i = j] (c_j - x_i) / (1 +
n_j)``, where n_j is the number of samples of the class in the batch. The weight of the loss has no influence.
:class:`gluonops.loss.CenterLoss` does this. On several machines, ``loss.update(trainer)`` needs a Trainer with
``kvstore="dist_sync", update_on_kvstore=False``. MXNet 1.9.1 has a race condition there, with any loss: the first step
can overtake the broadcast of the weights, and gradients are then received as weights. To avoid it, call
``trainer._init_kvstore(); trainer._init_params(); mx.nd.waitall()`` before the first step.

In a Module, one optimizer updates every argument, so the centres follow the gradient. Set ``lr_mult`` and ``wd_mult``
on their variable, or freeze them with ``fixed_param_names``.

A label is valid if it is a whole number from 0 to K-1. An invalid label makes the loss and the gradient of its sample
NaN, and updates no centre. It causes no read or write outside the tensors. With ``GLUONOPS_CHECK_LABELS=1`` an
OpError names its position instead: if you call the function or the loss with arrays, and in graphs of the custom and
native backends.

Work: forward reads the features and as many rows of centres. Backward reads both again and writes both gradients. On
a GPU, backward first sorts the samples by class, in chunks of 256.

Squares of differences must not overflow, nor sums of differences. float16 is computed in float32. Samples are summed
in their order, so the same batch gives the same bits.

Source: Wen, Zhang, Li, Qiao, "A Discriminative Feature Learning Approach for Deep Face Recognition" (2016), equations
2 to 4.
"""
from __future__ import annotations

from ...core.backend import Array, call
from .contract import OP

__all__ = ["center_loss"]


def center_loss(data: Array, label: Array, centers: Array, name: str | None = None) -> Array:
    """Half the squared distance of every sample to the centre of its class.

    Parameters
    ----------
    data : NDArray or Symbol
        Features, (batch, features); float16, float32 or float64.
    label : NDArray or Symbol
        Class indices, (batch,), in any float or integer dtype.
    centers : NDArray or Symbol
        (classes, features), the dtype of ``data``. In a graph its variable needs an explicit shape, such as
        ``mx.sym.var("centers", shape=(10, 2))``, because the number of classes does not follow from the data.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        The loss of every sample, (batch,); the dtype of ``data``.

    Raises
    ------
    OpError
        A shape or dtype does not fit.
    """
    return call(OP, locals())
