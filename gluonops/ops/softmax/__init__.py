"""softmax: probabilities along an axis, as an ordinary layer.

``y = exp((x - max) / T) / sum(exp((x - max) / T))`` along ``axis``, with the temperature T. Any rank and any axis
work. The gradient is ``(g - sum(g * y)) * y / T``. It honours the head gradient g, unlike
:func:`gluonops.ops.softmax_output`. The output is finite for every finite input. float16 is computed in float32.
There is one exception: a builtin graph of variables with unknown types, and no parameter among them. It is computed
in float16, and the result is divided by its own sum. The reason is that MXNet's softmax sums in float16, and is wrong
by a factor of two at 4,096 equal classes.

Work: forward reads and writes every element once. It reads a row of more than 8,192 classes (2,048 in float64) twice.
The maximum and the sum are computed in one pass. Backward reads two tensors and writes one. This is 2 and 3 times the
tensor's bytes, and 3 and 5 times for longer rows. Along an axis that is not the last, with 16,384 rows or more, at
most four threads share a row, and "longer" begins at 65 classes (33 in float64). On a GPU, several blocks share a row
if there are few rows and the rows are longer than 32,767. A second launch then reads the row again. The part that
fits into the GPU's cache is read from there.

Source: Bridle, "Probabilistic interpretation of feedforward classification network outputs" (1990); temperature:
Hinton, Vinyals and Dean, "Distilling the knowledge in a neural network" (2015).
"""
from __future__ import annotations

from ...core.backend import Array, call
from .contract import OP

__all__ = ["softmax"]


def softmax(data: Array, axis: int = -1, temperature: float = 1.0, name: str | None = None) -> Array:
    """Probabilities along an axis.

    Parameters
    ----------
    data : NDArray or Symbol
        Any shape; float16, float32 or float64.
    axis : int, default -1
        The axis of the classes.
    temperature : float, default 1.0
        Divides the logits; above 0.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        The shape and dtype of ``data``. Values are from 0 to 1 and sum to 1 along ``axis``.

    Raises
    ------
    OpError
        ``axis`` does not exist, ``temperature`` is not above 0, or the dtype is an integer.
    """
    return call(OP, locals())
