"""What the contracts of the softmax family share: attributes, shapes, and the work of rows of classes."""
import math

from ...core.contract import Attr, Int, Refused

MANY_ROWS = 16384     # enough threads for a GPU
MANY_BLOCKS = 256     # enough blocks for it
BESIDE = 32           # classes of a row that gets 4 threads
LEAST_SHARE = 16384   # classes of a block that shares a row: twice what its threads hold

AXIS = Attr("axis", Int(), -1, "the classes")

LOGITS = "batch..., classes@axis, ..."
ROWS = "batch..., ..."             # a number for each row of classes
ROWS_AND_AXIS = "batch..., 1, ..."   # the same with the axis kept

NEEDS_A_BATCH = Refused("data.ndim < 2", "data has {data.ndim} dimension; expected a batch of rows",
                        "Add a batch axis with expand_dims(axis=0)")


def rows(attrs, shape):
    """(outer, classes, inner): the shape seen from the axis of the classes."""
    axis = attrs.axis % len(shape)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1:])


def row_sizes(attrs, known):
    """The sizes that every kernel of the family starts with."""
    return dict(zip(("outer", "classes", "inner"), rows(attrs, known["data"])))


def row_work(attrs, known):
    """One row of classes per (outer, inner). Where rows are many and neighbours in memory, each has only the threads of
    a row of BESIDE classes: then a warp takes eight rows, and reads 32 bytes of float32 of each class."""
    outer, classes, inner = rows(attrs, known["data"])
    most = BESIDE if inner > 1 and outer * inner >= MANY_ROWS else classes
    return outer * inner, max(2, min(classes, most))


def shares(attrs, known):
    """How many blocks share a row: more than one where rows are few and long."""
    outer, classes, inner = rows(attrs, known["data"])
    return max(1, min(MANY_BLOCKS // max(1, outer * inner), classes // LEAST_SHARE))


def left_by_shares(attrs, known, each):
    """The numbers that the blocks of all rows leave, ``each`` a block; none where every row has one block."""
    outer, _, inner = rows(attrs, known["data"])
    blocks = shares(attrs, known)
    return outer * inner * blocks * each if blocks > 1 else 0


def steps(direction, attrs, known):
    """A row's largest number and sum are from all its blocks, and so is the gradient's sum."""
    return shares(attrs, known), left_by_shares(attrs, known, 2 if direction == "forward" else 1)
