"""The contract of ``box_iou``."""
import math

from ...contract.op import THREADS, Arg, Array, Cuda, Launch, Op, Out, Shapes
from .._boxes.contract import FORMAT

BLOCKS = 792    # the number of blocks that occupies a large GPU
ROWS = 16       # the boxes of lhs that a thread of forward has
BAND = 64       # the fewest boxes of lhs for each of the blocks that share them


def forward(args) -> Launch:
    """Return the launch in which a thread takes a box of rhs with ROWS boxes of lhs."""
    return Launch(math.ceil(args.sets * math.ceil(args.lhs_boxes / ROWS) * args.rhs_boxes / THREADS))


def backward(args) -> Launch:
    """Return the launch in which a block takes a tile of pairs.

    A tile has up to HELD boxes of rhs for each thread along x, and a band of the boxes of lhs.
    """
    tiles = args.sets * args.column_tiles
    bands = max(1, min(BLOCKS // max(1, tiles), math.ceil(args.lhs_boxes / BAND)))
    return Launch(tiles, (args.lanes, THREADS // args.lanes), bands)


OP = Op(
    name="box_iou",
    summary="intersection over union of every pair of boxes",
    family="boxes and detection",
    inputs=(Arg("lhs", "T", doc="Boxes, (..., N, 4); float16, float32 or float64; in any unit."),
            Arg("rhs", "T", doc="Boxes, (..., M, 4), with the dtype, the unit and the leading sizes of ``lhs``.")),
    outputs=(Out("output", "T", "(..., N, M)"),),
    attrs=(FORMAT,),
    shapes=Shapes(lhs="sets..., lhs_boxes, 4", rhs="sets..., rhs_boxes, 4", output="sets..., lhs_boxes, rhs_boxes"),
    scratch=(Array("planes", "A", "sets * 4 * rhs_boxes"),),
    constants={"ROWS": ROWS, "HELD": 4},
    cuda=Cuda(
        forward=forward,
        backward=backward,
        derived={"lanes": "4 if rhs_boxes <= 16 else 8 if rhs_boxes <= 32 else 16 if rhs_boxes <= 64 else 32",
                 "column_tiles": "max(1, (rhs_boxes + HELD * lanes - 1) // (HELD * lanes))"},
        # The last of the blocks that have the same boxes adds up the sums of all.
        scratch=(Array("lhs_counts", "uint32", "sets * splits", "backward", kept=True),
                 Array("rhs_counts", "uint32", "sets * column_tiles", "backward", kept=True),
                 Array("lhs_sums", "A", "4 * sets * lhs_boxes * column_tiles if column_tiles > 1 else 0", "backward"),
                 Array("rhs_sums", "A", "4 * sets * rhs_boxes * splits", "backward")),
        backward_bounds="THREADS, sizeof(T) == 8 ? 1 : 2",
    ),
)
