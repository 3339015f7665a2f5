"""The contract of ``margin_softmax_cross_entropy``."""
import math

from ...core.contract import Arg, Attr, Bool, Cuda, Float, Launch, Number, Op, Out, Shapes
from .._labels.contract import CLASS_WEIGHT, IGNORE, LABEL
from .._softmax.contract import gathered, launched, streamed_parts, streamed_threads

COSINES = "batch, places..., classes"
ROWS = "batch, places..."


def streamed_rows(args) -> Launch:
    """The launch of the softmax family, for rows that lie behind each other."""
    sizes = args.rows, args.classes, 1
    return launched(args.rows, streamed_threads(*sizes), streamed_parts(*sizes))


OP = Op(
    name="margin_softmax_cross_entropy",
    summary="cross-entropy of scaled cosines, with a margin for the label's: ArcFace, CosFace, SphereFace",
    family="softmax and sigmoid",
    role="loss",
    inputs=(Arg("data", "T"), LABEL),
    outputs=(Out("output", "T", "loss per row"),
             Out("max", "A", "maximum per row, with the margin"),
             Out("log_sum", "A", "log(sum(exp(scale * (row - max)))) per row, with the margin")),
    attrs=(Attr("scale", Float(above=0), 64.0),
           Attr("m1", Float(above=0, below=16), 1.0),
           Attr("m2", Float(low=0, below=math.pi), 0.5),
           Attr("m3", Float(), 0.0),
           Attr("easy_margin", Bool(), False),
           IGNORE,
           CLASS_WEIGHT),
    shapes=Shapes(data=COSINES, label=ROWS, output=ROWS, max=ROWS, log_sum=ROWS),
    backward=("output_grad", "data", "label", "max", "log_sum"),
    cuda=Cuda(forward=streamed_rows, backward=streamed_rows, scratch=gathered("forward", 2, "rows"),
              forward_bounds="256, sizeof(T) == 8 ? 2 : 3", backward_bounds="256, sizeof(T) == 8 ? 2 : 3"),
    counts={"class_weight": "classes"},
    derived={"rows": "batch * places",
             "cosine_of_m2": Number("float64", "cos(m2)"),
             "sine_of_m2": Number("float64", "sin(m2)")},
)
