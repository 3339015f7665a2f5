"""The layer ``gluonops.nn.BoxIoU``."""
from __future__ import annotations

from ...core.block import OpBlock
from .. import box_iou as _box_iou
from .contract import OP


class BoxIoU(OpBlock):
    """Intersection over union of every pair of boxes."""

    _op, _function = OP, staticmethod(_box_iou)

    def __init__(self, format: str = "corner", **kwargs):   # noqa: A002
        super().__init__(format=format, **kwargs)
