"""The layer ``gluonops.nn.RegionDecode``."""
from __future__ import annotations

from collections.abc import Sequence

from ...core.block import OpBlock
from .. import region_decode as _region_decode
from .contract import OP


class RegionDecode(OpBlock):
    """Boxes, objectness and class probabilities of a YOLOv2 output map."""

    _op, _function = OP, staticmethod(_region_decode)

    def __init__(self, anchors: Sequence, classes: int, softmax: bool = True, layout: str = "boxes", **kwargs):
        super().__init__(anchors=anchors, classes=classes, softmax=softmax, layout=layout, **kwargs)
