"""The contract of ``margin_softmax_cross_entropy``."""
import math

from ...contract.op import Arg, Attr, Bool, Cuda, Float, Launch, Number, Op, Out, Shapes
from .._labels.contract import CLASS_WEIGHT, IGNORE, LABEL
from .._softmax.contract import MAX_BLOCKS, ONE_WAVE, gathered, launched, streamed_splits, streamed_threads

COSINES = "batch, places..., classes"
ROWS = "batch, places..."


def streamed_rows(args, blocks: int = MAX_BLOCKS) -> Launch:
    """Return the launch of the softmax family, for rows that lie behind each other."""
    sizes = args.rows, args.classes, 1
    return launched(args.rows, streamed_threads(*sizes), streamed_splits(*sizes, blocks))


OP = Op(
    name="margin_softmax_cross_entropy",
    summary="cross-entropy of scaled cosines, with a margin for the label's: ArcFace, CosFace, SphereFace",
    family="softmax and sigmoid",
    role="loss",
    inputs=(Arg("data", "T", doc="Cosines, (batch, ..., classes); float16, float32 or float64. They are expected in -1 "
                "to 1, and not scaled."),
            LABEL),
    outputs=(Out("output", "T", "loss per row"),
             Out("max", "A", "maximum per row, with the margin"),
             Out("log_sum", "A", "log(sum(exp(scale * (row - max)))) per row, with the margin")),
    attrs=(Attr("scale", Float(above=0), 64.0, "Factor of the cosines, above 0."),
           Attr("m1", Float(above=0, below=16), 1.0, "Factor of the label's angle, above 0 and below 16. SphereFace's "
                "is 4; with embeddings of one length, 1.35 is usual."),
           Attr("m2", Float(low=0, below=math.pi), 0.5,
                "Added to the label's angle, in radians; at least 0 and below pi. ArcFace's is 0.5."),
           Attr("m3", Float(), 0.0, "Subtracted from the label's cosine. CosFace's is 0.35."),
           Attr("easy_margin", Bool(), False,
                "Whether labels with an angle above 90 degrees have no margin of the angle."),
           IGNORE,
           CLASS_WEIGHT),
    shapes=Shapes(data=COSINES, label=ROWS, output=ROWS, max=ROWS, log_sum=ROWS),
    cuda=Cuda(forward=lambda args: streamed_rows(args, ONE_WAVE), backward=streamed_rows,
              scratch=gathered("forward", rows="rows"), forward_bounds="THREADS, sizeof(T) == 8 ? 2 : 4",
              backward_bounds="THREADS, sizeof(T) == 8 ? 2 : 4"),
    counts={"class_weight": "classes"},
    derived={"rows": "batch * places",
             "cosine_of_m2": Number("float64", "cos(m2)"),
             "sine_of_m2": Number("float64", "sin(m2)")},
)
