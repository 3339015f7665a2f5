"""The contract of ``box_iou``."""
from __future__ import annotations

import math

from ...core.contract import BLOCK, FLOATS, KEPT_NUMBERS, Arg, Cuda, Op, Out, Shapes, Steps
from .._boxes.contract import FORMAT, is_center

TILE_ROWS, TILE_COLUMNS = 384, 64           # boxes of lhs and of rhs whose pairs a block takes in forward
LEAST_ROWS, MOST_ROWS = 128, 768            # of lhs, of a tile of backward
BLOCKS = 512                                # that a large GPU has room for at a time in backward
TILES, BOXES, AT_ONCE = 0, 1, 2             # the steps in kernel.cu
NUMBERS = 4                                 # of a box


def sizes(known: dict) -> tuple[int, int, int]:
    """The number of pairs of sets, and of boxes in each set of a pair."""
    return math.prod(known["lhs"][:-2]), known["lhs"][-2], known["rhs"][-2]


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    sets, lhs_count, rhs_count = sizes(known)
    tile_rows, tile_columns = backward_tile(known)
    return {"sets": sets, "lhs_count": lhs_count, "rhs_count": rhs_count, "is_center": is_center(attrs),
            "tile_rows": tile_rows, "tile_columns": tile_columns}


def divided(count: int, by: int) -> int:
    """The quotient, rounded up."""
    return -(-count // by)


def evenly(count: int, parts: int) -> int:
    """The size of parts that are as equal as possible; 1 of nothing."""
    return max(1, divided(count, max(1, parts)))


def backward_tile(known: dict) -> tuple[int, int]:
    """The boxes of lhs and of rhs of a tile of backward: few of lhs where there are few tiles."""
    sets, lhs_count, rhs_count = sizes(known)
    of_columns = divided(rhs_count, TILE_COLUMNS)
    wanted = divided(BLOCKS, max(1, sets * of_columns))
    of_rows = min(max(wanted, divided(lhs_count, MOST_ROWS)), divided(lhs_count, LEAST_ROWS))
    return evenly(lhs_count, of_rows), evenly(rhs_count, of_columns)


def backward_tiles(known: dict) -> tuple[int, int]:
    """The number of tiles of backward along the boxes of lhs, and along those of rhs."""
    _, lhs_count, rhs_count = sizes(known)
    rows, columns = backward_tile(known)
    return divided(lhs_count, rows), divided(rhs_count, columns)


def forward_work(attrs, known: dict) -> tuple[int, int]:
    """A block for each tile of each pair of sets."""
    sets, lhs_count, rhs_count = sizes(known)
    return sets * divided(lhs_count, TILE_ROWS) * divided(rhs_count, TILE_COLUMNS), BLOCK


def backward_work(attrs, known: dict) -> tuple[int, int]:
    """A block for each tile of each pair of sets."""
    sets, _, _ = sizes(known)
    return sets * math.prod(backward_tiles(known)), BLOCK


def steps(direction: str, attrs, known: dict) -> Steps:
    """In backward: the sums of each box over each tile, which are ``partial``; those over all tiles.

    In front of them a count for each box of rhs. A tile with all boxes of rhs has the whole sums of its boxes of lhs.
    """
    if direction == "forward":
        return Steps()
    sets, lhs_count, rhs_count = sizes(known)
    row_tiles, column_tiles = backward_tiles(known)
    numbers = sets * rhs_count * (1 + NUMBERS * row_tiles)
    if column_tiles > 1:
        numbers += NUMBERS * sets * lhs_count * column_tiles
    at_once = column_tiles == 1 and numbers <= KEPT_NUMBERS
    return Steps(1, numbers, (AT_ONCE,) if at_once else (TILES, BOXES))


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
