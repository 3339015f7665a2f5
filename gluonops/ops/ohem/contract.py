"""The contract of ``ohem``."""
import math

from ...contract.op import (
    Arg,
    Array,
    Attr,
    Bool,
    Cuda,
    Float,
    Int,
    Launch,
    Op,
    Optional,
    Out,
    Refused,
    Shapes,
    each_element,
)

ONE_BLOCK = 8192             # losses of a selection that a block selects from by itself
SPLIT = 4096                 # losses that a block takes where a selection has several
MOST_BLOCKS = 1024
DIGIT_BITS = 11              # They are a sign, an exponent of float32 and two bits more: a quarter of an octave.
# There is a step for each digit of a loss's key, and one for the output.
STEPS = ("DIGIT0", "DIGIT1", "DIGIT2", "DIGIT3", "DIGIT4", "DIGIT5", "KEEP")


def forward(args) -> Launch:
    """Return the launch with a block for each selection, or with several.

    If there are several, each digit of the keys is a step, and so is the output.
    """
    splits = min(-(-args.length // SPLIT), MOST_BLOCKS // max(1, args.selections))
    if args.length <= ONE_BLOCK or splits < 2:
        return Launch(args.selections)
    digits = math.ceil((64 if args.dtype == "float64" else 32) / DIGIT_BITS)
    return Launch(args.selections, splits=splits, steps=(*STEPS[:digits], "KEEP"))


OP = Op(
    name="ohem",
    summary="the losses of the hardest examples, and 0 for the others",
    family="other losses",
    role="loss",
    inputs=(Arg("data", "T", doc="Losses, any shape; float16, float32 or float64. A loss of 0 does not count."),),
    outputs=(Out("output", "T", "the kept losses, and 0; shape of data"),),
    attrs=(Attr("keep", Optional(Int(0)), None,
                "How many losses are kept, at least 0. The default is as many as ``ratio`` says."),
           Attr("ratio", Float(low=0), 0.25,
                "The fraction of the losses that count that are kept, from 0 to 1, where ``keep`` is None."),
           Attr("threshold", Optional(Float()), None, "Larger losses are kept as well, however many there are."),
           Attr("per_sample", Bool(), False,
                "Whether each sample, an index of axis 0, has a selection of its own.")),
    shapes=Shapes(data="batch, rest...", output="batch, rest..."),
    derived={"selections": "batch if per_sample else 1", "length": "rest if per_sample else batch * rest"},
    refused=(Refused("ratio > 1", "ratio is above 1; expected a number from 0 to 1", "Pass a fraction"),),
    backward=("output_grad", "output"),
    # A bin counts the losses with a digit.
    constants={"DIGIT_BITS": DIGIT_BITS, "BINS": 1 << DIGIT_BITS, "BINS_IN_TURN": 3},
    cuda=Cuda(
        forward=forward,
        backward=each_element,
        steps=STEPS,
        derived={"size": "data.size"},
        # What the blocks of a selection share: how many losses have a digit, the lowest loss that is kept as far as it
        # is known in this step and in the one before, and the counts of each split by the last digit.
        scratch=(Array("bins", "uint64", "selections * BINS_IN_TURN * BINS if splits > 1 else 0", "forward", kept=True),
                 Array("lowest", "Lowest", "2 * selections if splits > 1 else 0", "forward", numbers=3),
                 Array("split_bins", "uint32", "selections * splits * BINS if splits > 1 else 0", "forward")),
        forward_bounds="THREADS, sizeof(T) == 8 ? 2 : 4",
    ),
    accumulate_fp32=False,
)
