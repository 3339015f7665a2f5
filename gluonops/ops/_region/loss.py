"""What the contracts of the losses of YOLO's maps share: the ground truth, the outputs and the launches."""
from __future__ import annotations

import math

from ...core.contract import BLOCK, Arg, Attr, Bool, Out, Rows, Steps
from .contract import MAP, count

PARTS = ("coordinates", "objectness", "no_objectness", "classes", "cost", "iou", "recall", "probability", "truths")
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
DATA = Arg("data", "T", "(batch, anchors * (5 + classes), height, width)")
TRUTH = Arg("truth", "T", "ground truth, (batch, truths, 5): centre x, centre y, w, h from 0 to 1, class; padded with "
            "rows of zeros", gradient=False, values=BOXES)
OUTPUTS = (Out("output", "T", "loss per image, (batch,)"),
           Out("parts", "A", f"terms of the loss and statistics of the boxes per image, (batch, {len(PARTS)})"),
           Out("gradient", "A", "gradient of each image's loss with respect to data, the shape of data"))
WITH_PARTS = Attr("parts", Bool(), False, "whether to return the parts of the loss as well")
SHAPES = {
    "data": MAP,
    "truth": f"batch, truths, {len(BOXES.columns)}",
    "output": "batch",
    "parts": f"batch, {len(PARTS)}",
    "gradient": MAP,
}


def images(attrs, known: dict) -> tuple[int, int]:
    """One block of threads per image, times those of :func:`steps`."""
    return known["data"][0], BLOCK


def elements(attrs, known: dict) -> tuple[int, int]:
    """One thread per element of the map."""
    return math.prod(known["data"]), 1


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
