"""The contract of ``center_loss``."""
from __future__ import annotations

import math

from ...core.contract import BLOCK, FLOATS, LABELS, Arg, Array, Cuda, Indices, Op, Out, Shapes, Steps
from .._blocks.contract import shared_rows

TILE_FEATURES = 512   # that a block has at a time
BLOCKS = 1056         # that occupy a large GPU
WINDOW = 1024         # samples that a block looks at together


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    (batch, features), classes = known["data"], known["centers"][0]
    return {"batch": batch, "classes": classes, "features": features}


def forward_work(attrs, known: dict) -> tuple[int, int]:
    """One row of features per sample."""
    batch, features = known["data"]
    return batch, max(2, features)


def feature_tiles(known: dict) -> int:
    """The tiles of features, which a block has one after the other."""
    return math.ceil(known["data"][1] / TILE_FEATURES)


def backward_work(attrs, known: dict) -> tuple[int, int]:
    """A block for each class. Samples without a class are one more class."""
    return known["centers"][0] + 1, BLOCK


def steps(direction: str, attrs, known: dict) -> Steps:
    """In backward several blocks share a class where there are few: each has some of the samples."""
    if direction == "forward":
        return Steps()
    (batch, features), classes = known["data"], known["centers"][0]
    blocks = max(1, min(BLOCKS // max(1, classes), math.ceil(batch / WINDOW)))
    return shared_rows(classes * feature_tiles(known), blocks, classes * blocks * features)


OP = Op(
    name="center_loss",
    summary="half the squared distance to the centre of the label's class",
    family="other losses",
    role="loss",
    inputs=(Arg("data", "T", "features, (batch, features)"),
            Arg("label", "L", "class indices, (batch,)", gradient=False, values=Indices("classes")),
            Arg("centers", "T", "centres of the classes, (classes, features)")),
    outputs=(Out("output", "T", "loss per sample, (batch,)"),),
    attrs=(),
    types={"T": FLOATS, "L": LABELS},
    shapes=Shapes(data="batch, features", label="batch", centers="classes, features", output="batch"),
    backward=("output_grad", "data", "label", "centers"),
    # The samples of a class as a list: its first sample, and the sample after each sample.
    scratch=(Array("first", "int64", "classes", "backward"), Array("next", "int64", "batch", "backward")),
    cuda=Cuda(scalars=scalars, forward=forward_work, backward=backward_work, steps=steps),
    accumulate_fp32=True,
)
