"""The attributes that the contracts for the losses of YOLOv3's to YOLOv7's heads share."""
from ...contract.op import Attr, Bool, Choice, Float, Int, Optional, Pairs
from .._boxes.contract import KINDS

# Source: pjreddie/darknet, cfg/yolov3.cfg: the head with a stride of 32.
YOLOV3_ANCHORS = (3.625, 2.8125, 4.875, 6.1875, 11.65625, 10.1875)

ANCHORS = (   # The classes are among them.
    Attr("anchors", Pairs(), YOLOV3_ANCHORS,
         "Sizes of the head's A anchors in its cells, above 0: (w0, h0, w1, h1, ...), or pairs. Darknet's are in "
         "pixels of the network's input: divide them by the head's stride."),
    Attr("other_anchors", Optional(Pairs()), None,
         "Sizes of the anchors of the net's other heads, also in cells of this head."),
    Attr("classes", Int(1), 80, "K, at least 1."))
THRESHOLDS = (
    Attr("ignore_thresh", Float(low=0), 0.5, "IoU with a ground truth above which a prediction without a match gets no "
         "loss. At least 0, as all thresholds."),
    Attr("truth_thresh", Float(low=0), 1.0,
         "IoU with a ground truth above which a prediction is a match. 1 or more: none is."),
    Attr("iou_thresh", Float(low=0), 1.0, "IoU of its size with a ground truth's above which an anchor is a match. 1 "
         "or more: only the best one is."))
WEIGHTS = (   # The limits are among them.
    Attr("obj_normalizer", Float(low=0), 1.0, "Weight of the objectness loss, at least 0."),
    Attr("max_delta", Float(low=0), 0.0,
         "Limit of the derivatives of a box's IoU loss, and of the Gaussian one. 0: none."),
    Attr("scale_x_y", Float(low=0.001), 1.0, "Factor of x and y around the middle of the cell, at least 0.001."))
TARGETS = (
    Attr("label_smooth_eps", Float(low=0, below=1), 0.0,
         "The class targets are eps/2 and 1 - eps/2. At least 0, below 1."),
    Attr("objectness_smooth", Bool(), False, "Whether the target of the objectness follows from the IoU."))


def box_loss(numbers: str) -> tuple[Attr, Attr]:
    """Return the attributes for the loss of the boxes and its weight.

    ``numbers`` is the name of the loss of x, y, w and h themselves, which is the default.
    """
    return (Attr("box_loss", Choice(*KINDS, numbers), numbers,
                 "The loss of the boxes of matches; Darknet's ``iou_loss``."),
            Attr("iou_normalizer", Float(low=0), 1.0,
                 "Weight of the loss of boxes, at least 0. AlexeyAB's default in cfgs is 0.75."))
