"""The contract of an operator that divides rows by the root of their squares, and scales what is at each place."""
from __future__ import annotations

import math

from ...core.contract import FLOATS, Arg, Array, Attr, Cuda, Float, Int, Op, Out, Shapes, Steps
from .._softmax.contract import length_for, power_of_two, threads_per_row

HELD = 32            # elements that a thread holds in registers
WARP = 32            # threads
THREADS = 256        # of a block
MOST_BLOCKS = 512    # of backward; each has sums of its own for the gradient of the scale

DATA = "batch..., channels@axis, inner..."
ROWS_AND_AXIS = "batch..., 1, inner..."   # one value per row, as keepdims shape


def sizes(attrs, known: dict) -> tuple[int, int, int]:
    """The data's shape as (outer, length, inner): in front of the axis, along it, and behind it."""
    shape = known["data"]
    axis = attrs.axis % len(shape)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1:])


def threads(length: int, inner: int) -> int:
    """The threads of a row. Rows that are neighbours in memory get few, so that many of them share a block."""
    if inner == 1:
        return threads_per_row(length)
    return min(WARP, power_of_two(length / HELD))


def forward_work(attrs, known: dict) -> tuple[int, int]:
    """One row for each (outer, inner)."""
    outer, length, inner = sizes(attrs, known)
    return outer * inner, length_for(threads(length, inner))


def parts(attrs, known: dict) -> int:
    """The number of parts of a row, each of which its threads can hold."""
    _, length, inner = sizes(attrs, known)
    return -(-length // (HELD * threads(length, inner))) or 1


def backward_work(attrs, known: dict) -> tuple[int, int]:
    """As many rows as the blocks have at the same time."""
    rows, length = forward_work(attrs, known)
    _, channels, inner = sizes(attrs, known)
    most = max(1, MOST_BLOCKS // parts(attrs, known)) * (THREADS // threads(channels, inner))
    return min(rows, most), length


def steps(direction: str, attrs, known: dict) -> Steps:
    """Backward: the dot products of long rows; the data's gradient; the scale's gradient.

    ``partial`` has the dot product of each part of a row, if there are several, and each block's sums for each channel.
    """
    if direction == "forward":
        return Steps()
    outer, length, inner = sizes(attrs, known)
    number_of_parts = parts(attrs, known)
    if number_of_parts == 1:
        return Steps(1, MOST_BLOCKS * length, (1, 2))
    return Steps(number_of_parts, outer * inner * number_of_parts + MOST_BLOCKS * length, (0, 1, 2))


def scaled_rows(name: str, summary: str, by_mean: bool, axis: int, eps: float) -> Op:
    """The contract of ``rms_norm`` or of ``l2_normalize``.

    Parameters
    ----------
    name, summary : str
    by_mean : bool
        Whether rows are divided by the root of the mean, or of the sum, of their squares.
    axis, eps : int, float
        The defaults.
    """
    def scalars(attrs, known: dict) -> dict:
        outer, length, inner = sizes(attrs, known)
        share = 1.0 / max(1, length) if by_mean else 1.0
        return {"outer": outer, "length": length, "inner": inner, "share": share, "eps": attrs.eps}

    return Op(
        name=name,
        summary=summary,
        family="normalisation",
        inputs=(Arg("data", "T", "any shape"),
                Arg("scale", "T", "factor at each place along axis, (channels,)")),
        outputs=(Out("output", "T", "shape of data"),
                 Out("inverse", "A", "1 / root, per row")),
        attrs=(Attr("axis", Int(), axis, "axis of the channels"),
               Attr("eps", Float(low=1e-12, below=1), eps, "added under the root")),
        types={"T": FLOATS},
        shapes=Shapes(data=DATA, scale="channels", output=DATA, inverse=ROWS_AND_AXIS),
        backward=("output_grad", "data", "scale", "inverse"),
        # Where rows are columns, each sample is a block.
        derived={"share": "1 / max(1, channels)" if by_mean else "1.0",
                 "blocks": "min(batch, MOST_BLOCKS) if inner == 1 else batch"},
        constants={"MOST_BLOCKS": 64},
        scratch=(Array("partial", "A", "blocks * channels", "backward"),),
        cuda=Cuda(scalars=scalars, forward=forward_work, backward=backward_work, steps=steps),
        accumulate_fp32=True,
    )
