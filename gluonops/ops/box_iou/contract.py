"""The contract of ``box_iou``."""
from __future__ import annotations

from ...core.contract import FLOATS, Arg, Array, Cuda, Launch, Op, Out, Shapes
from .._boxes.contract import FORMAT


def forward(args) -> Launch:
    """A thread takes a box of rhs and some boxes of lhs."""
    return Launch.of_elements(args.sets * args.row_groups * args.rhs_boxes)


def backward(args) -> Launch:
    """A block takes a band of boxes of lhs."""
    return Launch(args.sets * args.bands)


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
        # Boxes of lhs: that a thread has in forward, and a block in backward.
        constants={"ROWS": 16, "BAND": 256},
        # Of a set.
        derived={"row_groups": "(lhs_boxes + ROWS - 1) // ROWS", "bands": "(lhs_boxes + BAND - 1) // BAND"},
        # The last block of a set adds up the sums of the boxes of rhs over all bands.
        scratch=(Array("counts", "uint32", "sets", "backward", kept=True),
                 Array("sums", "A", "5 * sets * bands * rhs_boxes", "backward")),
        backward_bounds="THREADS, sizeof(T) == 8 ? 2 : 4",
    ),
    accumulate_fp32=True,
)
