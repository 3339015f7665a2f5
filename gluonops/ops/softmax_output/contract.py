"""What ``softmax_output`` declares."""
from ...core.contract import FLOATS, LABELS, Arg, Attr, Becomes, Choice, Cuda, Float, Op, Out, Shapes
from .._labels.contract import CLASS_LABELS, IGNORE, ignore_scalars
from .._softmax import contract as family
from .._softmax.contract import AXIS, LOGITS, NEEDS_A_BATCH, ROWS, row_sizes

NORMALIZATIONS = ("null", "batch", "valid")
COUNTS = 256   # of labels that are not ignored, each over a part of them


def scalars(attrs, known):
    return {**row_sizes(attrs, known), **ignore_scalars(attrs), "batch": known["label"][0],
            "normalization": NORMALIZATIONS.index(attrs.normalization), "grad_scale": attrs.grad_scale}


def steps(direction, attrs, known):
    """Forward as softmax's; the gradient may depend on how many labels are not ignored."""
    if direction == "forward":
        return family.steps(direction, attrs, known)
    counted = attrs.normalization == "valid" and attrs.ignore_label is not None
    return family.shares(attrs, known), COUNTS if counted else 0


OP = Op(
    name="softmax_output",
    summary="probabilities out, cross-entropy's gradient in: Module's loss head",
    role="loss head",
    inference=Becomes("softmax", inputs=("data",), attrs=("axis",)),
    inputs=(Arg("data", "T", "logits, any shape of at least two dimensions"),
            Arg("label", "L", "class indices, the shape of data without axis", gradient=False, values=CLASS_LABELS)),
    outputs=(Out("output", "T", "shape of data"),),
    attrs=(AXIS, IGNORE,
           Attr("normalization", Choice(*NORMALIZATIONS), "null", "what the gradient is divided by"),
           Attr("grad_scale", Float(), 1.0, "multiplies the gradient")),
    types={"T": FLOATS, "L": LABELS},
    shapes=Shapes(data=LOGITS, label=ROWS, output=LOGITS),
    refused=(NEEDS_A_BATCH,),
    backward=("output", "label"),
    cuda=Cuda(scalars=scalars, forward=family.row_work, backward=family.row_work, steps=steps),
    accumulate_fp32=True,
)
