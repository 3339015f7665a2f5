"""What the contracts of the losses of YOLOv3's to YOLOv7's heads share: attributes."""
from __future__ import annotations

from ...core.contract import Attr, Bool, Choice, Float, Int, Optional, Pairs

OVERLAP_LOSSES = ("iou", "giou", "diou", "ciou")   # in the order of boxes.inl

# Source: pjreddie/darknet, cfg/yolov3.cfg: the head with a stride of 32.
YOLOV3_ANCHORS = (3.625, 2.8125, 4.875, 6.1875, 11.65625, 10.1875)

ANCHORS = (   # and classes
    Attr("anchors", Pairs(), YOLOV3_ANCHORS),
    Attr("other_anchors", Optional(Pairs()), None),
    Attr("classes", Int(1), 80))
THRESHOLDS = (
    Attr("ignore_thresh", Float(low=0), 0.5),
    Attr("truth_thresh", Float(low=0), 1.0),
    Attr("iou_thresh", Float(low=0), 1.0))
IOU_NORMALIZER = Attr("iou_normalizer", Float(low=0), 1.0)
OBJ_NORMALIZER = Attr("obj_normalizer", Float(low=0), 1.0)
SCALE_X_Y = Attr("scale_x_y", Float(above=0), 1.0)
LABEL_SMOOTH_EPS = Attr("label_smooth_eps", Float(low=0, below=1), 0.0)
OBJECTNESS_SMOOTH = Attr("objectness_smooth", Bool(), False)


def box_loss(numbers: str) -> Attr:
    """The attribute ``box_loss``. ``numbers`` is the loss of x, y, w and h themselves, and the default."""
    return Attr("box_loss", Choice(*OVERLAP_LOSSES, numbers), numbers)


def max_delta(of: str) -> Attr:
    """The attribute ``max_delta``. ``of``: what the derivatives are of."""
    return Attr("max_delta", Float(low=0), 0.0)
