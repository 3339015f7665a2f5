"""The contract of ``center_loss``."""
from __future__ import annotations

import math

from ...core.contract import BLOCK, FLOATS, LABELS, Arg, Array, Cuda, Indices, Op, Out, Shapes, Steps

CHUNK = 256      # samples that are sorted together
BUCKETS = 1024   # of classes, for which it is noted where they begin in a chunk
BLOCKS = 1056    # that occupy a large GPU
SAMPLES = 32     # that a block takes at least, if several share a class
WARP = 32


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    (batch, features), classes = known["data"], known["centers"][0]
    return {"batch": batch, "classes": classes, "features": features, "bucket_bits": bucket_bits(classes)}


def bucket_bits(classes: int) -> int:
    """The logarithm of the classes that share a bucket. Samples without a class are one more class."""
    return max(0, (classes // BUCKETS).bit_length())


def forward_work(attrs, known: dict) -> tuple[int, int]:
    """One row of features per sample."""
    batch, features = known["data"]
    return batch, max(2, features)


def backward_work(attrs, known: dict) -> tuple[int, int]:
    """One block of threads per class."""
    return known["centers"][0], BLOCK


def steps(direction: str, attrs, known: dict) -> Steps:
    """In backward: sort the samples by class, and sum.

    ``partial`` has a number per sample, a sixteen-bit one per bucket of each chunk and one more, and, if several blocks
    share a class, a count for each of its warps of features, and a row of sums for each of these blocks.
    """
    if direction == "forward":
        return Steps()
    (batch, features), classes = known["data"], known["centers"][0]
    blocks = max(1, min(BLOCKS // max(1, classes), math.ceil(batch / SAMPLES)))
    buckets = (classes >> bucket_bits(classes)) + 1
    starts = math.ceil(math.ceil(batch / CHUNK) * (buckets + 1) / 4)
    shared = classes * (math.ceil(features / WARP) + blocks * features) if blocks > 1 else 0
    return Steps(blocks, batch + starts + shared, (0, 1))


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
