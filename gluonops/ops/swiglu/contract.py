"""The contract of ``swiglu``."""
from ...contract.op import Arg, Attr, Cuda, Int, Op, Out, Shapes, elements

OUTPUTS = elements("batch * length")

OP = Op(
    name="swiglu",
    summary="swish of the first half along an axis, times the second half",
    family="activations",
    inputs=(Arg("data", "T", doc="Any shape whose size along ``axis`` is even; float16, float32 or float64."),),
    outputs=(Out("output", "T", "data with half the size along axis"),),
    attrs=(Attr("axis", Int(), -1, "The axis of the halves."),),
    shapes=Shapes(data="batch..., channels@axis, inner...", output="batch..., channels / 2, inner..."),
    derived={"length": "channels // 2 * inner"},
    remedies={"channels": "Give the gate and the value the same size"},
    cuda=Cuda(forward=OUTPUTS, backward=OUTPUTS),
)
