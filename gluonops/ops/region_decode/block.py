"""The layer ``gluonops.nn.RegionDecode``."""
from ...backends.block import OpBlock
from .. import region_decode as _region_decode


class RegionDecode(OpBlock, function=_region_decode):
    """Boxes, objectness and class probabilities of a YOLOv2 output map."""
