"""The classes of a detector: their names, and the numbers of an anchor that are kept when they change."""
from __future__ import annotations

from collections.abc import Sequence

from gluonops.core.attributes import Attr, Int
from gluonops.core.errors import OpError

__all__ = ["class_names", "kept_numbers"]

BOX = 5   # an anchor's x, y, w, h and objectness


def class_names(where: str, classes: int | Sequence[str]) -> tuple[str, ...]:
    """Names of the classes.

    ``classes``: the names, or their number. With a number, the names are "0", "1", ... An OpError if the number is
    below 1, or two names are equal.
    """
    if isinstance(classes, (list, tuple)) and classes and all(isinstance(name, str) for name in classes):
        if len(set(classes)) < len(classes):
            duplicate = next(name for name in classes if classes.count(name) > 1)
            raise OpError(where, f"classes has {duplicate!r} twice; expected different names", "Rename one of them")
        return tuple(classes)
    count = Attr("classes", Int(1), None).parse(where, classes)
    return tuple(str(i) for i in range(count))


def kept_numbers(where: str, old: tuple[str, ...], new: tuple[str, ...],
                 reuse: dict | list | None) -> list[tuple[int, int]]:
    """The numbers of an anchor that are kept when the classes change: x, y, w, h, objectness and the classes.

    - ``old`` and ``new``: names of the old and of the new classes.
    - ``reuse``: the classes to keep: ``{new: old}`` by names or class ids, or a list of names that are in both. None:
      nothing.

    The result is (new number, old number). If a class is kept, box and objectness are kept as well. An OpError if a
    class does not exist, or ``reuse`` has another type.
    """
    if reuse is None:
        return []
    if isinstance(reuse, (list, tuple)):
        reuse = {name: name for name in reuse}
    if not isinstance(reuse, dict):
        raise OpError(where, f"reuse_weights is {reuse!r}; expected None, a dict of new to old classes, or a list of "
                      "names", "Pass for instance {'person': 14}")
    if not reuse:
        return []
    kept = [(number, number) for number in range(BOX)]
    for new_class, old_class in reuse.items():
        kept.append((BOX + _class_id(where, "new", new, new_class), BOX + _class_id(where, "old", old, old_class)))
    return kept


def _class_id(where, which, classes, key):
    """The class id of a name or class id."""
    if isinstance(key, str) and key in classes:
        return classes.index(key)
    if isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(classes):
        return key
    shown = ", ".join(classes[:8])
    if len(classes) > 8:
        shown += ", ..."
    raise OpError(where, f"reuse_weights names {key!r}, which is none of the {len(classes)} {which} classes",
                  f"The {which} classes are {shown}")
