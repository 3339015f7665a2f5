"""What ``softmax_output`` declares."""
from ...core.contract import FLOATS, LABELS, Arg, Attr, Choice, Cuda, Float, Int, Op, Optional, Out, check_axis
from ...core.errors import OpError
from ..softmax import contract as softmax
from ..softmax.contract import AXIS, class_dims, row_sizes, row_work

IGNORE = Attr("ignore_label", Optional(Int()), None, "label of the rows that do not count")
NORMALIZATIONS = ("null", "batch", "valid")
COUNTS = 256   # of labels that are not ignored, each over a part of them


def label_dims(name, attrs, ndim):
    """(data's dimensions, label's dimensions): the label has all but the classes."""
    axis = check_axis(name, attrs.axis, ndim)
    dims = class_dims(ndim, axis)
    label = dims[:axis] + dims[axis + 1:]
    if not label:
        raise OpError(name, "data has 1 dimension; expected a batch of rows",
                      "Add a batch axis with expand_dims(axis=0)")
    return dims, label


def shapes(attrs, ndims):
    dims, label = label_dims(OP.name, attrs, ndims["data"])
    return {"data": dims, "label": label, "output": dims}, ()


def ignore_scalars(attrs):
    """How the kernels are told about ``ignore_label``."""
    return {"ignores": int(attrs.ignore_label is not None), "ignore_label": attrs.ignore_label or 0}


def scalars(attrs, known):
    return {**row_sizes(attrs, known), **ignore_scalars(attrs), "batch": known["label"][0],
            "normalization": NORMALIZATIONS.index(attrs.normalization), "grad_scale": attrs.grad_scale}


def steps(direction, attrs, known):
    """Forward as softmax's; the gradient may depend on how many labels are not ignored."""
    if direction == "forward":
        return softmax.steps(direction, attrs, known)
    counted = attrs.normalization == "valid" and attrs.ignore_label is not None
    return softmax.shares(attrs, known), COUNTS if counted else 0


OP = Op(
    name="softmax_output",
    summary="probabilities out, cross-entropy's gradient in: Module's loss head",
    inputs=(Arg("data", "T", "logits, any shape of at least two dimensions"),
            Arg("label", "L", "class indices, the shape of data without axis", gradient=False, classes="data")),
    outputs=(Out("output", "T", "shape of data"),),
    attrs=(AXIS, IGNORE,
           Attr("normalization", Choice(*NORMALIZATIONS), "null", "what the gradient is divided by"),
           Attr("grad_scale", Float(), 1.0, "multiplies the gradient")),
    types={"T": FLOATS, "L": LABELS},
    shapes=shapes,
    backward=("output", "label"),
    cuda=Cuda(scalars=scalars, forward=row_work, backward=row_work, steps=steps),
    wide=True,
)
