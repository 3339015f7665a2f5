"""The layer ``gluonops.nn.RegionDecode``."""
from ...core.block import OpBlock
from .. import region_decode as _region_decode
from .contract import OP


class RegionDecode(OpBlock):
    """Boxes, objectness and class probabilities of a YOLOv2 output map."""

    _op, _function = OP, staticmethod(_region_decode)
