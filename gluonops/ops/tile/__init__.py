"""tile: repeat a tensor along one axis or several.

``tiles`` an integer repeats ``axis``; ``tiles`` a tuple is ``numpy.tile``: one count per axis, counted from the last,
and whichever of ``data.shape`` and ``tiles`` is shorter is filled with ones in front. The gradient of an element is
the sum of the head gradients of its copies; float16 sums in float32.

Work: forward writes the output once and reads the data, on a GPU once for every 8 copies where the innermost run is
whole groups of 16 bytes (else once per copy, from the cache if the data fits); backward reads the output's gradient
and writes the data's once.

Sources: ``numpy.tile``; the NumpyOp tutorial.
"""
from ...core.backend import call
from .contract import OP

__all__ = ["tile"]


def tile(data, tiles, axis=-1, name=None):
    """Repeat a tensor.

    Parameters
    ----------
    data : NDArray or Symbol
        Any shape; float16, float32, float64, uint8, int8, int32 or int64.
    tiles : int or tuple of int
        How many times. An integer repeats ``axis``; a tuple repeats the last axes as ``numpy.tile`` does, so that
        ``()`` is a copy. At least 1.
    axis : int, default -1
        The axis that an integer repeats. Goes with an integer only.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        The shape of ``data`` with the repeated axes multiplied; the dtype of ``data``. Gradient: the sum over copies.

    Raises
    ------
    OpError
        A count is below 1, ``axis`` does not exist, or goes with a tuple.
    """
    return call(OP, locals())
