"""The layer ``gluonops.nn.BoxIoU``."""
from ...core.block import OpBlock
from .. import box_iou as _box_iou
from .contract import OP


class BoxIoU(OpBlock):
    """Intersection over union of every pair of boxes."""

    _op, _function = OP, staticmethod(_box_iou)
