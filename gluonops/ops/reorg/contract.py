"""What ``reorg`` declares."""
import math

from ...core.contract import BLOCK, FLOATS, INTEGERS, Arg, Attr, Bool, Choice, Cuda, Int, Op, Out, Shapes

OTHER_MODES = "Change the number of channels, choose another stride, or the mode 'DCR' or 'CRD', which take any number"
MODES = ("darknet", "DCR", "CRD")
CHUNK = 4096   # elements that a block of the CUDA kernel stages in shared memory

IMAGE = "batch, channels, height, width"
SMALL = "batch, channels * stride * stride, height / stride, width / stride"
LARGE = "batch, channels / (stride * stride), height * stride, width * stride"


def large_image(attrs, known):
    """(images, lines, width): the larger image as ``kernel.cu`` sees it in every mode, lines of stride rows each, their
    width in cells of stride elements."""
    batch, channels, height, width = known["data"]
    s = attrs.stride
    if attrs.reverse or attrs.mode == "darknet":   # darknet: DCR of the same memory, read as channels of a larger image
        channels, height, width = channels // (s * s), height * s, width * s
    if attrs.mode == "CRD":   # DCR of every channel by itself
        batch, channels = batch * channels, 1
    return batch, channels * height // s, width // s


def chunk(images, lines, width, cell):
    """What a block of threads moves at once, as (images, lines, width): at most CHUNK elements; zeros if no cell fits.

    Several images, or several lines of one, or a part of a line; multiples of 16 where that can be, so that chunks
    begin at multiples of 16 bytes.
    """
    if cell > CHUNK:
        return 0, 0, 0
    if lines * width * cell <= CHUNK:
        return min(images, CHUNK // (lines * width * cell)), lines, width
    most = CHUNK // (width * cell) or CHUNK // cell
    even = next(most - most % step for step in (16, 8, 4, 2, 1) if most >= step)
    return (1, even, width) if width * cell <= CHUNK else (1, 1, even)


def scalars(attrs, known):
    images, lines, width = large_image(attrs, known)
    chunk_images, chunk_lines, chunk_width = chunk(images, lines, width, attrs.stride ** 2)
    return {"images": images, "lines": lines, "width": width, "stride": attrs.stride, "reverse": int(attrs.reverse),
            "chunk_images": chunk_images, "chunk_lines": chunk_lines, "chunk_width": chunk_width}


def chunks(attrs, known):
    """A block of threads per chunk; where there are none, per CHUNK elements."""
    sizes = large_image(attrs, known)
    steps = chunk(*sizes, attrs.stride ** 2)
    if 0 in steps:
        return -(-math.prod(known["data"]) // CHUNK), BLOCK
    return math.prod(-(-size // step) for size, step in zip(sizes, steps)), BLOCK


OP = Op(
    name="reorg",
    summary="space to depth and back, in Darknet's, DCR or CRD order",
    inputs=(Arg("data", "T", "(batch, channels, height, width)"),),
    outputs=(Out("output", "T", "(batch, channels*s*s, height/s, width/s)"),),
    attrs=(Attr("stride", Int(1), 2, "side of the blocks that move into channels"),
           Attr("mode", Choice(*MODES), "darknet", "order of the output channels"),
           Attr("reverse", Bool(), False, "depth to space instead")),
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
