"""The contract of ``ohem``."""
from __future__ import annotations

import math

from ...core.contract import (
    BLOCK,
    FLOATS,
    Arg,
    Attr,
    Bool,
    Cuda,
    Float,
    Int,
    Op,
    Optional,
    Out,
    Refused,
    Shapes,
    Steps,
)
from .._blocks.contract import shared_rows

ONE_BLOCK = 8192             # losses of a selection that a block selects from by itself
PART = 4096                  # losses that a block takes where a selection has several
MOST_BLOCKS = 1024
LARGEST_PART = 1 << 15       # whose losses are counted in 16 bits, with more blocks where they have to be
MOST_DIGITS = 6              # of the bits of a loss
NUMBERS = 2048 + 3           # the counts of a digit, and what is known of the lowest loss that is kept
PART_NUMBERS = 256           # the counts of the last digit, 1024 of 16 bits
DIGITS = {"float16": 2, "float32": 3, "float64": 6}


def sizes(attrs, known: dict) -> dict:
    """The kernels' first arguments: the number of selections, and the losses of each."""
    batch, *rest = known["data"]
    if attrs.per_sample:
        return {"selections": batch, "length": math.prod(rest)}
    return {"selections": 1, "length": batch * math.prod(rest)}


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors. Without ``keep`` and ``threshold`` there are a flag and a 0."""
    return {
        **sizes(attrs, known),
        "counts": int(attrs.keep is not None),
        "keep": attrs.keep or 0,
        "ratio": attrs.ratio,
        "bounded": int(attrs.threshold is not None),
        "threshold": attrs.threshold or 0.0,
    }


def forward_work(attrs, known: dict) -> tuple[int, int]:
    """A block of threads, or several, for each selection."""
    return sizes(attrs, known)["selections"], BLOCK


def backward_work(attrs, known: dict) -> tuple[int, int]:
    """One thread per element."""
    return math.prod(known["data"]), 1


def steps(direction: str, attrs, known: dict) -> Steps | dict[str, Steps]:
    """In forward, if selections have several blocks: each digit, and the output."""
    size = sizes(attrs, known)
    parts = min(-(-size["length"] // PART), MOST_BLOCKS // max(1, size["selections"]))
    if direction == "backward" or size["length"] <= ONE_BLOCK or parts < 2:
        return Steps()
    parts = max(parts, -(-size["length"] // LARGEST_PART))
    shared = shared_rows(size["selections"], parts, size["selections"] * (NUMBERS + parts * PART_NUMBERS))
    *clear, _ = shared.steps
    return {dtype: shared._replace(steps=(*clear, *range(1, digits + 1), MOST_DIGITS + 1))
            for dtype, digits in DIGITS.items()}


OP = Op(
    name="ohem",
    summary="the losses of the hardest examples, and 0 for the others",
    family="other losses",
    role="loss",
    inputs=(Arg("data", "T", "losses, any shape; 0 for what does not count"),),
    outputs=(Out("output", "T", "the kept losses, and 0; shape of data"),),
    attrs=(Attr("keep", Optional(Int(0)), None, "how many losses are kept; None: as many as ratio says"),
           Attr("ratio", Float(low=0), 0.25, "the fraction of the losses that are kept, where keep is None"),
           Attr("threshold", Optional(Float()), None, "larger losses are kept as well; None: no others"),
           Attr("per_sample", Bool(), False, "whether each sample has a selection of its own")),
    types={"T": FLOATS},
    shapes=Shapes(data="batch, rest...", output="batch, rest..."),
    derived={"selections": "batch if per_sample else 1", "length": "rest if per_sample else batch * rest"},
    refused=(Refused("ratio > 1", "ratio is above 1; expected a number from 0 to 1", "Pass a fraction"),),
    backward=("output_grad", "output"),
    cuda=Cuda(scalars=scalars, forward=forward_work, backward=backward_work, steps=steps),
)
