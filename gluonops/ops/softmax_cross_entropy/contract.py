"""What ``softmax_cross_entropy`` declares."""
from ...core.contract import FLOATS, LABELS, Arg, Attr, Bool, Cuda, Float, Indices, Op, Out, Refused, Shapes
from .._labels.contract import IGNORE, ignore_scalars
from .._softmax.contract import (
    AXIS,
    LOGITS,
    NEEDS_A_BATCH,
    ROWS,
    ROWS_AND_AXIS,
    left_by_shares,
    row_sizes,
    row_work,
    shares,
)

DENSE_LABELS = "Pass class indices; or probabilities, one-hot labels among them, with sparse_label=False"


def scalars(attrs, known):
    return {**row_sizes(attrs, known), **ignore_scalars(attrs), "sparse": int(attrs.sparse_label),
            "smoothing": attrs.smoothing}


def steps(direction, attrs, known):
    """The sums that make a row's loss are from all its blocks, and so is the sum of its probabilities in ``label``."""
    if direction == "backward" and attrs.sparse_label:
        return shares(attrs, known), 0
    return shares(attrs, known), left_by_shares(attrs, known, 4 if direction == "forward" else 1)


OP = Op(
    name="softmax_cross_entropy",
    summary="cross-entropy of every row, fused with its softmax",
    role="loss",
    inputs=(Arg("data", "T", "logits, any shape of at least two dimensions"),
            Arg("label", "L if sparse_label else T",
                "class indices, the shape of data without axis; or probabilities, the shape of data",
                gradient="not sparse_label",
                values=Indices("classes", ignore="ignore_label", when="sparse_label"))),
    outputs=(Out("output", "T", "the loss of every row"),
             Out("max", "A", "maximum of every row"),
             Out("log_sum", "A", "log(sum(exp(row - max)))")),
    attrs=(AXIS, IGNORE,
           Attr("smoothing", Float(low=0, below=1), 0.0, "share of the label spread over all classes"),
           Attr("sparse_label", Bool(), True, "whether label holds class indices")),
    types={"T": FLOATS, "L": LABELS},
    shapes=(
        Shapes(when="not sparse_label", data=LOGITS, label=LOGITS, output=ROWS, max=ROWS, log_sum=ROWS),
        # As gluon's loss takes it: the axis kept, with one class.
        Shapes(when="label.ndim == data.ndim", data=LOGITS, label=ROWS_AND_AXIS, output=ROWS_AND_AXIS,
               max=ROWS_AND_AXIS, log_sum=ROWS_AND_AXIS, remedies={"1": DENSE_LABELS}),
        Shapes(data=LOGITS, label=ROWS, output=ROWS, max=ROWS, log_sum=ROWS),
    ),
    refused=(
        Refused("ignore_label is not None and not sparse_label",
                "ignore_label is {ignore_label} and sparse_label is {sparse_label}",
                "Weight the rows instead: probabilities hold no label to ignore"),
        NEEDS_A_BATCH,
    ),
    backward=("output_grad", "data", "label", "max", "log_sum"),
    cuda=Cuda(scalars=scalars, forward=row_work, backward=row_work, steps=steps),
    accumulate_fp32=True,
)
