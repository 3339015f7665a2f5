"""The contract of ``region_loss``."""
from __future__ import annotations

import math

from ...core.contract import (
    BLOCK,
    FLOATS,
    LABELS,
    Arg,
    Attr,
    Bool,
    Choice,
    Cuda,
    Float,
    Int,
    Op,
    Out,
    Rows,
    Shapes,
    Steps,
)
from .._region.contract import ANCHORS, CLASSES, MAP, SOFTMAX, count, map_sizes

PARTS = ("coordinates", "objectness", "no_objectness", "classes", "cost", "iou", "recall", "probability", "truths")
BOX_LOSSES = ("mse", "giou")
PREDICTIONS = 512   # that a block of threads takes
TARGET = 8          # numbers for a ground truth

BOXES = Rows(
    columns=("x", "y", "w", "h", "class_id"),
    axes=("image", "box"),
    valid="0 <= x <= 1 and 0 <= y <= 1 and w > 0 and h > 0 and w * h < 2"
          " and 0 <= class_id < classes and class_id == floor(class_id)",
    expected="a centre from 0 to 1, w and h above 0 with w * h below 2, and a whole class from 0 to {classes - 1}",
    remedy="Correct the box, or make it a row of zeros to leave it out",
)


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    return {
        **map_sizes(attrs, known),
        "truths": known["truth"][1],
        "object_scale": attrs.object_scale,
        "noobject_scale": attrs.noobject_scale,
        "coord_scale": attrs.coord_scale,
        "class_scale": attrs.class_scale,
        "thresh": attrs.thresh,
        "rescore": int(attrs.rescore),
        "bias_match": int(attrs.bias_match),
        "softmax": int(attrs.softmax),
        "warmup_images": attrs.warmup_images,
        "box_loss": BOX_LOSSES.index(attrs.box_loss),
        "anchor_sizes": attrs.anchors,
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
    name="region_loss",
    summary="loss of YOLOv2's region layer, per image",
    role="loss",
    inputs=(Arg("data", "T", "(batch, anchors * (5 + classes), height, width)"),
            Arg("truth", "T", "ground truth, (batch, truths, 5): centre x, centre y, w, h from 0 to 1, class; "
                "padded with rows of zeros",
                gradient=False, values=BOXES),
            Arg("seen", "L", "number of images seen in training, including this batch, (1,)", gradient=False)),
    outputs=(Out("output", "T", "loss per image, (batch,)"),
             Out("parts", "A", f"terms of the loss and statistics of the boxes per image, (batch, {len(PARTS)})"),
             Out("gradient", "A", "gradient of each image's loss with respect to data, the shape of data")),
    attrs=(ANCHORS,
           CLASSES,
           Attr("object_scale", Float(low=0), 5.0, "weight of the objectness loss of matched predictions"),
           Attr("noobject_scale", Float(low=0), 1.0, "weight of the no-object loss"),
           Attr("coord_scale", Float(low=0), 1.0, "weight of the loss of box coordinates"),
           Attr("class_scale", Float(low=0), 1.0, "weight of the class loss"),
           Attr("thresh", Float(low=0), 0.6, "IoU above which an unmatched prediction gets no no-object loss"),
           Attr("rescore", Bool(), True, "objectness target of matched predictions; true: the IoU, false: 1"),
           Attr("bias_match", Bool(), True, "true: match by the anchors' sizes; false: by the predicted sizes"),
           SOFTMAX,
           Attr("warmup_images", Int(0), 12800,
                "number of images seen below which boxes are regressed toward their priors"),
           Attr("box_loss", Choice(*BOX_LOSSES), "mse",
                "loss of matched boxes; mse: squared errors of the coordinates, giou: 1 - GIoU"),
           Attr("parts", Bool(), False, "whether to return the parts of the loss as well")),
    types={"T": FLOATS, "L": LABELS},
    shapes=Shapes(data=MAP, truth=f"batch, truths, {len(BOXES.columns)}", seen="1", output="batch",
                  parts=f"batch, {len(PARTS)}", gradient=MAP),
    backward=("output_grad", "gradient"),
    cuda=Cuda(scalars=scalars, forward=images, backward=elements, steps=steps),
    accumulate_fp32=True,
    returned="2 if parts else 1",
)
