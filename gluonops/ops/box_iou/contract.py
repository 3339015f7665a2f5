"""The contract of ``box_iou``."""
from ...core.contract import Arg, Array, Cuda, Launch, Op, Out, Shapes, elements
from .._boxes.contract import FORMAT

THREADS = 256   # A block of backward has so many, each for a box.
BLOCKS = 1056   # So many occupy a large GPU.
BAND = 32       # A thread has at least so many of the other input's boxes, where several share them.


def backward(args) -> Launch:
    """A thread takes a box of lhs or of rhs, for which several blocks share the boxes of the other input."""
    return Launch(args.lhs_blocks * args.lhs_bands + args.rhs_blocks * args.rhs_bands, (THREADS, 1))


def bands(own: str, other: str) -> dict[str, str]:
    """The blocks that the boxes of an input take, and the bands of the other input's boxes."""
    return {f"{own}_blocks": f"max(1, (sets * {own}_boxes + THREADS - 1) // THREADS)",
            f"{own}_bands": f"max(1, min({BLOCKS} // {own}_blocks, ({other}_boxes + {BAND} - 1) // {BAND}))"}


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
    cuda=Cuda(
        forward=elements("sets * lhs_boxes * rhs_boxes"),
        backward=backward,
        constants={"THREADS": THREADS},
        derived={**bands("lhs", "rhs"), **bands("rhs", "lhs")},
        # The last of the blocks that have the same boxes adds up the sums of all.
        scratch=(Array("lhs_counts", "uint32", "lhs_blocks", "backward", kept=True),
                 Array("rhs_counts", "uint32", "rhs_blocks", "backward", kept=True),
                 Array("lhs_sums", "A", "4 * sets * lhs_boxes * lhs_bands", "backward"),
                 Array("rhs_sums", "A", "4 * sets * rhs_boxes * rhs_bands", "backward")),
        backward_bounds="THREADS, sizeof(T) == 8 ? 2 : 4",
    ),
)
