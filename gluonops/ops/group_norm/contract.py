"""The contract of ``group_norm``."""
from __future__ import annotations

import math

from ...core.contract import FLOATS, Arg, Array, Attr, Cuda, Float, Int, Op, Out, Shapes, Steps

GROUPS = "batch, num_groups"
SHORTEST_ROW = 2     # a length of 1 has another meaning; see Cuda
LONGEST_ROW = 4096   # a longer row gets as many threads
CHANNEL_SUMS = 2     # of the head gradient, and of its product with the normalised data


def sizes(attrs, known: dict) -> dict:
    """The kernels' first arguments: samples, their groups, the channels of a group, and what follows in the shape."""
    batch, channels, *rest = known["data"]
    groups = attrs.num_groups
    return {"batch": batch, "groups": groups, "group_channels": channels // groups, "inner": math.prod(rest)}


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    return {**sizes(attrs, known), "eps": attrs.eps}


def row_length(length: int) -> int:
    """The length that decides on the number of threads."""
    return min(max(SHORTEST_ROW, length), LONGEST_ROW)


def forward_work(attrs, known: dict) -> tuple[int, int]:
    """One row for each group of a sample."""
    size = sizes(attrs, known)
    return size["batch"] * size["groups"], row_length(size["group_channels"] * size["inner"])


def backward_work(attrs, known: dict) -> tuple[int, int]:
    """One row for each channel of a sample."""
    size = sizes(attrs, known)
    return size["batch"] * size["groups"] * size["group_channels"], row_length(size["inner"])


def steps(direction: str, attrs, known: dict) -> Steps:
    """In backward: the sums of channels, those of groups, the data's gradient.

    ``partial`` has the sums of each channel of a sample, and those of each group.
    """
    if direction == "forward":
        return Steps()
    size = sizes(attrs, known)
    rows = size["batch"] * size["groups"] * (size["group_channels"] + 1)
    return Steps(1, CHANNEL_SUMS * rows, (0, 1, 2))


OP = Op(
    name="group_norm",
    summary="groups of channels normalised to mean 0 and deviation 1, scaled and shifted",
    family="normalisation",
    inputs=(Arg("data", "T", "(batch, channels, ...)"),
            Arg("gamma", "T", "factor of each channel, (channels,)"),
            Arg("beta", "T", "what is added to each channel, (channels,)")),
    outputs=(Out("output", "T", "shape of data"),
             Out("mean", "A", "of each group, (batch, num_groups)"),
             Out("inverse", "A", "1 / root of the variance plus eps, (batch, num_groups)")),
    attrs=(Attr("num_groups", Int(1), 32, "number of groups that the channels are divided into"),
           Attr("eps", Float(low=1e-12, below=1), 1e-5, "added to the variance")),
    types={"T": FLOATS},
    shapes=Shapes(data="batch, channels, inner...", gamma="channels", beta="channels",
                  output="batch, channels, inner...", mean=GROUPS, inverse=GROUPS, whole="channels / num_groups"),
    remedies={"channels": "Choose another num_groups"},
    backward=("output_grad", "data", "gamma", "mean", "inverse"),
    cuda=Cuda(scalars=scalars, forward=forward_work, backward=backward_work, steps=steps),
    accumulate_fp32=True,
    derived={"group_channels": "channels // num_groups", "length": "group_channels * inner"},   # of a group
    scratch=(Array("head_sums", "float64", "batch * channels", "backward"),   # of each channel of a sample
             Array("unit_sums", "float64", "batch * channels", "backward")),
)
