"""The contract of ``group_norm``."""
from __future__ import annotations

import math

from ...core.contract import BLOCK, FLOATS, KEPT_NUMBERS, Arg, Attr, Cuda, Float, Int, Op, Out, Shapes, Steps

GROUPS = "batch, num_groups"
SHORTEST_ROW = 2     # a length of 1 has another meaning; see Cuda
LONGEST_ROW = 4096   # a longer row gets as many threads
LONG_ROW = 513       # the shortest row that has a block
CHANNEL_SUMS = 2     # of the head gradient, and of its product with the normalised data
THREADS = 256        # of a block
PIECES = 2           # that a thread holds in backward
PIECE_BYTES = 32     # of a piece in packs of 16 bytes
PIECE_ITEMS = 8      # of another one
MAX_PARTS = 64       # of a group: blocks that wait for each other
ITEM_BYTES = {"float16": 2, "float32": 4, "float64": 8}


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


def has_long_groups(attrs, known: dict) -> bool:
    """Whether a group has blocks to itself in backward, whose places in it are numbers of 32 bits."""
    size = sizes(attrs, known)
    return LONG_ROW <= size["group_channels"] * size["inner"] < 1 << 30


def backward_work(attrs, known: dict) -> tuple[int, int]:
    """One row for each group of a sample, with a block for each part; of short groups, one for each of its channels."""
    if has_long_groups(attrs, known):
        return forward_work(attrs, known)[0], BLOCK
    size = sizes(attrs, known)
    return size["batch"] * size["groups"] * size["group_channels"], row_length(size["inner"])


def steps(direction: str, attrs, known: dict) -> Steps | dict[str, Steps]:
    """In backward: at once, where groups are long. Else the sums of channels, those of groups, the data's gradient.

    ``partial`` has the sums of each channel of a sample, and those of each group.
    """
    if direction == "forward":
        return Steps()
    if has_long_groups(attrs, known):
        return {dtype: at_once(attrs, known, dtype) for dtype in FLOATS}
    size = sizes(attrs, known)
    rows = size["batch"] * size["groups"] * (size["group_channels"] + 1)
    return Steps(1, CHANNEL_SUMS * rows, (2, 3, 4))


def at_once(attrs, known: dict, dtype: str) -> Steps:
    """Groups in parts of whole channels that blocks hold.

    ``partial`` has what the blocks of a group tell each other, a count for each part of the samples' channels, and the
    sums of each channel of a sample. Step 0 empties the former two where they are not kept.
    """
    size = sizes(attrs, known)
    count = size["batch"] * size["groups"]
    most = max(held_channels(size["inner"], ITEM_BYTES[dtype]), -(-size["group_channels"] // MAX_PARTS))
    parts = -(-size["group_channels"] // most)   # each has channels
    told = count * (1 + CHANNEL_SUMS * parts)
    sums = count * size["group_channels"] * (CHANNEL_SUMS if dtype == "float64" else 1)   # of two in float32
    numbers = told + parts * size["groups"] + sums
    return Steps(parts, numbers, (1,) if numbers <= KEPT_NUMBERS else (0, 1))


def held_channels(inner: int, item_bytes: int) -> int:
    """The channels of ``inner`` elements that a block holds in backward, at least one; see ``Teams`` in the kernel."""
    is_packed = inner * item_bytes % 16 == 0
    piece = PIECE_BYTES // item_bytes if is_packed else PIECE_ITEMS
    lanes = 1
    while lanes < THREADS and lanes * piece < inner:
        lanes *= 2
    chunks = -(-inner // (lanes * piece))
    return max(1, PIECES * (THREADS // lanes) // chunks)


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
    shapes=Shapes(data="batch, channels, ...", gamma="channels", beta="channels", output="batch, channels, ...",
                  mean=GROUPS, inverse=GROUPS, whole="channels / num_groups"),
    remedies={"channels": "Choose another num_groups"},
    backward=("output_grad", "data", "gamma", "mean", "inverse"),
    cuda=Cuda(scalars=scalars, forward=forward_work, backward=backward_work, steps=steps),
    accumulate_fp32=True,
)
