"""The contract of ``swiglu``."""
from __future__ import annotations

import math

from ...core.contract import FLOATS, Arg, Attr, Cuda, Int, Op, Out, Shapes


def halves(attrs, known: dict) -> tuple[int, int]:
    """How many times a gate and a value lie behind each other in memory, and the elements of each."""
    shape = known["data"]
    axis = attrs.axis % len(shape)
    return math.prod(shape[:axis]), math.prod(shape[axis:]) // 2


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    outer, length = halves(attrs, known)
    return {"outer": outer, "length": length}


def elements(attrs, known: dict) -> tuple[int, int]:
    """One thread per element of the output."""
    return math.prod(halves(attrs, known)), 1


OP = Op(
    name="swiglu",
    summary="swish of the first half along an axis, times the second half",
    family="activations",
    inputs=(Arg("data", "T", "gate and value along axis"),),
    outputs=(Out("output", "T", "data with half the size along axis"),),
    attrs=(Attr("axis", Int(), -1, "axis of the halves"),),
    types={"T": FLOATS},
    shapes=Shapes(data="batch..., channels@axis, inner...", output="batch..., channels / 2, inner..."),
    derived={"length": "channels // 2 * inner"},
    remedies={"channels": "Give the gate and the value the same size"},
    backward=("output_grad", "data"),
    cuda=Cuda(scalars=scalars, forward=elements, backward=elements),
    accumulate_fp32=True,
)
