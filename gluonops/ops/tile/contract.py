"""The contract of ``tile``."""
from __future__ import annotations

import math

from ...core.contract import (
    BLOCK,
    FLOATS,
    INTEGERS,
    Arg,
    Attr,
    Cuda,
    Int,
    IntOrTuple,
    Number,
    Op,
    Out,
    Refused,
    Shapes,
    normalized_axis,
)

MAX_COUNTS = 8           # of a tuple of repeat counts
LOOPS = MAX_COUNTS + 1   # loops of the kernels: one per repeat count, and one for the axes in front of them
COPIES = 8               # that a thread writes of a pack
ELEMENTS = 2048          # for the 256 threads of a block: two packs of float32 each
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


def copies(attrs, shape: tuple) -> int:
    """The number of copies of each element."""
    return math.prod(repeats for _, repeats in loops(attrs, shape))


def slices(attrs, shape: tuple) -> int:
    """The number of threads of a block that share the copies of an element in backward. It is 1 if there are enough
    elements for the threads of a block."""
    size = math.prod(shape)
    copy_count = copies(attrs, shape)
    threads = 1
    while threads < MAX_SLICES and threads * size < ELEMENTS and 8 * threads <= copy_count:
        threads *= 2
    return threads


def backward_blocks(attrs, shape: tuple) -> tuple[int, int]:
    """The blocks of threads for the elements, and those that share the copies of an element, in backward."""
    slice_count = slices(attrs, shape)
    for_elements = max(1, math.ceil(math.prod(shape) * slice_count / ELEMENTS))
    most = copies(attrs, shape) // (SHARE * slice_count)
    return for_elements, max(1, min(BLOCKS // for_elements, most))


def scalars(attrs, known: dict) -> dict:
    """The kernels' arguments besides tensors. The loops are size0, repeats0, size1, ..., with loops of size 1 first."""
    shape = known["data"]
    output_size = math.prod(shape) * copies(attrs, shape)
    found = loops(attrs, shape)
    padded = [(1, 1)] * (LOOPS - len(found)) + found

    arguments = {
        "small": int(output_size < MAX_INT),
        "elements": math.prod(shape),
        "copies": copies(attrs, shape),
        "slices": slices(attrs, shape),
    }
    for i, (size, repeats) in enumerate(padded):
        arguments[f"size{i}"] = size
        arguments[f"repeats{i}"] = repeats
    return arguments


def forward_work(attrs, known: dict) -> tuple[int, int]:
    """One block of threads per 512 packs: of the data for every COPIES copies, or of the output if runs are odd."""
    shape = known["data"]
    copy_count = copies(attrs, shape)
    found = loops(attrs, shape)
    in_packs = not found or found[-1][0] % PACK == 0
    groups = math.ceil(copy_count / COPIES) if in_packs else copy_count
    return math.ceil(math.prod(shape) * groups / ELEMENTS), BLOCK


def backward_work(attrs, known: dict) -> tuple[int, int]:
    """One block of threads per ELEMENTS elements, or per fewer if threads share the copies."""
    return backward_blocks(attrs, known["data"])[0], BLOCK


def steps(direction: str, attrs, known: dict) -> tuple[int, int]:
    """See :class:`.Cuda`. If several blocks share the copies of an element, each writes a sum per element."""
    if direction == "forward":
        return 1, 0
    _, blocks = backward_blocks(attrs, known["data"])
    return blocks, blocks * math.prod(known["data"]) if blocks > 1 else 0


OP = Op(
    name="tile",
    summary="repeat a tensor along one or several axes",
    family="moves",
    inputs=(Arg("data", "T", "any shape"),),
    outputs=(Out("output", "T", "shape of data, repeated axes multiplied"),),
    attrs=(Attr("tiles", IntOrTuple(1), 1, "number of repetitions: an integer for axis, or a tuple as in numpy.tile"),
           Attr("axis", Int(), -1, "axis that an integer repeats; not with a tuple")),
    types={"T": FLOATS + INTEGERS},
    shapes=Shapes(data="...", output="... * tiles@axis"),
    refused=(
        Refused("is_tuple(tiles) and axis != -1", "axis is {axis} and tiles is the tuple {tiles}",
                "Leave axis out, or pass an integer"),
        Refused(f"is_tuple(tiles) and len(tiles) > {MAX_COUNTS}",
                f"tiles has {{len(tiles)}} counts; expected at most {MAX_COUNTS}", "Reshape the input first"),
    ),
    backward=("output_grad",),
    cuda=Cuda(scalars=scalars, forward=forward_work, backward=backward_work, steps=steps),
    accumulate_fp32=True,
    derived={"loops": Number("TileLoops")},   # as in loops()
)
