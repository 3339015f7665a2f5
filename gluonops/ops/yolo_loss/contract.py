"""The contract of ``yolo_loss``."""
from __future__ import annotations

from ...core.contract import FLOATS, Attr, Bool, Choice, Cuda, Float, Int, Op, Optional, Pairs, Refused, Shapes
from .._region.contract import map_sizes
from .._region.loss import DATA, OUTPUTS, SHAPES, TRUTH, WITH_PARTS, elements, images, steps

DIALECTS = ("pjreddie", "alexeyab")
BOX_LOSSES = ("iou", "giou", "diou", "ciou", "mse")   # the first four as in boxes.cuh

# Source: pjreddie/darknet, cfg/yolov3.cfg: the head with a stride of 32.
YOLOV3_ANCHORS = (3.625, 2.8125, 4.875, 6.1875, 11.65625, 10.1875)

OF_ALEXEYAB = ("box_loss != 'mse' or iou_normalizer != 1 or obj_normalizer != 1 or iou_thresh < 1 or max_delta > 0"
               " or scale_x_y != 1 or new_coords or label_smooth_eps > 0 or objectness_smooth or focal_loss")


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    return {
        **map_sizes(attrs, known),
        "truths": known["truth"][1],
        "others": len(attrs.other_anchors or ()) // 2,
        "alexeyab": int(attrs.dialect == "alexeyab"),
        "ignore_thresh": attrs.ignore_thresh,
        "truth_thresh": attrs.truth_thresh,
        "iou_thresh": attrs.iou_thresh,
        "box_loss": BOX_LOSSES.index(attrs.box_loss),
        "iou_normalizer": attrs.iou_normalizer,
        "obj_normalizer": attrs.obj_normalizer,
        "max_delta": attrs.max_delta,
        "scale_x_y": attrs.scale_x_y,
        "new_coords": int(attrs.new_coords),
        "label_smooth_eps": attrs.label_smooth_eps,
        "objectness_smooth": int(attrs.objectness_smooth),
        "focal_loss": int(attrs.focal_loss),
        "anchor_sizes": attrs.anchors + (attrs.other_anchors or ()),
    }


OP = Op(
    name="yolo_loss",
    summary="loss of a head of YOLOv3, YOLOv4 or YOLOv7, per image",
    role="loss",
    inputs=(DATA, TRUTH),
    outputs=OUTPUTS,
    attrs=(Attr("anchors", Pairs(), YOLOV3_ANCHORS, "sizes of the head's anchors in cells, (w0, h0, w1, h1, ...)"),
           Attr("other_anchors", Optional(Pairs()), None, "those of the net's other heads, in cells of this head"),
           Attr("classes", Int(1), 80, "number of classes"),
           Attr("dialect", Choice(*DIALECTS), "pjreddie", "the program whose deltas are the gradient"),
           Attr("ignore_thresh", Float(low=0), 0.5, "IoU above which a prediction without a match gets no loss"),
           Attr("truth_thresh", Float(low=0), 1.0, "IoU above which any prediction is a match; 1: none is"),
           Attr("iou_thresh", Float(low=0), 1.0, "IoU of sizes above which further anchors match; 1: none do"),
           Attr("box_loss", Choice(*BOX_LOSSES), "mse", "loss of matched boxes, Darknet's iou_loss"),
           Attr("iou_normalizer", Float(low=0), 1.0, "weight of the loss of boxes"),
           Attr("obj_normalizer", Float(low=0), 1.0, "weight of the objectness loss"),
           Attr("max_delta", Float(low=0), 0.0, "limit of the derivatives of a box's IoU loss; 0: none"),
           Attr("scale_x_y", Float(above=0), 1.0, "factor of x and y around the middle of the cell"),
           Attr("new_coords", Bool(), False, "whether data is activated already, and w and h are squared"),
           Attr("label_smooth_eps", Float(low=0, below=1), 0.0, "class targets are eps / 2 and 1 - eps / 2"),
           Attr("objectness_smooth", Bool(), False, "whether the objectness has the IoU as its target"),
           Attr("focal_loss", Bool(), False, "whether the classes have the focal loss"),
           WITH_PARTS),
    types={"T": FLOATS},
    shapes=Shapes(**SHAPES),
    refused=(Refused(f"dialect == 'pjreddie' and ({OF_ALEXEYAB})",
                     "dialect is 'pjreddie', whose Darknet has squared errors of boxes, ignore_thresh and truth_thresh "
                     "only; another option is set",
                     "Pass dialect='alexeyab', or leave the option out"),),
    backward=("output_grad", "gradient"),
    cuda=Cuda(scalars=scalars, forward=images, backward=elements, steps=steps),
    accumulate_fp32=True,
    returned="2 if parts else 1",
)
