"""The contract of an operator that divides rows by the root of their squares, and scales what is at each place."""
from __future__ import annotations

import math

from ...core.contract import FLOATS, Arg, Attr, Cuda, Float, Int, Op, Out, Shapes

MOST_SLICES = 64         # of the batch, whose gradients of the scale are summed at the same time
LEAST_OF_A_SLICE = 4     # samples
NARROW_ROW = 32          # elements of a row that gets 4 threads

DATA = "batch..., channels@axis, ..."
ROWS_AND_AXIS = "batch..., 1, ..."   # one value per row, as keepdims shape


def sizes(attrs, known: dict) -> tuple[int, int, int]:
    """The data's shape as (outer, length, inner): in front of the axis, along it, and behind it."""
    shape = known["data"]
    axis = attrs.axis % len(shape)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1:])


def row_length(length: int, inner: int) -> int:
    """The length that decides on the number of threads. Rows that are neighbours in memory get few."""
    return max(2, length if inner == 1 else min(length, NARROW_ROW))


def forward_work(attrs, known: dict) -> tuple[int, int]:
    """One row for each (outer, inner)."""
    outer, length, inner = sizes(attrs, known)
    return outer * inner, row_length(length, inner)


def slices(attrs, known: dict) -> int:
    """Into how many slices the samples are divided for the gradient of the scale."""
    outer, _, _ = sizes(attrs, known)
    return max(1, min(MOST_SLICES, outer // LEAST_OF_A_SLICE))


def backward_work(attrs, known: dict) -> tuple[int, int]:
    """The rows of a slice, and at least the channels."""
    outer, length, inner = sizes(attrs, known)
    rows = -(-outer * inner // slices(attrs, known))
    return max(rows, length if inner > 1 else 1), row_length(length, inner)


def steps(direction: str, attrs, known: dict) -> tuple[int, int]:
    """Backward: every slice has a partial of each channel's gradient."""
    if direction == "forward":
        return 1, 0
    count = slices(attrs, known)
    return count, count * known["data"][attrs.axis]


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
        inputs=(Arg("data", "T", "any shape"),
                Arg("scale", "T", "factor at each place along axis, (channels,)")),
        outputs=(Out("output", "T", "shape of data"),
                 Out("inverse", "A", "1 / root, per row")),
        attrs=(Attr("axis", Int(), axis, "axis of the channels"),
               Attr("eps", Float(low=1e-12, below=1), eps, "added under the root")),
        types={"T": FLOATS},
        shapes=Shapes(data=DATA, scale="channels", output=DATA, inverse=ROWS_AND_AXIS),
        backward=("output_grad", "data", "scale", "inverse"),
        cuda=Cuda(scalars=scalars, forward=forward_work, backward=backward_work, steps=steps),
        accumulate_fp32=True,
    )
