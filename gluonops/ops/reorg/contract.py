"""The contract of ``reorg``."""
from ...contract.op import FLOATS, INTEGERS, Arg, Attr, Bool, Choice, Cuda, Int, Op, Out, Shapes, each_element

OTHER_MODES = "Change the number of channels, choose another stride, or the mode 'DCR' or 'CRD', which take any number"
MODES = ("darknet", "DCR", "CRD")

IMAGE = "batch, channels, height, width"
SMALL = "batch, channels * stride * stride, height / stride, width / stride"
LARGE = "batch, channels / (stride * stride), height * stride, width * stride"


OP = Op(
    name="reorg",
    summary="space to depth or depth to space, in Darknet's, DCR or CRD order",
    family="moves",
    inputs=(Arg("data", "T", doc="(B, C, H, W). H and W must be divisible by ``stride``, except with ``reverse``. C "
                "must be divisible by ``stride**2`` in darknet mode or with ``reverse``. float16, float32, float64, "
                "uint8, int8, int32 or int64."),),
    outputs=(Out("output", "T", "(batch, channels*s*s, height/s, width/s); with reverse (batch, channels/s/s, "
                 "height*s, width*s)"),),
    attrs=(Attr("stride", Int(1), 2, "At least 1."),
           Attr("mode", Choice(*MODES), "darknet",
                "The order of the output channels; see the page above (``help(gluonops.ops.reorg.__module__)``)."),
           Attr("reverse", Bool(), False, "Compute depth to space.")),
    types={"T": FLOATS + INTEGERS},
    shapes=(
        Shapes(when="reverse", data=IMAGE, output=LARGE),
        Shapes(when="mode == 'darknet'", data=IMAGE, output=SMALL, whole="channels / (stride * stride)",
               remedies={"channels": OTHER_MODES}),
        Shapes(data=IMAGE, output=SMALL),
    ),
    remedies={"channels": "Change the number of channels or choose another stride"},
    backward=("output_grad",),
    cuda=Cuda(forward=each_element, backward=each_element),
    # The larger of the two images, as the kernels address it in every mode. Darknet's mode is DCR of the same
    # memory, read as channels of a larger image, and CRD is DCR of each channel. A line is ``stride`` rows of pixels,
    # and a cell is ``stride`` x ``stride`` elements.
    derived={
        "size": "data.size",
        "is_small": "reverse or mode == 'darknet'",   # whether data has the small image
        "planes": "channels // (stride * stride) if is_small else channels",
        "images": "batch * planes if mode == 'CRD' else batch",
        "lines": "(1 if mode == 'CRD' else planes) * (height if is_small else height // stride)",
        "cells": "width if is_small else width // stride",   # the cells of a line
    },
    accumulate_fp32=False,
)
