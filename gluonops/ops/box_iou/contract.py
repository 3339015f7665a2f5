"""The contract of ``box_iou``."""
from __future__ import annotations

import math

from ...core.contract import FLOATS, Arg, Cuda, Op, Out, Shapes
from .._boxes.contract import FORMAT, is_center


def sizes(known: dict) -> tuple[int, int, int]:
    """The number of pairs of sets, and of boxes in each set of a pair."""
    return math.prod(known["lhs"][:-2]), known["lhs"][-2], known["rhs"][-2]


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    sets, lhs_count, rhs_count = sizes(known)
    return {"sets": sets, "lhs_count": lhs_count, "rhs_count": rhs_count, "is_center": is_center(attrs)}


def pairs(attrs, known: dict) -> tuple[int, int]:
    """One thread per pair of boxes."""
    return math.prod(sizes(known)), 1


def all_boxes(attrs, known: dict) -> tuple[int, int]:
    """One row per box; its elements are the boxes of the other set."""
    sets, lhs_count, rhs_count = sizes(known)
    return sets * (lhs_count + rhs_count), max(2, lhs_count, rhs_count)


OP = Op(
    name="box_iou",
    summary="intersection over union of every pair of boxes",
    inputs=(Arg("lhs", "T", "boxes, (..., N, 4)"),
            Arg("rhs", "T", "boxes, (..., M, 4)")),
    outputs=(Out("output", "T", "(..., N, M)"),),
    attrs=(FORMAT,),
    types={"T": FLOATS},
    shapes=Shapes(lhs="..., lhs_boxes, 4", rhs="..., rhs_boxes, 4", output="..., lhs_boxes, rhs_boxes"),
    backward=("output_grad", "lhs", "rhs"),
    cuda=Cuda(scalars=scalars, forward=pairs, backward=all_boxes),
    accumulate_fp32=True,
)
