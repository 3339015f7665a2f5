"""The contract of ``region_decode``."""
from __future__ import annotations

from ...core.contract import FLOATS, Arg, Attr, Choice, Cuda, Op, Out, Shapes
from .._region.contract import ANCHORS, CHANNELS, CLASSES, MAP, SOFTMAX, count, map_sizes

LAYOUTS = ("boxes", "map")


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    return {
        **map_sizes(attrs, known),
        "softmax": int(attrs.softmax),
        "layout": LAYOUTS.index(attrs.layout),
        "anchor_sizes": attrs.anchors,
    }


def work(attrs, known: dict) -> tuple[int, int]:
    """A thread for each prediction, one for each anchor and cell."""
    batch, _, height, width = known["data"]
    return batch * count(attrs) * height * width, 1


OP = Op(
    name="region_decode",
    summary="boxes, objectness and class probabilities of a YOLOv2 output map",
    family="boxes and detection",
    inputs=(Arg("data", "T", "(batch, anchors * (5 + classes), height, width)"),),
    outputs=(Out("output", "T", "(batch, anchors, height, width, 5 + classes); with layout 'map' the shape of data"),),
    attrs=(ANCHORS,
           CLASSES,
           SOFTMAX,
           Attr("layout", Choice(*LAYOUTS), "boxes", "boxes: one row per box; map: Darknet's layout")),
    types={"T": FLOATS},
    shapes=(
        Shapes(when="layout == 'map'", data=MAP, output=MAP),
        Shapes(data=MAP, output=f"batch, anchors, height, width, {CHANNELS}"),
    ),
    backward=("output_grad", "data"),
    cuda=Cuda(scalars=scalars, forward=work, backward=work),
    accumulate_fp32=True,
    derived={"channels": CHANNELS},
)
