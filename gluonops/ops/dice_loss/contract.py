"""The contract of ``dice_loss``."""
import math

from ...contract.op import Arg, Array, Attr, Bool, Cuda, Float, Launch, Op, Out, Shapes, elements
from .._labels.contract import IGNORE, LABEL

MAPS = "batch, classes"
PIXELS = "batch, inner..."
PIXELS_AT_ONCE = 1024   # the fewest pixels for each of the blocks that share a sample
BLOCKS = 1056           # the number of blocks that occupies a large GPU


def forward(args) -> Launch:
    """Return the launch in which some blocks share a sample."""
    return Launch(args.batch, splits=max(1, min(BLOCKS // max(1, args.batch), math.ceil(args.inner / PIXELS_AT_ONCE))))


OP = Op(
    name="dice_loss",
    summary="1 - Dice coefficient of the softmax and the label of each class, per sample",
    family="softmax and sigmoid",
    role="loss",
    inputs=(Arg("data", "T", doc="Logits, (batch, classes, ...); float16, float32 or float64."), LABEL),
    outputs=(Out("output", "T", "loss per sample and class, (batch, classes)"),
             Out("intersection", "A", "sum of the probabilities at pixels of the class, (batch, classes)"),
             Out("total", "A", "sum of the (squared) probabilities and of the labels, (batch, classes)"),
             Out("max", "A", "maximum per pixel"),
             Out("log_sum", "A", "log(sum(exp(logits - max))) per pixel")),
    attrs=(IGNORE,
           Attr("smooth", Float(low=1e-7, below=1e6), 1e-5,
                "What is added to the numerator and to the denominator, from 1e-7 to below 1e6."),
           Attr("squared", Bool(), True,
                "Whether the denominator has the squares of the probabilities, as in the paper.")),
    shapes=Shapes(data="batch, classes, inner...", label=PIXELS, output=MAPS, intersection=MAPS, total=MAPS, max=PIXELS,
                  log_sum=PIXELS),
    cuda=Cuda(
        forward=forward,
        backward=elements("batch * inner"),
        # The last of the blocks that share a sample adds up their sums.
        scratch=(Array("counts", "uint32", "batch", "forward", kept=True),
                 Array("sums", "A", "2 * batch * classes * splits", "forward")),
        forward_bounds="THREADS, sizeof(T) == 8 ? 1 : 3",
    ),
    constants={"BLOCK_PIXELS": 512},   # pixels per block of a sum in C++
    derived={"blocks": "(inner + BLOCK_PIXELS - 1) // BLOCK_PIXELS"},
    scratch=(Array("partial", "float64", "2 * batch * blocks * classes", "forward"),),   # two sums for each class
)
