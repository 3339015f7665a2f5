"""The contract of ``tile``."""
from __future__ import annotations

import math

from ...core.contract import (
    FLOATS,
    INTEGERS,
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
from ...core.shapes import normalized_axis

MAX_COUNTS = 8           # repeat counts in a tuple
LOOPS = MAX_COUNTS + 1   # loops of the kernels: one per repeat count, and one for the axes in front of them
COPIES = 8               # that a thread writes of a pack, in forward
ELEMENTS = 2048          # each of the 256 threads of a block has two packs of float32
PACK = 4                 # float32 elements of 16 bytes
MAX_SLICES = 64          # threads of a block that share the copies of an element
BLOCKS = 384             # blocks that a large GPU runs at a time
SHARE = 16               # copies that each thread sums at least, if several blocks share them
MAX_INT = 2 ** 31        # smaller sizes are computed in 32 bits


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


def loops(attrs, shape: tuple) -> list[tuple[int, int]]:
    """(size, repeats) per loop, outermost first. Axes that are repeated as one block are merged into one loop."""
    merged = []
    for size, repeats in sizes_and_repeats(attrs, shape):
        if merged and repeats == 1:
            outer_size, outer_repeats = merged[-1]
            merged[-1] = outer_size * size, outer_repeats
        elif size != 1 or repeats != 1:
            merged.append((size, repeats))
    return merged


def derive(attrs, known: dict) -> dict:
    """The loops of the kernels, with loops of size 1 first, and what follows from them."""
    shape = known["data"]
    found = loops(attrs, shape)
    sizes, repeats = zip(*[(1, 1)] * (LOOPS - len(found)), *found)
    elements, copies = math.prod(shape), math.prod(repeats)
    return {"small": elements * copies < MAX_INT, "copies": copies, "slices": slices(elements, copies), "sizes": sizes,
            "repeats": repeats}


def slices(elements: int, copies: int) -> int:
    """The number of threads of a block that share the copies of an element in backward. It is 1 if there are enough
    elements for the threads of a block."""
    threads = 1
    while threads < MAX_SLICES and threads * elements < ELEMENTS and 8 * threads <= copies:
        threads *= 2
    return threads


def forward(args) -> Launch:
    """One block per 512 packs: of the data for every COPIES copies, or of the output if runs are odd."""
    in_packs = args.sizes[-1] % PACK == 0
    groups = math.ceil(args.copies / COPIES) if in_packs else args.copies
    return Launch(math.ceil(args.elements * groups / ELEMENTS))


def backward(args) -> Launch:
    """One block per ELEMENTS elements, or per fewer if threads share the copies.

    If several blocks share the copies of an element, each writes a sum per element.
    """
    blocks = max(1, math.ceil(args.elements * args.slices / ELEMENTS))
    most = args.copies // (SHARE * args.slices)
    parts = max(1, min(BLOCKS // blocks, most))
    return Launch(blocks, parts=parts, steps=("SUM", "COMBINE") if parts > 1 else ("SUM",))


OP = Op(
    name="tile",
    summary="repeat a tensor along one or several axes",
    family="moves",
    inputs=(Arg("data", "T"),),
    outputs=(Out("output", "T", "shape of data, repeated axes multiplied"),),
    attrs=(Attr("tiles", IntOrTuple(1), 1),
           Attr("axis", Int(), -1)),
    types={"T": FLOATS + INTEGERS},
    shapes=Shapes(data="...", output="... * tiles@axis"),
    refused=(
        Refused("is_tuple(tiles) and axis != -1", "axis is {axis} and tiles is the tuple {tiles}",
                "Leave axis out, or pass an integer"),
        Refused(f"is_tuple(tiles) and len(tiles) > {MAX_COUNTS}",
                f"tiles has {{len(tiles)}} counts; expected at most {MAX_COUNTS}", "Reshape the input first"),
    ),
    backward=("output_grad",),
    cuda=Cuda(
        forward=forward,
        backward=backward,
        steps=("SUM", "COMBINE"),
        constants={"LOOPS": LOOPS, "COPIES": COPIES},
        derived={
            "elements": "data.size",
            "small": Number("bool"),   # whether 32 bits hold every index
            "copies": Number("int64"),   # per element
            "slices": Number("int64"),
            "sizes": Number("int64", count=LOOPS),
            "repeats": Number("int64", count=LOOPS),
        },
        derive=derive,
        scratch=(Array("sums", "float64", "parts * elements if parts > 1 else 0", "backward"),),
        backward_bounds="THREADS, sizeof(T) == 4 ? 3 : 2",
    ),
    derived={"loops": Number("TileLoops")},   # loops() says what it has
)
