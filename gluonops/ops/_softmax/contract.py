"""Attributes, shapes and work of the softmax family. Its operators work on rows of classes."""
from __future__ import annotations

import math

from ...core.contract import Attr, Int, Refused

MANY_ROWS = 16384              # number of rows that occupies a GPU with 4 threads per row
MAX_BLOCKS = 256               # number of blocks that occupies a GPU
NARROW_ROW = 32                # classes of a row that gets 4 threads
MIN_CLASSES_PER_BLOCK = 16384  # if several blocks share a row; twice the values that the threads of a block hold

AXIS = Attr("axis", Int(), -1, "axis of the classes")

LOGITS = "batch..., classes@axis, ..."
ROWS = "batch..., ..."               # one value per row of classes
ROWS_AND_AXIS = "batch..., 1, ..."   # the same, as keepdims shape

NEEDS_A_BATCH = Refused("data.ndim < 2", "data has {data.ndim} dimension; expected a batch of rows",
                        "Add a batch axis with expand_dims(axis=0)")


def rows(attrs, shape: tuple) -> tuple[int, int, int]:
    """The shape as (outer, classes, inner): sizes in front of the axis of the classes, along it, and behind it."""
    axis = attrs.axis % len(shape)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1:])


def row_sizes(attrs, known: dict) -> dict:
    """The sizes that are the first arguments of every kernel of the family."""
    outer, classes, inner = rows(attrs, known["data"])
    return {"outer": outer, "classes": classes, "inner": inner}


def row_work(attrs, known: dict) -> tuple[int, int]:
    """The number of rows, and the row length from which the number of threads per row follows.

    Many rows that are neighbours in memory get the threads of a row of NARROW_ROW classes. Then a warp handles eight
    rows, and reads 32 bytes of float32 per class.
    """
    outer, classes, inner = rows(attrs, known["data"])
    row_count = outer * inner
    length = classes
    if inner > 1 and row_count >= MANY_ROWS:
        length = min(classes, NARROW_ROW)
    return row_count, max(2, length)


def blocks_per_row(attrs, known: dict) -> int:
    """The number of blocks that share a row. It is above 1 if there are few rows and they are long."""
    outer, classes, inner = rows(attrs, known["data"])
    available = MAX_BLOCKS // max(1, outer * inner)
    useful = classes // MIN_CLASSES_PER_BLOCK
    return max(1, min(available, useful))


def partial_count(attrs, known: dict, per_block: int) -> int:
    """The number of partials that all blocks write, ``per_block`` each. It is 0 if every row has a single block."""
    outer, _, inner = rows(attrs, known["data"])
    blocks = blocks_per_row(attrs, known)
    if blocks == 1:
        return 0
    return outer * inner * blocks * per_block


def steps(direction: str, attrs, known: dict) -> tuple[int, int]:
    """The number of blocks per row, and the number of partials.

    The partials of forward are the maximum and the sum of exponentials. That of backward is a sum of gradients.
    """
    per_block = 2 if direction == "forward" else 1
    return blocks_per_row(attrs, known), partial_count(attrs, known, per_block)
