"""The contract of ``box_iou``."""
from __future__ import annotations

import math

from ...core.contract import BLOCK, FLOATS, Arg, Cuda, Op, Out, Shapes, Steps
from .._boxes.contract import FORMAT, is_center

TILE_ROWS, TILE_COLUMNS = 384, 64   # boxes of lhs and of rhs whose pairs a block takes
NUMBERS = 4                         # of a box


def sizes(known: dict) -> tuple[int, int, int]:
    """The number of pairs of sets, and of boxes in each set of a pair."""
    return math.prod(known["lhs"][:-2]), known["lhs"][-2], known["rhs"][-2]


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    sets, lhs_count, rhs_count = sizes(known)
    return {"sets": sets, "lhs_count": lhs_count, "rhs_count": rhs_count, "is_center": is_center(attrs)}


def tiles(known: dict) -> tuple[int, int]:
    """The number of tiles along the boxes of lhs, and along those of rhs."""
    _, lhs_count, rhs_count = sizes(known)
    return -(-lhs_count // TILE_ROWS), -(-rhs_count // TILE_COLUMNS)


def work(attrs, known: dict) -> tuple[int, int]:
    """A block for each tile of each pair of sets."""
    sets, _, _ = sizes(known)
    return sets * math.prod(tiles(known)), BLOCK


def steps(direction: str, attrs, known: dict) -> Steps:
    """In backward: the sums of each box over each tile, which are ``partial``; those over all tiles."""
    if direction == "forward":
        return Steps()
    sets, lhs_count, rhs_count = sizes(known)
    row_tiles, column_tiles = tiles(known)
    return Steps(1, NUMBERS * sets * (lhs_count * column_tiles + rhs_count * row_tiles), (0, 1))


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
    cuda=Cuda(scalars=scalars, forward=work, backward=work, steps=steps),
    accumulate_fp32=True,
)
