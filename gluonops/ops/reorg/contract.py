"""The contract of ``reorg``."""
from __future__ import annotations

import math

from ...core.contract import FLOATS, INTEGERS, Arg, Attr, Bool, Choice, Cuda, Int, Op, Out, Shapes

OTHER_MODES = "Change the number of channels, choose another stride, or the mode 'DCR' or 'CRD', which take any number"
MODES = ("darknet", "DCR", "CRD")

IMAGE = "batch, channels, height, width"
SMALL = "batch, channels * stride * stride, height / stride, width / stride"
LARGE = "batch, channels / (stride * stride), height * stride, width * stride"


def large_image(attrs, known: dict) -> tuple[int, int, int]:
    """The larger of the two images, as ``kernel.cu`` addresses it in every mode.

    Returns
    -------
    images : int
    lines : int
        Lines per image. A line is ``stride`` rows of pixels.
    width : int
        Cells per line. A cell is ``stride`` x ``stride`` elements.
    """
    batch, channels, height, width = known["data"]
    s = attrs.stride
    if attrs.reverse or attrs.mode == "darknet":   # darknet: DCR of the same memory, read as channels of a larger image
        channels, height, width = channels // (s * s), height * s, width * s
    if attrs.mode == "CRD":   # CRD is DCR of each channel
        batch, channels = batch * channels, 1
    return batch, channels * height // s, width // s


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    images, lines, width = large_image(attrs, known)
    return {"images": images, "lines": lines, "width": width, "stride": attrs.stride, "reverse": int(attrs.reverse)}


def elements(attrs, known: dict) -> tuple[int, int]:
    """One thread per element, which is four per thread; see :class:`.Cuda`."""
    return math.prod(known["data"]), 1


OP = Op(
    name="reorg",
    summary="space to depth or depth to space, in Darknet's, DCR or CRD order",
    family="moves",
    inputs=(Arg("data", "T", "(batch, channels, height, width)"),),
    outputs=(Out("output", "T", "(batch, channels*s*s, height/s, width/s); with reverse (batch, channels/s/s, "
                 "height*s, width*s)"),),
    attrs=(Attr("stride", Int(1), 2, "height and width of the pixel blocks that move into channels"),
           Attr("mode", Choice(*MODES), "darknet", "order of the output channels"),
           Attr("reverse", Bool(), False, "true: depth to space; false: space to depth")),
    types={"T": FLOATS + INTEGERS},
    shapes=(
        Shapes(when="reverse", data=IMAGE, output=LARGE),
        Shapes(when="mode == 'darknet'", data=IMAGE, output=SMALL, whole="channels / (stride * stride)",
               remedies={"channels": OTHER_MODES}),
        Shapes(data=IMAGE, output=SMALL),
    ),
    remedies={"channels": "Change the number of channels or choose another stride"},
    backward=("output_grad",),
    cuda=Cuda(scalars=scalars, forward=elements, backward=elements),
    derived={   # of the large image, as in large_image()
        "size": "data.size",
        "is_small": "reverse or mode == 'darknet'",   # whether data has the small image
        "planes": "channels // (stride * stride) if is_small else channels",
        "images": "batch * planes if mode == 'CRD' else batch",
        "lines": "(1 if mode == 'CRD' else planes) * (height if is_small else height // stride)",
        "cells": "width if is_small else width // stride",   # of a line
    },
)
