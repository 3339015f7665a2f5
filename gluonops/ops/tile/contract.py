"""The contract of ``tile``."""
import math

from ...contract.op import (
    FLOATS,
    INTEGERS,
    THREADS,
    Arg,
    Array,
    Attr,
    Cuda,
    Int,
    IntOrTuple,
    Launch,
    Number,
    Op,
    Out,
    Refused,
    Shapes,
)
from ...contract.shapes import normalized_axis

MAX_COUNTS = 8     # repeat counts in a tuple
ELEMENTS = 2048    # each thread of a block has two packs of float32
PACK = 4           # elements of 16 bytes of float32
COPIES = 8         # copies of a pack that a thread writes
MAX_SLICES = 64    # threads of a block that share the copies of an element
BLOCKS = 384       # blocks that a large GPU runs at a time
SHARE = 16         # copies that each thread sums at least, if several blocks share them


def counts(attrs, ndim: int) -> tuple[int, ...]:
    """One repeat count per output dimension."""
    if isinstance(attrs.tiles, tuple):
        return (1,) * (ndim - len(attrs.tiles)) + attrs.tiles
    axis = normalized_axis("tile", attrs.axis, ndim)
    return tuple(attrs.tiles if i == axis else 1 for i in range(ndim))


def sizes_and_repeats(attrs, shape: tuple) -> list[tuple[int, int]]:
    """(size, repeats) per output dimension, outermost first. An axis that ``tiles`` adds in front has size 1."""
    repeats = counts(attrs, len(shape))
    sizes = (1,) * (len(repeats) - len(shape)) + tuple(shape)
    return list(zip(sizes, repeats))


def derive(attrs, values: dict) -> dict:
    """Return what record.inl has, but for numbers of loops that do not exist, which are 1."""
    shape = values["data"]
    blocks, repeats, block = [], [], 1
    for size, count in reversed(sizes_and_repeats(attrs, shape)):
        block *= size
        if count > 1:
            blocks.append(block)
            repeats.append(count)
            block = 1
    span, *sizes = blocks or [block]
    ones = [1] * MAX_COUNTS
    return {"span": span, "copies": math.prod(repeats), "outermost": len(sizes),
            "repeats": (*repeats, *ones)[:MAX_COUNTS], "sizes": (*sizes, *ones)[:MAX_COUNTS]}


def forward(args) -> Launch:
    """One block per ELEMENTS elements of the output. In one loop of packs, a thread writes COPIES copies of each."""
    if args.outermost or args.span % PACK:
        return Launch(math.ceil(args.elements * args.copies / ELEMENTS))
    return Launch(math.ceil(args.elements / ELEMENTS), splits=math.ceil(args.copies / COPIES))


def backward(args) -> Launch:
    """One block per ELEMENTS elements.

    If elements are few, threads of a block, and several blocks, share the copies of each. Each of these blocks writes a
    sum per element.
    """
    slices = 1
    while slices < MAX_SLICES and slices * args.elements < ELEMENTS and 8 * slices <= args.copies:
        slices *= 2
    blocks = max(1, math.ceil(args.elements * slices / ELEMENTS))
    splits = max(1, min(BLOCKS // blocks, args.copies // (SHARE * slices)))
    return Launch(blocks, (THREADS // slices, slices), splits, ("SUM", "COMBINE") if splits > 1 else ("SUM",))


OP = Op(
    name="tile",
    summary="repeat a tensor along one or several axes",
    family="moves",
    inputs=(Arg("data", "T"),),
    outputs=(Out("output", "T", "shape of data, repeated axes multiplied"),),
    attrs=(Attr("tiles", IntOrTuple(1), 1, "Number of repetitions, at least 1. An integer repeats ``axis``. A tuple "
                "repeats the last axes as ``numpy.tile`` does, so ``()`` is a copy."),
           Attr("axis", Int(), -1, "The axis that an integer repeats. Valid with an integer only.")),
    types={"T": FLOATS + INTEGERS},
    shapes=Shapes(data="...", output="... * tiles@axis"),
    refused=(
        Refused("is_tuple(tiles) and axis != -1", "axis is {axis} and tiles is the tuple {tiles}; expected no axis, "
                "because a tuple says how often each of the last axes is repeated",
                "Leave axis out, or pass an integer as tiles"),
        Refused(f"is_tuple(tiles) and len(tiles) > {MAX_COUNTS}",
                f"tiles has {{len(tiles)}} counts; expected at most {MAX_COUNTS}", "Reshape the input first"),
    ),
    backward=("output_grad",),
    cuda=Cuda(
        forward=forward,
        backward=backward,
        steps=("SUM", "COMBINE"),
        derived={
            "span": Number("int64"),
            "copies": Number("int64"),
            "outermost": Number("int64"),
            "repeats": Number("int64", count=MAX_COUNTS),
            "sizes": Number("int64", count=MAX_COUNTS),
        },
        derive=derive,
        forward_bounds="THREADS, sizeof(T) == 1 ? 3 : 5",
        backward_bounds="THREADS, sizeof(T) < 4 ? 3 : 4",
        scratch=(Array("sums", "float64", "splits * elements if splits > 1 else 0", "backward"),),
    ),
    derived={"elements": "data.size", "loops": Number("TileLoops")},
)
