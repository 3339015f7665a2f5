"""The contract of ``softmax``."""
from __future__ import annotations

from ...core.contract import FLOATS, Arg, Attr, Cuda, Float, Op, Out, Shapes
from .._softmax.contract import AXIS, LOGITS, row_sizes, row_work, steps


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    return {**row_sizes(attrs, known), "temperature": attrs.temperature}


OP = Op(
    name="softmax",
    summary="probabilities along an axis",
    family="softmax and sigmoid",
    inputs=(Arg("data", "T", "any shape"),),
    outputs=(Out("output", "T", "shape of data"),),
    attrs=(AXIS, Attr("temperature", Float(above=0), 1.0, "divisor of the logits")),
    types={"T": FLOATS},
    shapes=Shapes(data=LOGITS, output=LOGITS),
    backward=("output_grad", "output"),
    cuda=Cuda(scalars=scalars, forward=row_work, backward=row_work, steps=steps),
    accumulate_fp32=True,
)
