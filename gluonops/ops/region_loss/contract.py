"""What ``region_loss`` declares."""
import math

import numpy as np

from ...core.contract import BLOCK, FLOATS, LABELS, Arg, Attr, Bool, Cuda, Float, Int, Op, Out, names
from ..region_decode.contract import ANCHORS, CLASSES, SOFTMAX, map_dims, map_sizes

PARTS = ("coordinates", "objectness", "no_objectness", "classes", "cost", "iou", "recall", "probability", "truths")
BOX = 5   # numbers per truth: centre x, centre y, width, height, class


def shapes(attrs, ndims):
    batch, _, _, _ = data = map_dims(attrs)
    truths, = names("truths")
    return {"data": data, "truth": (batch, truths, BOX), "seen": (1,), "output": (batch,),
            "parts": (batch, len(PARTS)), "gradient": data}, ()


def scalars(attrs, known):
    return {**map_sizes(attrs, known), "truths": known["truth"][1], "object_scale": attrs.object_scale,
            "noobject_scale": attrs.noobject_scale, "coord_scale": attrs.coord_scale, "class_scale": attrs.class_scale,
            "thresh": attrs.thresh, "rescore": int(attrs.rescore), "bias_match": int(attrs.bias_match),
            "softmax": int(attrs.softmax), "warmup_images": attrs.warmup_images, "anchor_sizes": attrs.anchors}


def images(attrs, known):
    """A block of threads per image."""
    return known["data"][0], BLOCK


def elements(attrs, known):
    return math.prod(known["data"]), 1


def check_truth(attrs, truth):
    """What is wrong with the first box that is neither padding nor a box in the image."""
    boxes = truth.astype(np.float64)
    x, y, w, h, named = (boxes[..., i] for i in range(BOX))
    with np.errstate(invalid="ignore"):
        good = ((x >= 0) & (x <= 1) & (y >= 0) & (y <= 1) & (w > 0) & (h > 0) & (w * h < 2)
                & (named >= 0) & (named < attrs.classes) & (named == np.floor(named)))
    wrong = np.argwhere(~good & (boxes != 0).any(-1))
    if not len(wrong):
        return None
    image, box = wrong[0]
    values = ", ".join(f"{value:g}" for value in boxes[image, box])
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return (f"truth[{image}, {box}], box {box} of image {image}, is ({values}){more}; expected a centre from 0 to 1, w "
            f"and h above 0 with w * h below 2, and a whole class from 0 to {attrs.classes - 1}",
            "Correct the box, or make it a row of zeros to leave it out")


OP = Op(
    name="region_loss",
    summary="YOLOv2's loss of every image",
    inputs=(Arg("data", "T", "(batch, anchors * (5 + classes), height, width)"),
            Arg("truth", "T", "(batch, truths, 5): centre x, y, w, h from 0 to 1, class; padded with rows of zeros",
                gradient=False, values=check_truth),
            Arg("seen", "L", "(1,), images seen in training, this batch included", gradient=False)),
    outputs=(Out("output", "T", "the loss of every image"),
             Out("parts", "A", "what the loss of every image consists of, and how good its boxes are"),
             Out("gradient", "A", "the gradient of every image's loss")),
    attrs=(ANCHORS, CLASSES,
           Attr("object_scale", Float(low=0), 5.0, "weight of the objectness where there is a truth"),
           Attr("noobject_scale", Float(low=0), 1.0, "weight of the objectness elsewhere"),
           Attr("coord_scale", Float(low=0), 1.0, "weight of the boxes"),
           Attr("class_scale", Float(low=0), 1.0, "weight of the classes"),
           Attr("thresh", Float(low=0), 0.6, "a box that overlaps a truth by more than this may be called an object"),
           Attr("rescore", Bool(), True, "whether a truth's objectness is to be the IoU, or 1"),
           Attr("bias_match", Bool(), True, "whether a truth's anchor is chosen by the anchors' sizes"),
           SOFTMAX,
           Attr("warmup_images", Int(0), 12800, "so many images long, every box is drawn to its anchor"),
           Attr("parts", Bool(), False, "whether to return the parts as well")),
    types={"T": FLOATS, "L": LABELS},
    shapes=shapes,
    backward=("output_grad", "gradient"),
    cuda=Cuda(scalars=scalars, forward=images, backward=elements),
    wide=True,
    returned=lambda attrs: 2 if attrs.parts else 1,
)
