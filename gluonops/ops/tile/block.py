"""The layer ``gluonops.nn.Tile``."""
from __future__ import annotations

from mxnet.gluon import HybridBlock

from .. import tile as _tile
from .contract import OP


class Tile(HybridBlock):
    """Repeat a tensor along one or several axes. See :func:`gluonops.ops.tile`.

    Parameters
    ----------
    tiles : int or tuple of int
        Number of repetitions, at least 1. An integer repeats `axis`. A tuple works as in ``numpy.tile``.
    axis : int, default -1
        The axis that an integer repeats. Valid with an integer only.

    Inputs:
        - **data**: any shape; any float dtype, uint8, int8, int32 or int64.

    Outputs:
        - **out**: the shape of `data` with the repeated axes multiplied. The dtype of `data`.

    Raises
    ------
    OpError
        An argument is out of range.
    """

    def __init__(self, tiles: int | tuple[int, ...], axis: int = -1, **kwargs):
        super().__init__(**kwargs)
        OP.parse({"tiles": tiles, "axis": axis})
        self._tiles, self._axis = tiles, axis

    def hybrid_forward(self, F, data):
        return _tile(data, self._tiles, self._axis)

    def __repr__(self):
        return f"Tile(tiles={self._tiles}, axis={self._axis})"
