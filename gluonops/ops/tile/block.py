"""The layer ``gluonops.nn.Tile``."""
from ...backends.block import OpBlock
from .. import tile as _tile


class Tile(OpBlock, function=_tile):
    """Repeat a tensor along one or several axes."""
