"""What the contracts of the losses of YOLO's maps share: the ground truth, the outputs and the launches."""
from __future__ import annotations

import math

from ...core.contract import BLOCK, Arg, Array, Attr, Bool, Out, Rows, Steps
from .contract import count

PARTS = ("coordinates", "objectness", "no_objectness", "classes", "cost", "iou", "recall", "probability", "truths")
PREDICTIONS = 256    # that a block of threads takes, where an image has several
MANY_BLOCKS = 2048   # that are enough for a GPU: so many images have one each
TARGET = 12          # numbers for a ground truth

BOXES = Rows(
    columns=("x", "y", "w", "h", "class_id"),
    axes=("image", "box"),
    valid="0 <= x <= 1 and 0 <= y <= 1 and w > 0 and h > 0 and w * h < 2"
          " and 0 <= class_id < classes and class_id == floor(class_id)",
    expected="a centre from 0 to 1, w and h above 0 with w * h below 2, and a whole class from 0 to {classes - 1}",
    remedy="Correct the box, or make it a row of zeros to leave it out",
)
TRUTH = Arg("truth", "T", "ground truth, (batch, truths, 5): centre x, centre y, w, h from 0 to 1, class; padded with "
            "rows of zeros", gradient=False, values=BOXES)
OUTPUTS = (Out("output", "T", "loss per image, (batch,)"),
           Out("parts", "A", f"terms of the loss and statistics of the boxes per image, (batch, {len(PARTS)})"),
           Out("gradient", "A", "gradient of each image's loss with respect to data, the shape of data"))
SCRATCH = (Array("count", "int64", "batch", "forward"),   # the boxes of each image, or INVALID_IMAGE
           Array("partial", "float64", f"batch * (len(anchors) // 2) * {len(PARTS)}", "forward"),
           Array("matched", "MatchedBox", "batch * truths", "forward"))
WITH_PARTS = Attr("parts", Bool(), False, "whether to return the parts of the loss as well")


def data_of(shape: str) -> Arg:
    """The input ``data``, a map of such a shape."""
    return Arg("data", "T", f"({shape})")


def shapes_of(shape: str) -> dict:
    """The shapes of all tensors. ``shape`` is that of the map."""
    return {
        "data": shape,
        "truth": f"batch, truths, {len(BOXES.columns)}",
        "output": "batch",
        "parts": f"batch, {len(PARTS)}",
        "gradient": shape,
    }


def images(attrs, known: dict) -> tuple[int, int]:
    """One block of threads per image, times those of :func:`steps`."""
    return known["data"][0], BLOCK


def elements(attrs, known: dict) -> tuple[int, int]:
    """One thread per element of the map."""
    return math.prod(known["data"]), 1


def steps(direction: str, attrs, known: dict) -> Steps:
    """In forward: assign the ground truths; compute, where the last block of an image adds up the sums of its blocks.

    ``partial`` has TARGET numbers for each ground truth, and for each image a count and the parts of its blocks.
    """
    if direction == "backward":
        return Steps()
    batch, _, height, width = known["data"]
    truths = known["truth"][1]
    predictions = count(attrs) * height * width
    blocks = max(1, min(math.ceil(predictions / PREDICTIONS), MANY_BLOCKS // max(1, batch)))
    return Steps(blocks, batch * (truths * TARGET + 1 + blocks * len(PARTS)), (0, 1))
