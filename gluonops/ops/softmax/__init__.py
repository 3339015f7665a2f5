"""softmax: probabilities along an axis, as an ordinary layer.

``y = exp((x - max) / T) / sum(exp((x - max) / T))`` along ``axis``, T the temperature; any rank, any axis. Gradient:
``(g - sum(g * y)) * y / T``: it honours the head gradient, unlike :func:`gluonops.ops.softmax_output`. Finite for every
finite input. float16 is computed in float32. A builtin graph of variables whose types it does not know, no parameter's
among them, computes it in float16, then divides by its own sum, because MXNet's softmax adds up in float16 and is off
by a factor of two at 4,096 equal classes.

Work: forward reads and writes every element once; a row of more than 8,192 classes (2,048 in float64) it reads twice,
with the maximum and the sum in one pass. Backward reads both its tensors and writes one. So 2 and 3 times the tensor's
bytes, and 3 and 5 for longer rows. Along an axis that is not the last, and from 16,384 rows up, four threads at most
share a row, and "longer" begins at 65 classes (33 in float64). On a GPU several blocks share a row where rows are few
and longer than 32,767: a second launch then reads the row anew, what fits into the GPU's cache from there.

Source: Bridle, "Probabilistic interpretation of feedforward classification network outputs" (1990); temperature:
Hinton, Vinyals and Dean, "Distilling the knowledge in a neural network" (2015).
"""
from ...core.backend import call
from .contract import OP

__all__ = ["softmax"]


def softmax(data, axis=-1, temperature=1.0, name=None):
    """Probabilities along an axis.

    Parameters
    ----------
    data : NDArray or Symbol
        Any shape; float16, float32 or float64.
    axis : int, default -1
        The classes.
    temperature : float, default 1.0
        Divides the logits; above 0.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        The shape and dtype of ``data``, from 0 to 1, summing to 1 along ``axis``.

    Raises
    ------
    OpError
        ``axis`` does not exist, ``temperature`` is not above 0, or the dtype is an integer.
    """
    return call(OP, locals())
