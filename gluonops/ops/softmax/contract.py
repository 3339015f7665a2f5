"""The contract of ``softmax``."""
from ...contract.op import Arg, Attr, Cuda, Float, Op, Out, Shapes
from .._softmax.contract import AXIS, LOGITS, STEPS, gathered, held_rows

WIDE_BLOCK = 512   # threads

OP = Op(
    name="softmax",
    summary="probabilities along an axis",
    family="softmax and sigmoid",
    inputs=(Arg("data", "T"),),
    outputs=(Out("output", "T", "shape of data"),),
    attrs=(AXIS, Attr("temperature", Float(above=0), 1.0, "Divides the logits; above 0.")),
    shapes=Shapes(data=LOGITS, output=LOGITS),
    backward=("output_grad", "output"),
    cuda=Cuda(forward=held_rows, backward=lambda args: held_rows(args, WIDE_BLOCK), steps=STEPS,
              scratch=(*gathered("forward"), *gathered("backward", 1)),
              forward_bounds="THREADS, sizeof(T) == 8 ? 1 : 2",
              backward_bounds=f"sizeof(T) == 8 ? THREADS : {WIDE_BLOCK}, 1"),
    avx512=("float32", "float16"),
)
