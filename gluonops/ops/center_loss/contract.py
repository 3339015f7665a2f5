"""The contract of ``center_loss``."""
from __future__ import annotations

import math

from ...core.contract import BLOCK, FLOATS, LABELS, Arg, Cuda, Indices, Op, Out, Shapes, Steps

CHUNK = 512     # samples that are sorted together
BLOCKS = 1024   # that occupy a large GPU
SAMPLES = 32    # that a block takes at least, if several share a class


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    batch, features = known["data"]
    return {"batch": batch, "classes": known["centers"][0], "features": features}


def forward_work(attrs, known: dict) -> tuple[int, int]:
    """One row of features per sample."""
    batch, features = known["data"]
    return batch, max(2, features)


def backward_work(attrs, known: dict) -> tuple[int, int]:
    """One block of threads per class, and one for samples without a class. To sort, a block takes CHUNK samples."""
    return max(known["centers"][0] + 1, math.ceil(known["data"][0] / CHUNK)), BLOCK


def steps(direction: str, attrs, known: dict) -> Steps:
    """In backward: sort the samples by class, sum, and combine the sums if several blocks share a class.

    ``partial`` has a number per sample, and a row of sums for each of these blocks.
    """
    if direction == "forward":
        return Steps()
    (batch, features), classes = known["data"], known["centers"][0]
    blocks = max(1, min(BLOCKS // max(1, classes), math.ceil(batch / SAMPLES)))
    sums = classes * blocks * features if blocks > 1 else 0
    return Steps(blocks, batch + sums, (0, 1, 2) if blocks > 1 else (0, 1))


OP = Op(
    name="center_loss",
    summary="half the squared distance to the centre of the label's class",
    role="loss",
    inputs=(Arg("data", "T", "features, (batch, features)"),
            Arg("label", "L", "class indices, (batch,)", gradient=False, values=Indices("classes")),
            Arg("centers", "T", "centres of the classes, (classes, features)")),
    outputs=(Out("output", "T", "loss per sample, (batch,)"),),
    attrs=(),
    types={"T": FLOATS, "L": LABELS},
    shapes=Shapes(data="batch, features", label="batch", centers="classes, features", output="batch"),
    backward=("output_grad", "data", "label", "centers"),
    cuda=Cuda(scalars=scalars, forward=forward_work, backward=backward_work, steps=steps),
    accumulate_fp32=True,
)
