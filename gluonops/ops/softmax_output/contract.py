"""The contract of ``softmax_output``."""
from __future__ import annotations

from ...core.contract import FLOATS, LABELS, Arg, Attr, Becomes, Choice, Cuda, Float, Number, Op, Out, Shapes, Steps
from .._labels.contract import CLASS_LABELS, IGNORE, ignore_scalars
from .._softmax import contract as family
from .._softmax.contract import AXIS, LOGITS, NEEDS_A_BATCH, ROWS, row_sizes

NORMALIZATIONS = ("null", "batch", "valid")
LABEL_COUNTS = 256   # partials of the number of labels that are not ignored


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    return {
        **row_sizes(attrs, known),
        **ignore_scalars(attrs),
        "batch": known["label"][0],
        "normalization": NORMALIZATIONS.index(attrs.normalization),
        "grad_scale": attrs.grad_scale,
    }


def steps(direction: str, attrs, known: dict) -> Steps | tuple[int, int]:
    """Those of softmax in forward. Backward counts the labels that are not ignored, if it divides by that number."""
    if direction == "forward":
        return family.steps(direction, attrs, known)
    counts_labels = attrs.normalization == "valid" and attrs.ignore_label is not None
    return family.parts(attrs, known), LABEL_COUNTS if counts_labels else 0


OP = Op(
    name="softmax_output",
    summary="loss head for Module: probabilities, with the gradient of the cross-entropy",
    family="softmax and sigmoid",
    role="loss head",
    inference=Becomes("softmax", inputs=("data",), attrs=("axis",)),
    inputs=(Arg("data", "T", "logits, any shape of at least two dimensions"),
            Arg("label", "L", "class indices, the shape of data without axis", gradient=False, values=CLASS_LABELS)),
    outputs=(Out("output", "T", "shape of data"),),
    attrs=(AXIS,
           IGNORE,
           Attr("normalization", Choice(*NORMALIZATIONS), "null",
                "divisor of the gradient: 1, the batch size, or the number of labels that are not ignored"),
           Attr("grad_scale", Float(), 1.0, "factor of the gradient")),
    types={"T": FLOATS, "L": LABELS},
    shapes=Shapes(data=LOGITS, label=ROWS, output=LOGITS),
    refused=(NEEDS_A_BATCH,),
    backward=("output", "label"),
    cuda=Cuda(scalars=scalars, forward=family.row_work, backward=family.row_work, steps=steps),
    accumulate_fp32=True,
    derived={"samples": Number("int64")},   # the size of the label's first axis
)
