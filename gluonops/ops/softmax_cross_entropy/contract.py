"""The contract of ``softmax_cross_entropy``."""
from ...core.contract import Arg, Attr, Bool, Cuda, Float, Indices, Launch, Op, Out, Refused, Shapes
from .._labels.contract import CLASS_WEIGHT, IGNORE
from .._softmax.contract import (
    AXIS,
    LOGITS,
    NEEDS_A_BATCH,
    ROWS,
    ROWS_AND_AXIS,
    STEPS,
    gathered,
    held_rows,
    streamed_rows,
)

DENSE_LABELS = "Pass class indices; or pass probabilities, such as one-hot labels, with sparse_label=False"


def backward(args) -> Launch:
    """The gradient of a row of dense labels needs their sum."""
    return streamed_rows(args) if args.sparse_label else held_rows(args)


OP = Op(
    name="softmax_cross_entropy",
    summary="cross-entropy per row, fused with the softmax",
    family="softmax and sigmoid",
    role="loss",
    inputs=(Arg("data", "T"),
            Arg("label", "L if sparse_label else T",
                gradient="not sparse_label",
                values=Indices("classes", ignore="ignore_label", when="sparse_label"))),
    outputs=(Out("output", "T", "loss per row"),
             Out("max", "A", "maximum per row"),
             Out("log_sum", "A", "log(sum(exp(row - max))) per row")),
    attrs=(AXIS,
           IGNORE,
           Attr("smoothing", Float(low=0, below=1), 0.0),
           Attr("sparse_label", Bool(), True),
           CLASS_WEIGHT),
    shapes=(
        Shapes(when="not sparse_label", data=LOGITS, label=LOGITS, output=ROWS, max=ROWS, log_sum=ROWS),
        # A label with size 1 at the axis, which gluon's loss allows.
        Shapes(when="label.ndim == data.ndim", data=LOGITS, label=ROWS_AND_AXIS, output=ROWS_AND_AXIS,
               max=ROWS_AND_AXIS, log_sum=ROWS_AND_AXIS, remedies={"1": DENSE_LABELS}),
        Shapes(data=LOGITS, label=ROWS, output=ROWS, max=ROWS, log_sum=ROWS),
    ),
    refused=(
        Refused("ignore_label is not None and not sparse_label",
                "ignore_label is {ignore_label} and sparse_label is {sparse_label}",
                "Leave ignore_label out, and use weights for the rows: probabilities cannot contain a label to ignore"),
        NEEDS_A_BATCH,
    ),
    backward=("output_grad", "data", "label", "max", "log_sum"),
    cuda=Cuda(
        forward=streamed_rows,
        backward=backward,
        steps=STEPS,
        # The sums that make a row's loss, and that of a row of dense labels.
        scratch=(*gathered("forward", 4), *gathered("backward", 1)),
        forward_bounds="256, Blocks<T, L>::FORWARD",
        backward_bounds="256, Blocks<T, L>::BACKWARD",
    ),
    counts={"class_weight": "classes"},
    derived={"label_weight": "1 - smoothing", "uniform": "smoothing / classes"},
    avx512=("float32", "float16"),
)
