"""The layer ``gluonops.nn.Reorg``."""
from ...backends.block import OpBlock
from .. import reorg as _reorg


class Reorg(OpBlock, function=_reorg):
    """Space to depth or depth to space. The default mode is Darknet's, for YOLOv2."""
