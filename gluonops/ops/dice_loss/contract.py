"""The contract of ``dice_loss``."""
import math

from ...core.contract import FLOATS, LABELS, Arg, Array, Attr, Bool, Cuda, Float, Launch, Op, Out, Shapes
from .._labels.contract import CLASS_LABELS, IGNORE

MAPS = "batch, classes"
PLACES = "batch, inner..."
STEPS = ("PLACES", "CLASSES")   # The steps of forward; see kernel.cu.
BLOCKS = 1056   # So many occupy a large GPU.
PART = 1024     # A block has at least so many places of a class that several share.


def forward(args) -> Launch:
    """A block takes a class of a sample, or several do where there are few."""
    maps = args.batch * args.classes
    parts = max(1, min(BLOCKS // max(1, maps), math.ceil(args.inner / PART)))
    return Launch(maps, parts=parts, steps=STEPS)


def backward(args) -> Launch:
    """A thread takes a place."""
    return Launch.of_elements(args.batch * args.inner)


OP = Op(
    name="dice_loss",
    summary="1 - Dice coefficient of the softmax and the label of each class, per sample",
    family="softmax and sigmoid",
    role="loss",
    inputs=(Arg("data", "T"),
            Arg("label", "L", gradient=False, values=CLASS_LABELS)),
    outputs=(Out("output", "T", "loss per sample and class, (batch, classes)"),
             Out("intersection", "A", "sum of the probabilities at places of the class, (batch, classes)"),
             Out("total", "A", "sum of the (squared) probabilities and of the labels, (batch, classes)"),
             Out("max", "A", "maximum per place"),
             Out("log_sum", "A", "log(sum(exp(logits - max))) per place")),
    attrs=(IGNORE,
           Attr("smooth", Float(low=1e-7, below=1e6), 1e-5),
           Attr("squared", Bool(), True)),
    types={"T": FLOATS, "L": LABELS},
    shapes=Shapes(data="batch, classes, inner...", label=PLACES, output=MAPS, intersection=MAPS, total=MAPS, max=PLACES,
                  log_sum=PLACES),
    backward=("output_grad", "data", "label", "intersection", "total", "max", "log_sum"),
    cuda=Cuda(
        forward=forward,
        backward=backward,
        steps=STEPS,
        # The softmax of each place; and of the blocks that share a class, whose last one adds up their sums.
        scratch=(Array("place_max", "A", "batch * inner", "forward"),
                 Array("place_log_sum", "A", "batch * inner", "forward"),
                 Array("counts", "uint32", "batch * classes", "forward", kept=True),
                 Array("sums", "A", "2 * batch * classes * parts", "forward")),
        forward_bounds="256",
    ),
    accumulate_fp32=True,
    constants={"BLOCK_PLACES": 512},   # places per block of a sum in C++
    derived={"blocks": "(inner + BLOCK_PLACES - 1) // BLOCK_PLACES"},
    scratch=(Array("partial", "float64", "2 * batch * blocks * classes", "forward"),),   # two sums for each class
)
