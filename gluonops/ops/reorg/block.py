"""The layer ``gluonops.nn.Reorg``."""
from ...core.block import OpBlock
from .. import reorg as _reorg
from .contract import OP


class Reorg(OpBlock):
    """Space to depth or depth to space. The default mode is Darknet's, for YOLOv2."""

    _op, _function = OP, staticmethod(_reorg)
