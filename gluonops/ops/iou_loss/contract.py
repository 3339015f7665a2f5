"""The contract of ``iou_loss``."""
from __future__ import annotations

import math

from ...core.contract import FLOATS, Arg, Attr, Choice, Cuda, Op, Out, Shapes
from .._boxes.contract import FORMAT, KINDS, is_center


def box_count(known: dict) -> int:
    """The number of boxes."""
    return math.prod(known["data"][:-1])


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    return {"count": box_count(known), "kind": KINDS.index(attrs.kind), "is_center": is_center(attrs)}


def boxes(attrs, known: dict) -> tuple[int, int]:
    """One thread per box."""
    return box_count(known), 1


OP = Op(
    name="iou_loss",
    summary="1 - IoU, GIoU, DIoU or CIoU of boxes and their ground truth",
    family="boxes and detection",
    role="loss",
    inputs=(Arg("data", "T", "boxes, (batch, ..., 4)"),
            Arg("truth", "T", "ground truth, the shape of data", gradient=False)),
    outputs=(Out("output", "T", "loss per box, (batch, ...)"),),
    attrs=(Attr("kind", Choice(*KINDS), "giou", "measure of the overlap"),
           FORMAT),
    types={"T": FLOATS},
    shapes=Shapes(data="batch, ..., 4", truth="batch, ..., 4", output="batch, ..."),
    derived={"count": "data.size // 4"},
    backward=("output_grad", "data", "truth"),
    cuda=Cuda(scalars=scalars, forward=boxes, backward=boxes),
    accumulate_fp32=True,
)
