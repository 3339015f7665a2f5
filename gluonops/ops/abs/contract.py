"""The contract of ``abs``."""
from __future__ import annotations

import math

from ...core.contract import FLOATS, INTEGERS, Arg, Cuda, Op, Out, Shapes


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    return {"size": math.prod(known["data"])}


def elements(attrs, known: dict) -> tuple[int, int]:
    """One thread per element."""
    return math.prod(known["data"]), 1


OP = Op(
    name="abs",
    summary="absolute value",
    family="activations",
    inputs=(Arg("data", "T", "any shape"),),
    outputs=(Out("output", "T", "shape of data"),),
    attrs=(),
    types={"T": FLOATS + INTEGERS},
    shapes=Shapes(data="...", output="..."),
    backward=("output_grad", "data"),
    cuda=Cuda(scalars=scalars, forward=elements, backward=elements),
)
