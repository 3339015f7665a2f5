"""The contract of ``region_decode``."""
from __future__ import annotations

import math

from ...core.contract import BLOCK, FLOATS, Arg, Attr, Choice, Cuda, Op, Out, Shapes
from .._region.contract import ANCHORS, CLASSES, MAP, SOFTMAX, count, map_sizes

LAYOUTS = ("boxes", "map")
THREADS, SMALLEST_TILE = 256, 8                            # as in kernel.cu
FORWARD_BYTES, BACKWARD_BYTES = 26 * 1024, 43 * 1024


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    return {
        **map_sizes(attrs, known),
        "softmax": int(attrs.softmax),
        "layout": LAYOUTS.index(attrs.layout),
        "anchor_sizes": attrs.anchors,
    }


def tile(attrs, tensors: int, shared_bytes: int) -> int:
    """The predictions that a block of threads takes at a time, where it holds float32 of so many tensors."""
    row_bytes = 4 * tensors * (5 + attrs.classes | 1)
    size = THREADS
    while size * row_bytes > shared_bytes:
        size //= 2
    return size if size >= SMALLEST_TILE else THREADS


def forward_work(attrs, known: dict) -> tuple[int, int]:
    """A block of threads for each tile of predictions."""
    return math.ceil(predictions(attrs, known) / tile(attrs, 1, FORWARD_BYTES)), BLOCK


def backward_work(attrs, known: dict) -> tuple[int, int]:
    """The same, where a tile has the head gradients as well."""
    return math.ceil(predictions(attrs, known) / tile(attrs, 2, BACKWARD_BYTES)), BLOCK


def predictions(attrs, known: dict) -> int:
    """One for each anchor and cell."""
    batch, _, height, width = known["data"]
    return batch * count(attrs) * height * width


OP = Op(
    name="region_decode",
    summary="boxes, objectness and class probabilities of a YOLOv2 output map",
    family="boxes and detection",
    inputs=(Arg("data", "T", "(batch, anchors * (5 + classes), height, width)"),),
    outputs=(Out("output", "T", "(batch, anchors, height, width, 5 + classes); with layout 'map' the shape of data"),),
    attrs=(ANCHORS,
           CLASSES,
           SOFTMAX,
           Attr("layout", Choice(*LAYOUTS), "boxes", "boxes: one row per box; map: Darknet's layout")),
    types={"T": FLOATS},
    shapes=(
        Shapes(when="layout == 'map'", data=MAP, output=MAP),
        Shapes(data=MAP, output="batch, anchors, height, width, 5 + classes"),
    ),
    backward=("output_grad", "data"),
    cuda=Cuda(scalars=scalars, forward=forward_work, backward=backward_work),
    accumulate_fp32=True,
)
