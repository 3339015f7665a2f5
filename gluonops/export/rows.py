"""Rows of detections, which are compared as sets: rows with nearly equal scores change places."""
from __future__ import annotations

import numpy as np

from .graph import Entry
from .operators import having

RANKS = having("ranks_rows")
# What passes on columns of rows, or computes a column from others: corners in pixels, say.
COLUMNS = having("moves", "joins", "is_elementwise")
NEAR = 1e-5   # of the largest number of a column: rows that are so near stay in their places
Arrays = list[np.ndarray]


def groups_of_rows(entries: list[Entry]) -> list[list[int]]:
    """The positions of outputs that have the columns of the same rows, such as the ids, scores and boxes of a detector.

    Outputs that have no rows of detections are in no group.
    """
    groups: dict[frozenset, list[int]] = {}
    for position, (node, _) in enumerate(entries):
        reached, visited, waiting = set(), set(), [node]
        while waiting:
            source = waiting.pop()
            if source in visited:
                continue
            visited.add(source)
            if source.op in RANKS:
                reached.add(source)
            elif source.op in COLUMNS:
                waiting += [each for each, _ in source.inputs]
        if reached:
            groups.setdefault(frozenset(reached), []).append(position)
    return list(groups.values())


def in_the_order_of(expected: Arrays, computed: Arrays, groups: list[list[int]]) -> Arrays:
    """What was found, with the rows of each group in the order of the expected rows that they are nearest to."""
    computed = list(computed)
    for group in groups:
        ranks = {expected[position].shape[:-1] for position in group}
        if len(ranks) != 1 or len(*ranks) not in (1, 2):
            continue
        theirs, ours = (_joined([arrays[position] for position in group]) for arrays in (expected, computed))
        for image, order in enumerate(map(_order, theirs, ours)):
            for position in group:
                array = computed[position] = computed[position].copy()
                part = array if array.ndim == 2 else array[image]
                part[...] = part[order]
    return computed


def _joined(arrays: Arrays) -> np.ndarray:
    """(images, rows, columns) of all arrays, divided by the largest number of each array."""
    parts = [np.nan_to_num(array.astype(np.float64), posinf=0, neginf=0) for array in arrays]
    parts = [part / (np.abs(part).max(initial=0) or 1) for part in parts]
    joined = np.concatenate(parts, axis=-1)
    return joined if joined.ndim == 3 else joined[None]


def _order(theirs: np.ndarray, ours: np.ndarray) -> np.ndarray:
    """Which row of ours stands for each row of theirs; each of ours is taken once."""
    order = np.arange(len(theirs))
    moved = np.flatnonzero(np.abs(theirs - ours).max(axis=1, initial=0) > NEAR)
    left = list(moved)
    for row in moved:
        nearest = int(np.abs(ours[left] - theirs[row]).max(axis=1).argmin())
        order[row] = left.pop(nearest)
    return order
