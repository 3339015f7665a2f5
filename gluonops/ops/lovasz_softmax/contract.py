"""The contract of ``lovasz_softmax``."""
from ...contract.op import Arg, Array, Attr, Bool, Number, Op, Out, Shapes
from .._labels.contract import CLASS_WEIGHT, IGNORE, LABEL

OP = Op(
    name="lovasz_softmax",
    summary="Lovasz extension of 1 - Jaccard index of the softmax and the label, averaged over the classes",
    family="softmax and sigmoid",
    role="loss",
    inputs=(Arg("data", "T", doc="Logits, (batch, classes, ...); float16, float32 or float64."), LABEL),
    outputs=(Out("output", "T", "loss per sample, (batch,)"),
             Out("derivative", "A", "that of a sample's loss, or of the whole batch's; shape of data")),
    attrs=(Attr("per_sample", Bool(), False, "Whether each sample has a loss of its own. If not, all samples have the "
                "loss of the whole batch."),
           Attr("present_only", Bool(), True, "Whether classes without a label do not count in the mean."),
           IGNORE, CLASS_WEIGHT),
    shapes=Shapes(data="batch, classes, inner...", label="batch, inner...", output="batch",
                  derivative="batch, classes, inner..."),
    backward=("output_grad", "derivative"),
    cuda=None,
    unsupported={"kernel.cu": "a block of threads for each class would sort more slowly than MXNet's operators, which "
                              "sort with the whole GPU"},
    counts={"class_weight": "classes"},
    derived={"selections": "batch if per_sample else 1", "samples": "1 if per_sample else batch",   # one per selection
             "threads": Number("int64")},
    scratch=(
        Array("class_ids", "int32", "batch * inner", "forward"),
        Array("counts", "int64", "batch * (classes + 2)", "forward"),   # how many pixels a sample has with a class id
        # How the softmax of each pixel is computed.
        Array("maxima", "A", "batch * inner", "forward"), Array("inverse_sums", "A", "batch * inner", "forward"),
        # Each selection and each class has one.
        Array("shares", "float64", "selections * classes", "forward"),
        Array("losses", "float64", "selections * classes", "forward"),
        Array("items", "ErrorItem<A>", "2 * threads * samples * inner", "forward"),   # two arrays for each thread
    ),
)
