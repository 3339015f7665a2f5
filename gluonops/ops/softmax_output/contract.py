"""The contract of ``softmax_output``."""
from ...contract.op import Array, Attr, Becomes, Choice, Cuda, Float, Launch, Op, Out, Shapes
from .._labels.contract import IGNORE, LABEL
from .._softmax import contract as family
from .._softmax.contract import AXIS, LOGITS, NEEDS_A_BATCH, ROWS


def backward(args) -> Launch:
    """It counts the labels that are not ignored, if it divides by that number."""
    sizes = family.sizes(args)
    counts_labels = args.normalization == "valid" and args.ignore_label is not None
    return family.launched(sizes[0], family.held_threads(*sizes), family.streamed_splits(*sizes),
                           ("COUNT", "GRADIENT") if counts_labels else ("GRADIENT",))


OP = Op(
    name="softmax_output",
    summary="loss head for Module: probabilities, with the gradient of the cross-entropy",
    family="softmax and sigmoid",
    role="loss head",
    inference=Becomes("softmax", inputs=("data",), attrs=("axis",)),
    inputs=(family.DATA, LABEL),
    outputs=(Out("output", "T", "shape of data"),),
    attrs=(AXIS,
           IGNORE,
           Attr("normalization", Choice("null", "batch", "valid"), "null",
                "Divisor of the gradient: 1, the batch size, or the number of labels that are not ignored."),
           Attr("grad_scale", Float(), 1.0, "Multiplies the gradient.")),
    shapes=Shapes(data=LOGITS, label=ROWS, output=LOGITS),
    refused=(NEEDS_A_BATCH,),
    backward=("output", "label"),
    cuda=Cuda(
        forward=family.held_rows,
        backward=backward,
        steps=(*family.STEPS, "COUNT", "GRADIENT"),
        scratch=(*family.gathered("forward"), Array("label_counts", "float64", "LABEL_COUNTS", "backward")),
        forward_bounds="THREADS, sizeof(T) == 8 ? 1 : 2",
        backward_bounds="THREADS, sizeof(T) == 8 ? 2 : 4",
    ),
    derived={"samples": "label.samples"},
    constants={"LABEL_COUNTS": 256},   # one per block, of the labels that are not ignored
    avx512=("float32", "float16"),
)
