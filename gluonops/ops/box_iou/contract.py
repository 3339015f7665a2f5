"""The contract of ``box_iou``."""
import math

from ...core.contract import FLOATS, Arg, Array, Cuda, Launch, Op, Out, Shapes, threads_along
from .._boxes.contract import FORMAT

THREADS = 256      # A block has so many.
LONGEST_ROW = 256  # A longer row of rhs gets as many threads.
BLOCKS = 1056      # So many occupy a large GPU.
BAND = 64          # So many boxes of lhs are one block's, where several share them.


def forward(args) -> Launch:
    """A thread takes a pair of boxes."""
    return Launch.of_elements(args.sets * args.lhs_boxes * args.rhs_boxes)


def backward(args) -> Launch:
    """Some threads take a box of lhs. Each takes a box of rhs, for which several blocks share the boxes of lhs."""
    lanes = threads_along(min(args.rhs_boxes, LONGEST_ROW))
    blocks = max(1, math.ceil(args.sets * args.rhs_boxes / THREADS))
    parts = max(1, min(BLOCKS // blocks, math.ceil(args.lhs_boxes / BAND)))
    return Launch(blocks, (lanes, THREADS // lanes), parts)


OP = Op(
    name="box_iou",
    summary="intersection over union of every pair of boxes",
    family="boxes and detection",
    inputs=(Arg("lhs", "T"),
            Arg("rhs", "T")),
    outputs=(Out("output", "T", "(..., N, M)"),),
    attrs=(FORMAT,),
    types={"T": FLOATS},
    shapes=Shapes(lhs="sets..., lhs_boxes, 4", rhs="sets..., rhs_boxes, 4", output="sets..., lhs_boxes, rhs_boxes"),
    scratch=(Array("planes", "A", "sets * 4 * rhs_boxes"),),
    backward=("output_grad", "lhs", "rhs"),
    cuda=Cuda(
        forward=forward,
        backward=backward,
        constants={"THREADS": THREADS},
        # The last of the blocks that have the same boxes of rhs adds up the sums of all.
        scratch=(Array("counts", "uint32", "(sets * rhs_boxes + THREADS - 1) // THREADS", "backward", kept=True),
                 Array("sums", "A", "4 * parts * sets * rhs_boxes", "backward")),
        backward_bounds="THREADS, 2",
    ),
    accumulate_fp32=True,
)
