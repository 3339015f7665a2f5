"""The classes of a detector: their names, and which rows of its output layer a new set of them takes over."""
from __future__ import annotations

from collections.abc import Sequence

from gluonops.core.attributes import Attr, Int
from gluonops.core.errors import OpError

__all__ = ["class_names", "copied_rows"]


def class_names(where: str, classes: int | Sequence[str]) -> tuple[str, ...]:
    """Names of the classes, from names or a number."""
    if isinstance(classes, (list, tuple)) and classes and all(isinstance(name, str) for name in classes):
        if len(set(classes)) < len(classes):
            raise OpError(where, f"classes has {next(n for n in classes if classes.count(n) > 1)!r} twice; expected "
                          "different names", "Rename one of them")
        return tuple(classes)
    count = Attr("classes", Int(1), None, "names or their number").parse(where, classes)
    return tuple(str(i) for i in range(count))


def copied_rows(where: str, old: tuple[str, ...], new: tuple[str, ...], anchors: int,
                reuse: dict | list | None) -> list[tuple[int, int]]:
    """(new row, old row) of the output layer for every row that is kept.

    Parameters
    ----------
    where : str
        Who complains.
    old, new : tuple of str
        Names of the classes.
    anchors : int
        Number of anchors; each has rows for x, y, w, h, objectness and the classes.
    reuse : dict, list or None
        ``{new: old}``, by names or numbers, or names that are in both.

    Returns
    -------
    list of tuple of int

    Raises
    ------
    OpError
        A class does not exist, or ``reuse`` is something else.
    """
    if reuse is None:
        return []
    if isinstance(reuse, (list, tuple)):
        reuse = {name: name for name in reuse}
    if not isinstance(reuse, dict):
        raise OpError(where, f"reuse_weights is {reuse!r}; expected None, a dict of new to old classes, or a list of "
                      "names", "Pass for instance {'person': 14}")
    kept = [(i, i) for i in range(5)] if reuse else []
    kept += [(5 + _index(where, "new", new, a), 5 + _index(where, "old", old, b)) for a, b in reuse.items()]
    return [(anchor * (5 + len(new)) + a, anchor * (5 + len(old)) + b) for anchor in range(anchors) for a, b in kept]


def _index(where, which, classes, key):
    if isinstance(key, str) and key in classes:
        return classes.index(key)
    if isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(classes):
        return key
    shown = ", ".join(classes[:8])
    if len(classes) > 8:
        shown += ", ..."
    raise OpError(where, f"reuse_weights names {key!r}, which is none of the {len(classes)} {which} classes",
                  f"The {which} classes are {shown}")
