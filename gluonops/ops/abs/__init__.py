"""abs: the absolute value, element by element.

``output = |data|``; the gradient is ``output_grad * sign(data)``, 0 at 0 (as MXNet and PyTorch have it). Any number
of dimensions, no axes. Integers are taken as they are: the smallest int8, int32 or int64 has no absolute value
in its type and stays itself. A builtin graph of variables whose type it does not know takes int64 through float64:
exact up to 2**53.

Work, in bytes of the tensor: forward moves 2 (read, write), backward 3; one more where the request is to add.

Source: definition; the C++ tutorial's ``abs`` operator in Apache MXNet 1.9.1.
"""
from ...core.backend import call
from .contract import OP

__all__ = ["abs"]


def abs(data, name=None):   # pylint: disable=redefined-builtin
    """Absolute value of every element.

    Parameters
    ----------
    data : NDArray or Symbol
        Any shape; float16, float32, float64, uint8, int8, int32 or int64.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        The shape and dtype of ``data``. Gradient: ``output_grad * sign(data)``, 0 where ``data`` is 0.

    Raises
    ------
    OpError
        The dtype is not one of these.
    """
    return call(OP, locals())
