"""What ``tile`` declares."""
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
    Op,
    Out,
    Refused,
    Shapes,
    normalized_axis,
)

COUNTS = 8        # of a tuple of repeat counts
LOOPS = COUNTS + 1   # what a kernel walks: a loop for every count, and one for what lies in front of them
BUSY = 1 << 17    # threads that keep a large GPU's memory busy


def counts(attrs, ndim):
    """One repeat count per output dimension."""
    if isinstance(attrs.tiles, tuple):
        return (1,) * (ndim - len(attrs.tiles)) + attrs.tiles
    axis = normalized_axis("tile", attrs.axis, ndim)
    return tuple(attrs.tiles if i == axis else 1 for i in range(ndim))


def loops(attrs, shape):
    """(size, repeats) per loop, outermost first: neighbours that repeat as one block are one loop."""
    repeats = counts(attrs, len(shape))
    merged = []
    for size, count in zip((1,) * (len(repeats) - len(shape)) + tuple(shape), repeats):
        if merged and count == 1:
            merged[-1] = merged[-1][0] * size, merged[-1][1]
        elif size != 1 or count != 1:
            merged.append((size, count))
    return merged


def copies(attrs, shape):
    """How many there are of each element."""
    return math.prod(count for _, count in loops(attrs, shape))


def slices(attrs, shape):
    """How many threads share the copies of an element in the gradient: more than one where elements are few."""
    size, count, found = math.prod(shape), copies(attrs, shape), 1
    while found < 64 and found * size < 4 * BUSY and 8 * found <= count:
        found *= 2
    return found


def scalars(attrs, known):
    """What the kernel walks, and the loops as size0, repeats0, ..., filled up in front with loops of one step."""
    shape = known["data"]
    found = loops(attrs, shape)
    padded = [(1, 1)] * (LOOPS - len(found)) + found
    return {"small": int(math.prod(shape) * copies(attrs, shape) < 2 ** 31), "slices": slices(attrs, shape),
            **{f"{word}{i}": value for i, pair in enumerate(padded) for word, value in zip(("size", "repeats"), pair)}}


def forward_work(attrs, known):
    """One thread per element of the output."""
    return math.prod(known["data"]) * copies(attrs, known["data"]), 1


def backward_work(attrs, known):
    """A block of threads per 1024 slices."""
    return -(-math.prod(known["data"]) * slices(attrs, known["data"]) // 1024), BLOCK


OP = Op(
    name="tile",
    summary="repeat along one axis or several",
    inputs=(Arg("data", "T", "any shape"),),
    outputs=(Out("output", "T", "repeated axes multiplied"),),
    attrs=(Attr("tiles", IntOrTuple(1), 1, "how many times: an integer for `axis`, a tuple as in numpy.tile"),
           Attr("axis", Int(), -1, "the axis that an integer repeats")),
    types={"T": FLOATS + INTEGERS},
    shapes=Shapes(data="...", output="... * tiles@axis"),
    refused=(
        Refused("is_tuple(tiles) and axis != -1", "axis is {axis} and tiles is the tuple {tiles}",
                "Leave axis out, or pass an integer"),
        Refused(f"is_tuple(tiles) and len(tiles) > {COUNTS}",
                f"tiles has {{len(tiles)}} counts; expected at most {COUNTS}", "Reshape the input first"),
    ),
    backward=("output_grad",),
    cuda=Cuda(scalars=scalars, forward=forward_work, backward=backward_work),
    accumulate_fp32=True,
)
