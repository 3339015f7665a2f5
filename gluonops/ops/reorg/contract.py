"""The contract of ``reorg``."""
from __future__ import annotations

import math

from ...core.contract import BLOCK, FLOATS, INTEGERS, Arg, Attr, Bool, Choice, Cuda, Int, Op, Out, Shapes

OTHER_MODES = "Change the number of channels, choose another stride, or the mode 'DCR' or 'CRD', which take any number"
MODES = ("darknet", "DCR", "CRD")
CHUNK = 4096   # elements that a block of threads stages in shared memory
ALIGNED = 16   # elements; a chunk that starts at a multiple of it starts at a multiple of 16 bytes in every dtype

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


def chunk(images: int, lines: int, width: int, cell: int) -> tuple[int, int, int]:
    """The part of the larger image that a block of threads moves at once: several images, several lines, or cells.

    Parameters
    ----------
    images, lines, width : int
        The sizes that :func:`large_image` returns.
    cell : int
        Elements per cell.

    Returns
    -------
    (int, int, int)
        Images, lines and cells per line of a chunk, with at most CHUNK elements. Zeros if a cell is larger. Lines and
        cells are rounded down to a multiple of ALIGNED, or of a smaller power of 2 if there are fewer.
    """
    line = width * cell
    image = lines * line
    if cell > CHUNK:
        return 0, 0, 0
    if image <= CHUNK:
        return min(images, CHUNK // image), lines, width
    if line <= CHUNK:
        return 1, _aligned(CHUNK // line), width
    return 1, 1, _aligned(CHUNK // cell)


def _aligned(count):
    """``count`` rounded down to a multiple of ALIGNED, or of the largest power of 2 that is not above ``count``."""
    step = ALIGNED
    while step > count:
        step //= 2
    return count - count % step


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors."""
    images, lines, width = large_image(attrs, known)
    chunk_images, chunk_lines, chunk_width = chunk(images, lines, width, attrs.stride ** 2)
    return {
        "images": images,
        "lines": lines,
        "width": width,
        "stride": attrs.stride,
        "reverse": int(attrs.reverse),
        "chunk_images": chunk_images,
        "chunk_lines": chunk_lines,
        "chunk_width": chunk_width,
    }


def chunks(attrs, known: dict) -> tuple[int, int]:
    """One block of threads per chunk. If cells are larger than a chunk: one per CHUNK elements."""
    sizes = large_image(attrs, known)
    steps = chunk(*sizes, attrs.stride ** 2)
    if 0 in steps:
        return math.ceil(math.prod(known["data"]) / CHUNK), BLOCK
    return math.prod(math.ceil(size / step) for size, step in zip(sizes, steps)), BLOCK


OP = Op(
    name="reorg",
    summary="space to depth or depth to space, in Darknet's, DCR or CRD order",
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
    cuda=Cuda(scalars=scalars, forward=chunks, backward=chunks),
)
