"""The contract of ``region_decode``."""
import math

from ...contract.op import THREADS, Arg, Attr, Choice, Cuda, Launch, Op, Out, Shapes
from .._region.contract import ANCHOR_COUNT, ANCHORS, CHANNELS, CLASSES, MAP, SOFTMAX


def predictions(args) -> Launch:
    """Return the launch with a thread for each prediction."""
    return Launch(math.ceil(args.batch * args.anchor_count * args.height * args.width / THREADS))


OP = Op(
    name="region_decode",
    summary="boxes, objectness and class probabilities of a YOLOv2 output map",
    family="boxes and detection",
    inputs=(Arg("data", "T"),),
    outputs=(Out("output", "T", "(batch, anchors, height, width, 5 + classes); with layout 'map' the shape of data"),),
    attrs=(ANCHORS,
           CLASSES,
           SOFTMAX,
           Attr("layout", Choice("boxes", "map"), "boxes", "One row per box, or Darknet's map of activations.")),
    shapes=(
        Shapes(when="layout == 'map'", data=MAP, output=MAP),
        Shapes(data=MAP, output=f"batch, anchors, height, width, {CHANNELS}"),
    ),
    cuda=Cuda(forward=predictions, backward=predictions, derived=ANCHOR_COUNT),
    derived={"channels": CHANNELS},
)
