"""What ``reorg`` declares."""
import math

from ...core.contract import FLOATS, INTEGERS, Arg, Attr, Bool, Choice, Cuda, Int, Op, Out, Size, names

MODES = ("darknet", "DCR", "CRD")


def shapes(attrs, ndims):
    batch, channels, height, width = data = names("batch channels height width")
    s = Size("stride", attrs.stride)
    if attrs.reverse:
        return {"data": data, "output": (batch, channels / (s * s), height * s, width * s)}, ()
    required = (channels / (s * s),) if attrs.mode == "darknet" else ()
    return {"data": data, "output": (batch, channels * (s * s), height / s, width / s)}, required


def scalars(attrs, known):
    """Sizes of the tensor with the larger image: data, or the output of ``reverse``."""
    batch, channels, height, width = known["data"]
    s = attrs.stride
    if attrs.reverse:
        channels, height, width = channels // (s * s), height * s, width * s
    # Darknet's reverse is DCR's.
    mode = "DCR" if attrs.reverse and attrs.mode == "darknet" else attrs.mode
    return {"batch": batch, "channels": channels, "height": height, "width": width, "stride": s,
            "mode": MODES.index(mode), "reverse": int(attrs.reverse)}


def elements(attrs, known):
    return math.prod(known["data"]), 1


OP = Op(
    name="reorg",
    summary="space to depth and back, in Darknet's, DCR or CRD order",
    inputs=(Arg("data", "T", "(batch, channels, height, width)"),),
    outputs=(Out("output", "T", "(batch, channels*s*s, height/s, width/s)"),),
    attrs=(Attr("stride", Int(1), 2, "side of the blocks that move into channels"),
           Attr("mode", Choice(*MODES), "darknet", "order of the output channels"),
           Attr("reverse", Bool(), False, "depth to space instead")),
    types={"T": FLOATS + INTEGERS},
    shapes=shapes,
    backward=("output_grad",),
    cuda=Cuda(scalars=scalars, forward=elements, backward=elements),
)
