"""Attributes, shapes and work of the softmax family. Its operators work on rows of classes."""
from __future__ import annotations

import math

from ...core.contract import Attr, Int, Refused, Steps
from .._blocks import contract as blocks

MANY_ROWS = 16384      # number of rows that occupies a GPU with one thread per row
MANY_THREADS = 131072   # number of threads that occupies a GPU
MAX_BLOCKS = 2048      # number of blocks that occupies a GPU several times over
HELD = 32              # elements that a thread holds in registers
WARP = 32              # threads
BLOCK = 256            # threads
MAX_PARTS = 4096       # of a row; CUDA allows 65,535

AXIS = Attr("axis", Int(), -1, "axis of the classes")

LOGITS = "batch..., classes@axis, inner..."
ROWS = "batch..., inner..."               # one value per row of classes
ROWS_AND_AXIS = "batch..., 1, inner..."   # the same, as keepdims shape

NEEDS_A_BATCH = Refused("data.ndim < 2", "data has {data.ndim} dimension; expected a batch of rows",
                        "Add a batch axis with expand_dims(axis=0)")


def rows(attrs, shape: tuple) -> tuple[int, int, int]:
    """The shape as (outer, classes, inner): sizes in front of the axis of the classes, along it, and behind it.

    An operator without the attribute ``axis`` has the classes along the last axis.
    """
    axis = getattr(attrs, "axis", -1) % len(shape)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1:])


def row_sizes(attrs, known: dict) -> dict:
    """The sizes that are the first arguments of every kernel of the family."""
    outer, classes, inner = rows(attrs, known["data"])
    return {"outer": outer, "classes": classes, "inner": inner}


def row_work(attrs, known: dict) -> tuple[int, int]:
    """The number of rows, and the row length from which the number of threads per row follows."""
    outer, classes, inner = rows(attrs, known["data"])
    row_count = outer * inner
    neighbours = inner > 1 and row_count >= MANY_ROWS
    threads = threads_of_neighbours(classes) if neighbours else threads_per_row(classes)
    return rows_at_once(row_count, threads), length_for(threads)


def streamed_work(attrs, known: dict) -> tuple[int, int]:
    """The same of kernels that hold nothing of a row: of many rows each has fewer threads, with more elements."""
    row_count, length = row_work(attrs, known)
    outer, classes, inner = rows(attrs, known["data"])
    threads = threads_per_row(classes)
    if inner > 1 or not 2 <= threads <= WARP or outer * threads // 2 < MANY_THREADS:
        return row_count, length
    return rows_at_once(outer, threads // 2), length_for(threads // 2)


def rows_at_once(row_count: int, threads: int) -> int:
    """How many rows have threads at a time. Of more, each thread takes several, one after the other."""
    return min(row_count, MAX_BLOCKS * BLOCK // threads)


def threads_per_row(classes: int) -> int:
    """Up to a warp with 8 elements for each thread in a short row, and 16 or 32 in a longer one; else a block."""
    if classes > HELD * WARP:
        return BLOCK
    return max(power_of_two(min(classes, 32) / 8), min(WARP, power_of_two(classes / 16)))


def threads_of_neighbours(classes: int) -> int:
    """For many rows that are neighbours in memory: threads of different rows read contiguous elements.

    With four threads per row, a warp handles eight rows, and reads 32 bytes of float32 per class.
    """
    return 1 if classes <= HELD else 4


def power_of_two(number: float) -> int:
    """The lowest that is not below the number."""
    return 1 << max(0, math.ceil(number) - 1).bit_length()


def length_for(threads: int) -> int:
    """The row length that :func:`gluonops.core.rtc.geometry` gives this number of threads."""
    return 4096 if threads == BLOCK else 8 * threads


def held_parts(attrs, known: dict) -> int:
    """The number of parts of a row, each of which a block can hold in registers.

    Of many rows that are neighbours in memory no block has a row to itself.
    """
    outer, classes, inner = rows(attrs, known["data"])
    if inner > 1 and outer * inner >= MANY_ROWS:
        return 1
    return max(1, min(-(-classes // (HELD * BLOCK)), MAX_PARTS))


def parts(attrs, known: dict) -> int:
    """The number of parts of a row if none of it has to be held: as many as occupy a GPU."""
    outer, _, inner = rows(attrs, known["data"])
    return min(held_parts(attrs, known), max(1, MAX_BLOCKS // max(1, outer * inner)))


def shared_rows(attrs, known: dict, number_of_parts: int, numbers: int) -> Steps:
    """Of a kernel in which blocks share a row. ``partial`` has a count for each row, and ``numbers`` of each part.

    A kernel leaves it as the next launch needs it. Step 0 prepares what is too large to be kept.
    """
    outer, _, inner = rows(attrs, known["data"])
    if number_of_parts == 1:
        return Steps()
    return blocks.shared_rows(outer * inner, number_of_parts, outer * inner * number_of_parts * numbers)


def gathered(attrs, known: dict, numbers: int) -> Steps:
    """Of a kernel whose last block of a row adds up what all have summed: ``numbers`` of each part."""
    return shared_rows(attrs, known, parts(attrs, known), numbers)


def steps(direction: str, attrs, known: dict) -> Steps:
    """Of softmax, whose blocks tell each other their sums.

    They are the maximum and the sum of exponentials in forward, and a sum of gradients in backward.
    """
    return shared_rows(attrs, known, held_parts(attrs, known), 2 if direction == "forward" else 1)
