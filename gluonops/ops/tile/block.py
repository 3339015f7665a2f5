"""The layer ``gluonops.nn.Tile``."""
from mxnet.gluon import HybridBlock

from .. import tile as _tile
from .contract import OP


class Tile(HybridBlock):
    """Repeat a tensor along one axis or several. See :func:`gluonops.ops.tile`.

    Parameters
    ----------
    tiles : int or tuple of int
        How many times: an integer for `axis`, a tuple as in ``numpy.tile``.
    axis : int, default -1
        The axis that an integer repeats.

    Inputs:
        - **data**: any shape.

    Outputs:
        - **out**: the shape of `data` with the repeated axes multiplied.
    """

    def __init__(self, tiles, axis=-1, **kwargs):
        super().__init__(**kwargs)
        OP.parse({"tiles": tiles, "axis": axis})
        self._tiles, self._axis = tiles, axis

    def hybrid_forward(self, F, data):
        return _tile(data, self._tiles, self._axis)

    def __repr__(self):
        return f"Tile(tiles={self._tiles}, axis={self._axis})"
