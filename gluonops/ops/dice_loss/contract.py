"""The contract of ``dice_loss``."""
from __future__ import annotations

import math

from ...core.contract import BLOCK, FLOATS, LABELS, Arg, Array, Attr, Bool, Cuda, Float, Op, Out, Shapes, Steps
from .._blocks.contract import shared_rows
from .._labels.contract import CLASS_LABELS, IGNORE, ignore_scalars

TILE = 1024       # places that a block takes
CLASS_SUMS = 2    # the intersection and the total
MAPS = "batch, classes"
PLACES = "batch, inner..."


def sizes(known: dict) -> dict:
    """The kernels' first arguments: samples, classes, and the places of a sample."""
    batch, classes, *rest = known["data"]
    return {"batch": batch, "classes": classes, "inner": math.prod(rest)}


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    return {**sizes(known), **ignore_scalars(attrs), "squared": int(attrs.squared), "smooth": attrs.smooth}


def tiles(known: dict) -> int:
    """The number of tiles of each sample."""
    return -(-sizes(known)["inner"] // TILE)


def forward_work(attrs, known: dict) -> tuple[int, int]:
    """A block for each tile."""
    return sizes(known)["batch"] * tiles(known), BLOCK


def backward_work(attrs, known: dict) -> tuple[int, int]:
    """A thread for each place."""
    size = sizes(known)
    return size["batch"] * size["inner"], 1


def steps(direction: str, attrs, known: dict) -> Steps:
    """In forward the last block of a sample adds up the sums of each class over each tile."""
    if direction == "backward":
        return Steps()
    size = sizes(known)
    return shared_rows(size["batch"], 1, CLASS_SUMS * size["batch"] * size["classes"] * tiles(known))


OP = Op(
    name="dice_loss",
    summary="1 - Dice coefficient of the softmax and the label of each class, per sample",
    family="softmax and sigmoid",
    role="loss",
    inputs=(Arg("data", "T", "logits, (batch, classes, ...)"),
            Arg("label", "L", "class indices, (batch, ...)", gradient=False, values=CLASS_LABELS)),
    outputs=(Out("output", "T", "loss per sample and class, (batch, classes)"),
             Out("intersection", "A", "sum of the probabilities at places of the class, (batch, classes)"),
             Out("total", "A", "sum of the (squared) probabilities and of the labels, (batch, classes)"),
             Out("max", "A", "maximum per place"),
             Out("log_sum", "A", "log(sum(exp(logits - max))) per place")),
    attrs=(IGNORE,
           Attr("smooth", Float(low=1e-7, below=1e6), 1e-5, "added to the numerator and to the denominator"),
           Attr("squared", Bool(), True, "whether the denominator has the squares of the probabilities")),
    types={"T": FLOATS, "L": LABELS},
    shapes=Shapes(data="batch, classes, inner...", label=PLACES, output=MAPS, intersection=MAPS, total=MAPS, max=PLACES,
                  log_sum=PLACES),
    backward=("output_grad", "data", "label", "intersection", "total", "max", "log_sum"),
    cuda=Cuda(scalars=scalars, forward=forward_work, backward=backward_work, steps=steps),
    accumulate_fp32=True,
    constants={"BLOCK_PLACES": 512},   # of a block in C++
    derived={"blocks": "(inner + BLOCK_PLACES - 1) // BLOCK_PLACES"},
    scratch=(Array("partial", "float64", "2 * batch * blocks * classes", "forward"),),   # two sums for each class
)
