"""The contract of ``center_loss``."""
from __future__ import annotations

from ...core.contract import FLOATS, LABELS, Arg, Cuda, Indices, Op, Out, Shapes


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    batch, features = known["data"]
    return {"batch": batch, "classes": known["centers"][0], "features": features}


def forward_work(attrs, known: dict) -> tuple[int, int]:
    """One row of features per sample."""
    batch, features = known["data"]
    return batch, max(2, features)


def backward_work(attrs, known: dict) -> tuple[int, int]:
    """One row of features per sample, then one per class."""
    batch, features = known["data"]
    return batch + known["centers"][0], max(2, features)


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
    cuda=Cuda(scalars=scalars, forward=forward_work, backward=backward_work),
    accumulate_fp32=True,
)
