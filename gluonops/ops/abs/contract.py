"""What ``abs`` declares."""
import math

from ...core.contract import FLOATS, INTEGERS, Arg, Cuda, Dim, Op, Out


def shapes(attrs, ndims):
    every = tuple(Dim(f"dim{i}") for i in range(ndims["data"]))
    return {"data": every, "output": every}, ()


def elements(attrs, known):
    return math.prod(known["data"]), 1


OP = Op(
    name="abs",
    summary="absolute value",
    inputs=(Arg("data", "T", "any shape"),),
    outputs=(Out("output", "T", "shape of data"),),
    attrs=(),
    types={"T": FLOATS + INTEGERS},
    shapes=shapes,
    backward=("output_grad", "data"),
    cuda=Cuda(scalars=lambda attrs, known: {"size": math.prod(known["data"])}, forward=elements, backward=elements),
)
