"""Tensors, attributes, shapes and launches of the softmax family. Its operators work on rows of classes."""
from __future__ import annotations

import math

from ...contract.op import THREADS, WARP, Arg, Array, Attr, Int, Launch, Out, Refused, Shapes

MANY_ROWS = 16384      # number of rows that occupies a GPU with one thread per row
MANY_THREADS = 131072   # number of threads that occupies a GPU
MAX_BLOCKS = 2048      # number of blocks that occupies a GPU several times over
FEW_BLOCKS = 256       # blocks that do not fill a GPU
ONE_WAVE = 512         # blocks of losses, all of which a large GPU has room for
HELD = 32              # elements that a thread holds in registers
MAX_SPLITS = 4096       # splits per row; CUDA allows 65,535

STEPS = ("SUMS", "ROWS")   # The steps of a kernel that needs a row's sums before its elements.

DATA = Arg("data", "T", doc="Logits, at least two dimensions; float16, float32 or float64.")
CLASS_INDICES = ("Class indices in any float or integer dtype, with the shape of ``data`` without ``axis``, or with "
                 "size 1 there.")
AXIS = Attr("axis", Int(), -1, "The axis of the classes.")

LOGITS = "batch..., classes@axis, inner..."
ROWS = "batch..., inner..."               # one value per row of classes
ROWS_AND_AXIS = "batch..., 1, inner..."   # one value per row, in the shape with keepdims
ROW_LOSS = (Out("output", "T", "loss per row"),
            Out("max", "A", "maximum per row"),
            Out("log_sum", "A", "log(sum(exp(row - max))) per row"))

NEEDS_A_BATCH = Refused("data.ndim < 2", "data has {data.ndim} dimension; expected at least 2: a batch of rows",
                        "Add a batch axis with expand_dims(axis=0)")


def with_class_indices(remedies: dict[str, str] | None = None) -> tuple[Shapes, Shapes]:
    """Return the shapes of a loss with ``ROW_LOSS``. A label may have size 1 at the axis, which gluon's loss allows."""
    return (Shapes(when="label.ndim == data.ndim", data=LOGITS, label=ROWS_AND_AXIS, output=ROWS_AND_AXIS,
                   max=ROWS_AND_AXIS, log_sum=ROWS_AND_AXIS, remedies=remedies),
            Shapes(data=LOGITS, label=ROWS, output=ROWS, max=ROWS, log_sum=ROWS))


def held_rows(args, block: int = THREADS) -> Launch:
    """Return the launch of a kernel that needs a row's sums before its elements, and holds the row or reads it twice.

    Where rows are so few that they have splits, one launch finds the sums, and another one needs them. A row that a
    block cannot hold has ``block`` threads: a GPU has room for fewer rows then, and its cache for what is read again.
    """
    rows, classes, inner = sizes(args)
    threads = held_threads(rows, classes, inner)
    if threads == THREADS and classes > HELD * THREADS and args.dtype != "float64":
        threads = block
    splits = streamed_splits(rows, classes, inner, FEW_BLOCKS * THREADS // max(threads, THREADS))
    return launched(rows, threads, splits, STEPS if splits > 1 else STEPS[1:])


def summed_rows(args) -> Launch:
    """Return the launch of a loss. The last block of a row waits for the others, so all of few rows run at a time."""
    rows, classes, inner = sizes(args)
    return launched(rows, streamed_threads(rows, classes, inner), streamed_splits(rows, classes, inner, ONE_WAVE))


def streamed_rows(args) -> Launch:
    """Return the launch of a kernel that holds nothing of a row.

    If there are many rows, each one has fewer threads, which take more elements.
    """
    rows, classes, inner = sizes(args)
    return launched(rows, streamed_threads(rows, classes, inner), streamed_splits(rows, classes, inner))


def sizes(args) -> tuple[int, int, int]:
    """Return the number of rows, their length, and how many are neighbours in memory."""
    return args.batch * args.inner, args.classes, args.inner


def launched(rows: int, threads: int, splits: int = 1, steps: tuple[str, ...] = ()) -> Launch:
    """Return the launch for rows, so many at a time. If there are more, each thread takes several in turn."""
    return Launch.of_rows(min(rows, MAX_BLOCKS * THREADS // threads), threads, splits, steps)


def held_threads(rows: int, classes: int, inner: int) -> int:
    """Return the number of threads for a row."""
    are_neighbours = inner > 1 and rows >= MANY_ROWS
    return threads_of_neighbours(classes) if are_neighbours else threads_per_row(classes)


def streamed_threads(rows: int, classes: int, inner: int) -> int:
    """Return the number of threads for a row in kernels that hold nothing of it."""
    threads = threads_per_row(classes)
    if inner > 1 or not 2 <= threads <= WARP or rows * threads // 2 < MANY_THREADS:
        return held_threads(rows, classes, inner)
    return threads // 2


def threads_per_row(classes: int) -> int:
    """Return the number of threads of a row: up to a warp, and a block for a row that a warp cannot hold.

    A thread takes 8 elements of a short row, and 16 or 32 of a longer one.
    """
    if classes > HELD * WARP:
        return THREADS
    return max(power_of_two(min(classes, 32) / 8), min(WARP, power_of_two(classes / 16)))


def threads_of_neighbours(classes: int) -> int:
    """Return the number of threads of a row where many rows are neighbours in memory.

    The threads of neighbouring rows read neighbouring elements. With four threads per row, a warp handles eight rows,
    and reads 32 bytes of float32 per class.
    """
    return 1 if classes <= HELD else 4


def power_of_two(number: float) -> int:
    """Return the lowest power of two that is not below the number."""
    return 1 << max(0, math.ceil(number) - 1).bit_length()


def held_splits(rows: int, classes: int, inner: int) -> int:
    """Return the number of splits of a row, each of which a block can hold in registers.

    Where many rows are neighbours in memory, no block has a row to itself, so there is one split.
    """
    if inner > 1 and rows >= MANY_ROWS:
        return 1
    return max(1, min(-(-classes // (HELD * THREADS)), MAX_SPLITS))


def streamed_splits(rows: int, classes: int, inner: int, blocks: int = MAX_BLOCKS) -> int:
    """Return the number of splits of a row of which nothing has to be held: as many as make ``blocks`` in all."""
    return min(held_splits(rows, classes, inner), max(1, blocks // max(1, rows)))


def gathered(direction: str, numbers: int | str = 2, rows: str = "batch * inner") -> tuple[Array, Array]:
    """Return the memory of a kernel in which the last block of a row adds up the sums of all blocks.

    Each block leaves so many ``numbers``, two for a softmax.
    """
    return (Array("counts", "uint32", f"{rows} if splits > 1 else 0", direction, kept=True),
            Array("sums", "A", f"{numbers} * splits * {rows} if splits > 1 else 0", direction))
