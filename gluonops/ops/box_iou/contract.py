"""The contract of ``box_iou``."""
from __future__ import annotations

import math

from ...core.contract import BLOCK, FLOATS, Arg, Array, Cuda, Op, Out, Shapes, Steps
from .._blocks.contract import shared_rows
from .._boxes.contract import FORMAT, is_center

ROWS = 16     # boxes of lhs that a thread has in forward
BAND = 256    # boxes of lhs that a block has in backward
SUMS = 5      # of a box, over its pairs


def sizes(known: dict) -> tuple[int, int, int]:
    """The number of pairs of sets, and of boxes in each set of a pair."""
    return math.prod(known["lhs"][:-2]), known["lhs"][-2], known["rhs"][-2]


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    sets, lhs_count, rhs_count = sizes(known)
    return {"sets": sets, "lhs_count": lhs_count, "rhs_count": rhs_count, "is_center": is_center(attrs)}


def divided(count: int, by: int) -> int:
    """The quotient, rounded up."""
    return -(-count // by)


def bands(known: dict) -> int:
    """The number of bands of boxes of lhs, of all sets."""
    sets, lhs_count, _ = sizes(known)
    return sets * divided(lhs_count, BAND)


def forward_work(attrs, known: dict) -> tuple[int, int]:
    """A thread for a box of rhs and some boxes of lhs."""
    sets, lhs_count, rhs_count = sizes(known)
    return sets * divided(lhs_count, ROWS) * rhs_count, 1


def backward_work(attrs, known: dict) -> tuple[int, int]:
    """A block for each band of boxes of lhs."""
    return bands(known), BLOCK


def steps(direction: str, attrs, known: dict) -> Steps:
    """In backward the last block of a set adds up the sums of the boxes of rhs over all bands."""
    if direction == "forward":
        return Steps()
    sets, _, rhs_count = sizes(known)
    return shared_rows(sets, 1, bands(known) * rhs_count * SUMS)


OP = Op(
    name="box_iou",
    summary="intersection over union of every pair of boxes",
    family="boxes and detection",
    inputs=(Arg("lhs", "T", "boxes, (..., N, 4)"),
            Arg("rhs", "T", "boxes, (..., M, 4)")),
    outputs=(Out("output", "T", "(..., N, M)"),),
    attrs=(FORMAT,),
    types={"T": FLOATS},
    shapes=Shapes(lhs="sets..., lhs_boxes, 4", rhs="sets..., rhs_boxes, 4", output="sets..., lhs_boxes, rhs_boxes"),
    scratch=(Array("planes", "A", "sets * 4 * rhs_boxes"),),
    backward=("output_grad", "lhs", "rhs"),
    cuda=Cuda(scalars=scalars, forward=forward_work, backward=backward_work, steps=steps),
    accumulate_fp32=True,
)
