"""The contract of ``box_iou``."""
from __future__ import annotations

import math

from ...core.contract import BLOCK, FLOATS, Arg, Cuda, Op, Out, Shapes, Steps
from .._blocks.contract import shared_rows
from .._boxes.contract import FORMAT, is_center

ROWS = 16        # boxes of lhs that a thread has in forward
BAND = 256       # boxes of lhs that a block has in backward
COLUMNS = 32     # boxes of rhs that a block has in backward
LEAST_BOXES = 32  # of lhs, that a block has in backward at a time
SUMS = 5         # of a box, over its pairs


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


def tiles(known: dict) -> int:
    """The number of tiles of boxes of rhs, each of which a block has."""
    sets, _, rhs_count = sizes(known)
    return sets * divided(rhs_count, COLUMNS)


def bands(known: dict) -> int:
    """The number of bands of boxes of lhs."""
    return divided(sizes(known)[1], BAND)


def forward_work(attrs, known: dict) -> tuple[int, int]:
    """A thread for a box of rhs and some boxes of lhs."""
    sets, lhs_count, rhs_count = sizes(known)
    return sets * divided(lhs_count, ROWS) * rhs_count, 1


def backward_work(attrs, known: dict) -> tuple[int, int]:
    """Some lanes for each box of lhs, and a block for each tile of boxes of rhs and band of boxes of lhs."""
    sets, lhs_count, _ = sizes(known)
    return max(divided(sets * lhs_count, LEAST_BOXES), tiles(known) * bands(known)), BLOCK


def steps(direction: str, attrs, known: dict) -> Steps:
    """In backward the last block of a tile adds up the sums of all bands."""
    if direction == "forward":
        return Steps()
    sets, _, rhs_count = sizes(known)
    return shared_rows(tiles(known), 1, bands(known) * sets * rhs_count * SUMS)


OP = Op(
    name="box_iou",
    summary="intersection over union of every pair of boxes",
    family="boxes and detection",
    inputs=(Arg("lhs", "T", "boxes, (..., N, 4)"),
            Arg("rhs", "T", "boxes, (..., M, 4)")),
    outputs=(Out("output", "T", "(..., N, M)"),),
    attrs=(FORMAT,),
    types={"T": FLOATS},
    shapes=Shapes(lhs="..., lhs_boxes, 4", rhs="..., rhs_boxes, 4", output="..., lhs_boxes, rhs_boxes"),
    backward=("output_grad", "lhs", "rhs"),
    cuda=Cuda(scalars=scalars, forward=forward_work, backward=backward_work, steps=steps),
    accumulate_fp32=True,
)
