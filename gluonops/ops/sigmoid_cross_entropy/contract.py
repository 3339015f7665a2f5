"""The contract of ``sigmoid_cross_entropy``."""
from __future__ import annotations

from ...core.contract import FLOATS, Arg, Attr, Cuda, Numbers, Op, Optional, Out, Shapes
from .._labels.contract import IGNORE, ignore_scalars, weight_scalars
from .._sigmoid.contract import elements, size
from .._softmax.contract import AXIS, LOGITS, row_sizes


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    sizes = row_sizes(attrs, known)
    return {
        "size": size(known),
        "classes": sizes["classes"],
        "inner": sizes["inner"],
        **ignore_scalars(attrs),
        **weight_scalars("pos_weight", attrs.pos_weight, sizes["classes"]),
    }


OP = Op(
    name="sigmoid_cross_entropy",
    summary="binary cross-entropy per element, fused with the sigmoid",
    family="softmax and sigmoid",
    role="loss",
    inputs=(Arg("data", "T", "logits, any shape"),
            Arg("label", "T", "probabilities of the positives, the shape of data", gradient=False)),
    outputs=(Out("output", "T", "loss per element, the shape of data"),),
    attrs=(AXIS,
           Attr("pos_weight", Optional(Numbers(0)), None, "weight of the positives: one for each class, or for all"),
           IGNORE),
    types={"T": FLOATS},
    shapes=Shapes(data=LOGITS, label=LOGITS, output=LOGITS),
    backward=("output_grad", "data", "label"),
    derived={"size": "data.size", "one_weight": "pos_weight is None or len(pos_weight) == 1"},
    cuda=Cuda(scalars=scalars, forward=elements, backward=elements),
    accumulate_fp32=True,
    counts={"pos_weight": "classes"},
)
