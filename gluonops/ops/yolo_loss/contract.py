"""The contract of ``yolo_loss``."""
from __future__ import annotations

import math

from ...core.contract import (
    BLOCK,
    FLOATS,
    Arg,
    Attr,
    Bool,
    Choice,
    Cuda,
    Float,
    Int,
    Op,
    Optional,
    Out,
    Pairs,
    Refused,
    Shapes,
    Steps,
)
from .._region.contract import MAP, count, map_sizes
from ..region_loss.contract import BOXES, PARTS, PREDICTIONS

DIALECTS = ("pjreddie", "alexeyab")
BOX_LOSSES = ("iou", "giou", "diou", "ciou", "mse")   # the first four as in boxes.cuh
TARGET = 8   # numbers for a ground truth

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


def images(attrs, known: dict) -> tuple[int, int]:
    """One block of threads per image, times those of :func:`steps`."""
    return known["data"][0], BLOCK


def steps(direction: str, attrs, known: dict) -> Steps:
    """In forward: assign the ground truths, compute, and combine the sums of the blocks that share an image.

    ``partial`` has TARGET numbers for each ground truth, and the parts of each of these blocks.
    """
    if direction == "backward":
        return Steps()
    batch, _, height, width = known["data"]
    blocks = max(1, math.ceil(count(attrs) * height * width / PREDICTIONS))
    partial = batch * (known["truth"][1] * TARGET + blocks * len(PARTS))
    return Steps(blocks, partial, (0, 1, 2))


def elements(attrs, known: dict) -> tuple[int, int]:
    """One thread per element of the map."""
    return math.prod(known["data"]), 1


OP = Op(
    name="yolo_loss",
    summary="loss of a head of YOLOv3, YOLOv4 or YOLOv7, per image",
    role="loss",
    inputs=(Arg("data", "T", "(batch, anchors * (5 + classes), height, width)"),
            Arg("truth", "T", "ground truth, (batch, truths, 5): centre x, centre y, w, h from 0 to 1, class; "
                "padded with rows of zeros",
                gradient=False, values=BOXES)),
    outputs=(Out("output", "T", "loss per image, (batch,)"),
             Out("parts", "A", f"terms of the loss and statistics of the boxes per image, (batch, {len(PARTS)})"),
             Out("gradient", "A", "gradient of each image's loss with respect to data, the shape of data")),
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
           Attr("parts", Bool(), False, "whether to return the parts of the loss as well")),
    types={"T": FLOATS},
    shapes=Shapes(data=MAP, truth=f"batch, truths, {len(BOXES.columns)}", output="batch",
                  parts=f"batch, {len(PARTS)}", gradient=MAP),
    refused=(Refused(f"dialect == 'pjreddie' and ({OF_ALEXEYAB})",
                     "dialect is 'pjreddie', whose Darknet has squared errors of boxes, ignore_thresh and truth_thresh "
                     "only; another option is set",
                     "Pass dialect='alexeyab', or leave the option out"),),
    backward=("output_grad", "gradient"),
    cuda=Cuda(scalars=scalars, forward=images, backward=elements, steps=steps),
    accumulate_fp32=True,
    returned="2 if parts else 1",
)
