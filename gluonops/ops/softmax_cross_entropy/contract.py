"""What ``softmax_cross_entropy`` declares."""
from ...core.contract import FLOATS, LABELS, Arg, Attr, Bool, Cuda, Fixed, Float, Op, Out
from ..softmax.contract import AXIS, left_by_shares, row_sizes, row_work, shares
from ..softmax_output.contract import IGNORE, ignore_scalars, label_dims

REMEDY = "Pass class indices; or probabilities, one-hot labels among them, with sparse_label=False"


def shapes(attrs, ndims):
    data, rows = label_dims(OP.name, attrs, ndims["data"])
    if not attrs.sparse_label:
        return {"data": data, "label": data, "output": rows, "max": rows, "log_sum": rows}, ()
    if ndims["label"] == len(data):   # as gluon's loss takes it: the axis kept, with one class
        axis = attrs.axis % len(data)
        rows = rows[:axis] + (Fixed("the label's classes", 1, REMEDY),) + rows[axis:]
    return {"data": data, "label": rows, "output": rows, "max": rows, "log_sum": rows}, ()


def check(attrs):
    if attrs.ignore_label is not None and not attrs.sparse_label:
        return (f"ignore_label is {attrs.ignore_label} and sparse_label is False",
                "Weight the rows instead: probabilities hold no label to ignore")
    return None


def dense(attrs):
    """Whether the label is a tensor of probabilities, which has a gradient."""
    return not attrs.sparse_label


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
    inputs=(Arg("data", "T", "logits, any shape of at least two dimensions"),
            Arg("label", lambda attrs: "L" if attrs.sparse_label else "T",
                "class indices, the shape of data without axis; or probabilities, the shape of data",
                gradient=dense, classes="data")),
    outputs=(Out("output", "T", "the loss of every row"),
             Out("max", "A", "maximum of every row"),
             Out("log_sum", "A", "log(sum(exp(row - max)))")),
    attrs=(AXIS, IGNORE,
           Attr("smoothing", Float(low=0, below=1), 0.0, "share of the label spread over all classes"),
           Attr("sparse_label", Bool(), True, "whether label holds class indices")),
    types={"T": FLOATS, "L": LABELS},
    shapes=shapes,
    backward=("output_grad", "data", "label", "max", "log_sum"),
    cuda=Cuda(scalars=scalars, forward=row_work, backward=row_work, steps=steps),
    check=check,
    wide=True,
)
