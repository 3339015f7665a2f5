"""The layer ``gluonops.nn.BoxIoU``."""
from ...backends.block import OpBlock
from .. import box_iou as _box_iou


class BoxIoU(OpBlock, function=_box_iou):
    """Intersection over union of every pair of boxes."""
