"""The layer ``gluonops.nn.Tile``."""
from ...core.block import OpBlock
from .. import tile as _tile
from .contract import OP


class Tile(OpBlock):
    """Repeat a tensor along one or several axes."""

    _op, _function = OP, staticmethod(_tile)
