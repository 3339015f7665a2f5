"""The contract of ``softmax_cross_entropy``."""
from ...contract.op import Arg, Attr, Bool, Cuda, Float, Indices, Launch, Op, Refused, Shapes
from .._labels.contract import CLASS_WEIGHT, IGNORE
from .._softmax import contract as family
from .._softmax.contract import CLASS_INDICES, LOGITS, ROW_LOSS, ROWS

DENSE_LABELS = "Pass class indices; or pass probabilities, such as one-hot labels, with sparse_label=False"


def backward(args) -> Launch:
    """The gradient of a row of dense labels needs their sum."""
    return family.streamed_rows(args) if args.sparse_label else family.held_rows(args)


OP = Op(
    name="softmax_cross_entropy",
    summary="cross-entropy per row, fused with the softmax",
    family="softmax and sigmoid",
    role="loss",
    inputs=(family.DATA,
            Arg("label", "L if sparse_label else T",
                gradient="not sparse_label",
                values=Indices("classes", ignore="ignore_label", when="sparse_label"),
                doc=f"{CLASS_INDICES} With ``sparse_label=False``, probabilities in the shape and dtype of ``data``.")),
    outputs=ROW_LOSS,
    attrs=(family.AXIS,
           IGNORE,
           Attr("smoothing", Float(low=0, below=1), 0.0,
                "The share of the label that is distributed over all classes, at least 0 and below 1."),
           Attr("sparse_label", Bool(), True, "Whether ``label`` holds class indices. ``ignore_label`` needs them."),
           CLASS_WEIGHT),
    shapes=(
        Shapes(when="not sparse_label", data=LOGITS, label=LOGITS, output=ROWS, max=ROWS, log_sum=ROWS),
        *family.with_class_indices(remedies={"1": DENSE_LABELS}),
    ),
    refused=(
        Refused("ignore_label is not None and not sparse_label",
                "ignore_label is {ignore_label} and sparse_label is {sparse_label}; expected class indices as labels "
                "with ignore_label",
                "Leave ignore_label out, and use weights for the rows: probabilities cannot contain a label to ignore"),
        family.NEEDS_A_BATCH,
    ),
    cuda=Cuda(
        forward=family.summed_rows,
        backward=backward,
        steps=family.STEPS,
        # The sums that make a row's loss, and that of a row of dense labels.
        scratch=(*family.gathered("forward", "TARGET_NUMBERS"), *family.gathered("backward", 1)),
        forward_bounds="THREADS, MinBlocks<T, L>::FORWARD",
        backward_bounds="THREADS, MinBlocks<T, L>::BACKWARD",
    ),
    counts={"class_weight": "classes"},
    constants={"TARGET_NUMBERS": 4},   # the numbers of a TargetSums
    derived={"label_weight": "1 - smoothing", "uniform": "smoothing / classes"},
    avx512=("float32", "float16"),
)
