"""The layer ``gluonops.nn.Tile``."""
from __future__ import annotations

from ...core.block import OpBlock
from .. import tile as _tile
from .contract import OP


class Tile(OpBlock):
    """Repeat a tensor along one or several axes."""

    _op, _function = OP, staticmethod(_tile)

    def __init__(self, tiles: int | tuple[int, ...], axis: int = -1, **kwargs):
        super().__init__(tiles=tiles, axis=axis, **kwargs)
