"""center_loss: half the squared distance of every sample to the centre of its class.

With features x of shape (B, D), labels y of shape (B,) and centres c of shape (K, D) the loss of sample i is
``1/2 * sum_d (x_id - c_{y_i}d)^2``, shape (B,), 0 or more. It honours the head gradient g, and both gradients are the
formula's own: that of x_i is ``g_i * (x_i - c_{y_i})``, that of c_j is ``sum_i [y_i = j] g_i * (c_j - x_i)``, so 0 for
a class that the batch lacks.

The paper does not move the centres along this gradient. It takes ``c_j -= alpha * sum_i [y_i = j] (c_j - x_i) / (1 +
n_j)``, n_j the batch's samples of the class, whatever weight the loss has: :class:`gluonops.loss.CenterLoss` does that.
On several machines, ``loss.update(trainer)`` needs a Trainer with ``kvstore="dist_sync", update_on_kvstore=False``.
MXNet 1.9.1 has a race there, with any loss: a first step may overtake the broadcast of the weights, and gradients
arrive as weights. ``trainer._init_kvstore(); trainer._init_params(); mx.nd.waitall()`` before it keeps them in order.

In a Module, where one optimizer moves every argument, the centres follow the gradient: set ``lr_mult`` and ``wd_mult``
on their variable, or hold them with ``fixed_param_names``.

A label that is no class (not a whole number from 0 to K-1) makes its sample's loss and gradient NaN and moves no
centre; nothing is read or written elsewhere. With ``GLUONOPS_CHECK_LABELS=1`` an OpError names its
position instead: where the function or the loss is called with arrays, and in graphs of the custom and native backends.

Work: forward reads the features and as many rows of centres; backward reads both again and writes both gradients. On
a GPU backward looks through all labels for every centre.

float16 is computed in float32. Samples are added up in their order, so the same batch gives the same bits.

Source: Wen, Zhang, Li, Qiao, "A Discriminative Feature Learning Approach for Deep Face Recognition" (2016), equations
2 to 4.
"""
from ...core.backend import emit
from .contract import OP

__all__ = ["center_loss"]


def center_loss(data, label, centers, name=None):
    """Half the squared distance of every sample to the centre of its class.

    Parameters
    ----------
    data : NDArray or Symbol
        Features, (batch, features); float16, float32 or float64.
    label : NDArray or Symbol
        Class indices, (batch,), in any float or integer dtype.
    centers : NDArray or Symbol
        (classes, features), the dtype of ``data``. In a graph its variable needs a shape of its own,
        ``mx.sym.var("centers", shape=(10, 2))``: the number of classes does not follow from the data.
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
    return emit(OP, {"data": data, "label": label, "centers": centers}, {}, name)
