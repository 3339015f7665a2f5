"""What the contracts of the losses of YOLOv3's to YOLOv7's heads share: attributes."""
from __future__ import annotations

from ...core.contract import Attr, Bool, Choice, Float, Int, Optional, Pairs

OVERLAP_LOSSES = ("iou", "giou", "diou", "ciou")   # as in boxes.cuh; an operator's loss of numbers comes behind them

# Source: pjreddie/darknet, cfg/yolov3.cfg: the head with a stride of 32.
YOLOV3_ANCHORS = (3.625, 2.8125, 4.875, 6.1875, 11.65625, 10.1875)

ANCHORS = (   # and classes
    Attr("anchors", Pairs(), YOLOV3_ANCHORS, "sizes of the head's anchors in cells, (w0, h0, w1, h1, ...)"),
    Attr("other_anchors", Optional(Pairs()), None, "those of the net's other heads, in cells of this head"),
    Attr("classes", Int(1), 80, "number of classes"))
THRESHOLDS = (
    Attr("ignore_thresh", Float(low=0), 0.5, "IoU above which a prediction without a match gets no loss"),
    Attr("truth_thresh", Float(low=0), 1.0, "IoU above which any prediction is a match; 1: none is"),
    Attr("iou_thresh", Float(low=0), 1.0, "IoU of sizes above which further anchors match; 1: none do"))
IOU_NORMALIZER = Attr("iou_normalizer", Float(low=0), 1.0, "weight of the loss of boxes")
OBJ_NORMALIZER = Attr("obj_normalizer", Float(low=0), 1.0, "weight of the objectness loss")
SCALE_X_Y = Attr("scale_x_y", Float(above=0), 1.0, "factor of x and y around the middle of the cell")
LABEL_SMOOTH_EPS = Attr("label_smooth_eps", Float(low=0, below=1), 0.0, "class targets are eps / 2 and 1 - eps / 2")
OBJECTNESS_SMOOTH = Attr("objectness_smooth", Bool(), False, "whether the objectness has the IoU as its target")


def box_loss(numbers: str, doc: str) -> Attr:
    """The attribute ``box_loss``. ``numbers`` is the loss of x, y, w and h themselves, and the default."""
    return Attr("box_loss", Choice(*OVERLAP_LOSSES, numbers), numbers, doc)


def max_delta(of: str) -> Attr:
    """The attribute ``max_delta``. ``of``: what the derivatives are of."""
    return Attr("max_delta", Float(low=0), 0.0, f"limit of the derivatives of a box's {of}; 0: none")
