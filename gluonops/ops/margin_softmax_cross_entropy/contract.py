"""The contract of ``margin_softmax_cross_entropy``."""
from __future__ import annotations

import math

from ...core.contract import FLOATS, LABELS, Arg, Attr, Bool, Cuda, Float, Number, Op, Out, Shapes, Steps
from .._labels.contract import CLASS_LABELS, CLASS_WEIGHT, IGNORE, ignore_scalars, weight_scalars
from .._softmax.contract import gathered, parts, rows, streamed_work

COSINES = "batch, places..., classes"
ROWS = "batch, places..."


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    count, classes, _ = rows(attrs, known["data"])
    return {
        "count": count,
        "classes": classes,
        **ignore_scalars(attrs),
        **weight_scalars("class_weight", attrs.class_weight, classes),
        "scale": attrs.scale,
        "m1": attrs.m1,
        "m2": attrs.m2,
        "m3": attrs.m3,
        "cosine_of_m2": math.cos(attrs.m2),
        "sine_of_m2": math.sin(attrs.m2),
        "easy_margin": int(attrs.easy_margin),
    }


def steps(direction: str, attrs, known: dict) -> Steps:
    """The number of parts of a row, and the numbers that its blocks exchange: two sums in forward, none in backward."""
    return gathered(attrs, known, 2) if direction == "forward" else Steps(parts(attrs, known))


OP = Op(
    name="margin_softmax_cross_entropy",
    summary="cross-entropy of scaled cosines, with a margin for the label's: ArcFace, CosFace, SphereFace",
    family="softmax and sigmoid",
    role="loss",
    inputs=(Arg("data", "T", "cosines, (batch, ..., classes)"),
            Arg("label", "L", "class indices, (batch, ...)", gradient=False, values=CLASS_LABELS)),
    outputs=(Out("output", "T", "loss per row"),
             Out("max", "A", "maximum per row, with the margin"),
             Out("log_sum", "A", "log(sum(exp(scale * (row - max)))) per row, with the margin")),
    attrs=(Attr("scale", Float(above=0), 64.0, "factor of the cosines"),
           Attr("m1", Float(above=0, below=16), 1.0, "factor of the label's angle (SphereFace)"),
           Attr("m2", Float(low=0, below=math.pi), 0.5, "added to the label's angle, in radians (ArcFace)"),
           Attr("m3", Float(), 0.0, "subtracted from the label's cosine (CosFace)"),
           Attr("easy_margin", Bool(), False, "no angular margin for a label whose angle is above 90 degrees"),
           IGNORE,
           CLASS_WEIGHT),
    types={"T": FLOATS, "L": LABELS},
    shapes=Shapes(data=COSINES, label=ROWS, output=ROWS, max=ROWS, log_sum=ROWS),
    backward=("output_grad", "data", "label", "max", "log_sum"),
    cuda=Cuda(scalars=scalars, forward=streamed_work, backward=streamed_work, steps=steps),
    accumulate_fp32=True,
    counts={"class_weight": "classes"},
    derived={"rows": "batch * places",
             "cosine_of_m2": Number("float64", "cos(m2)"),
             "sine_of_m2": Number("float64", "sin(m2)")},
)
