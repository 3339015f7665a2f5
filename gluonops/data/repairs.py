"""Keeps account of what was changed or left out of a data set, so that it can be used.

A reader may meet something imperfect whose repair is certain, such as a box that reaches beyond its picture. It notes
the reason and the place in :class:`Repairs`. If the repairs are strict, an error is raised instead. The user sees one
warning for all repairs of a data set, and ``summary`` returns them for JSON.
"""
from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable
from typing import Callable, NamedTuple, Union

from ..contract.errors import OpError

UNREADABLE = 0.1   # A data set of which a larger share of the pictures cannot be read is refused.
PLACES = 3         # A warning names so many places for each reason.
ACCEPTED = ("rounded",)   # reasons that are no fault: a strict reader takes them, too
# For each reason the words that follow the number in the warning: for one repair, and for several.
REASONS = {
    "clipped": ("box reached beyond its picture and is clipped", "boxes reached beyond their picture and are clipped"),
    "rounded": ("box reached beyond its picture by less than a pixel and is clipped",
                "boxes reached beyond their picture by less than a pixel and are clipped"),
    "no_area": ("box without an area is left out", "boxes without an area are left out"),
    "outside": ("box outside of its picture is left out", "boxes outside of their picture are left out"),
    "size": ("label stated no size, or not its picture's; the picture's own size counts",
             "labels stated no size, or not their picture's; the picture's own size counts"),
    "turned": ("label was of the picture before it is turned upright, and is turned with it",
               "labels were of the picture before it is turned upright, and are turned with it"),
    "difficult": ("object had no <difficult>, or neither 0 nor 1 in it", "objects had no <difficult>, or neither 0 nor "
                  "1 in it"),
    "polygon": ("polygon is replaced by its bounding box", "polygons are replaced by their bounding boxes"),
    "confidence": ("row had a sixth number, a confidence, which is left out",
                   "rows had a sixth number, a confidence, which is left out"),
    "no_label": ("picture has no label file and counts as one without objects",
                 "pictures have no label file and count as ones without objects"),
    "no_picture": ("label without a picture is left out", "labels without a picture are left out"),
    "unreadable": ("picture cannot be read and is left out", "pictures cannot be read and are left out"),
    "same_name": ("category had the name of another and is one class with it",
                  "categories had the name of another and are one class with it"),
    "no_index": (".rec file has no .idx, so its records are counted anew",
                 ".rec files have no .idx, so their records are counted anew"),
    "padding": ("row of -1 is padding and is left out", "rows of -1 are padding and are left out"),
    "header": ("record has no picture and is left out", "records have no picture and are left out"),
}
Place = Union[str, Callable[[], str]]   # where something stands; a function if it takes time to find out


class RepairWarning(UserWarning):
    """What was changed or left out of a data set, so that it can be used."""


class Noted(NamedTuple):
    """How often a repair was made for a reason, and the first places where it was made."""
    count: int
    first: tuple[str, ...]


class Repairs:
    """What was changed or left out while a data set was read.

    Parameters
    ----------
    where : str
        Name of the reader, for errors.
    strict : bool, default False
        Whether the first repair is an OpError instead.
    """

    def __init__(self, where: str, strict: bool = False):
        self.where, self.strict, self.noted, self._damaged = where, strict, {}, {}

    def note(self, reason: str, place: Place, got: str, expected: str) -> None:
        """Count a repair.

        If the repairs are strict, raise an OpError with ``place``, ``got`` and ``expected`` instead.
        """
        if self.strict and reason not in ACCEPTED:
            raise OpError(self.where, f"{_text(place)}: {got}; expected {expected}",
                          "Correct it, or leave strict out: then it is repaired and counted")
        count, first = self.noted.get(reason, Noted(0, ()))
        if count < PLACES:
            first = (*first, _text(place))
        self.noted[reason] = Noted(count + 1, first)

    def damaged(self, error: OpError, pictures: int) -> None:
        """Count a picture that turns out to be damaged when it is decoded, and warn of it.

        ``pictures`` is the number of pictures that the data set has. If the repairs are strict, ``error`` is raised.
        An OpError is also raised if more than 1 in 10 pictures cannot be read.
        """
        if self.strict:
            raise error
        place = error.what.split("; expected ")[0]
        own = object()
        if self._damaged.setdefault(place, own) is not own:   # It was counted, perhaps by another thread.
            return
        self.note("unreadable", place, "", "")
        count, total = self.noted["unreadable"].count, pictures + self.noted["unreadable"].count - len(self._damaged)
        check_readable(self.where, count, total, error)
        warnings.warn(f"{place}. It is left out: the next picture that can be read takes its place", RepairWarning,
                      stacklevel=3)

    def summary(self) -> dict[str, dict]:
        """For each reason a dict with the ``count`` and the ``first`` places, for JSON."""
        return {reason: {"count": count, "first": list(first)} for reason, (count, first) in self.noted.items()}

    def __str__(self) -> str:
        return "\n".join(f"  {count} {REASONS[reason][count > 1]}: {'; '.join(first)}{'; ...' * (count > len(first))}"
                         for reason, (count, first) in self.noted.items())


def check_readable(where: str, count: int, total: int, first: OpError) -> None:
    """Raise an OpError if more than 1 in 10 pictures cannot be read: ``count`` of ``total``."""
    if count > UNREADABLE * total:
        raise OpError(where, f"{count} of {total} pictures cannot be read; expected at most 1 in 10. The first error "
                      f"is: {first.what}", first.remedy)


def _text(place: Place) -> str:
    return place if isinstance(place, str) else place()


def merged(several: Iterable[Repairs]) -> Repairs:
    """The repairs of several parts of a data set as those of one. Parts that were read together count once."""
    parts = list({id(repairs): repairs for repairs in several}.values())
    total = Repairs(parts[0].where) if parts else Repairs("data")
    for reason, noted in itertools.chain.from_iterable(part.noted.items() for part in parts):
        count, first = total.noted.get(reason, Noted(0, ()))
        total.noted[reason] = Noted(count + noted.count, (*first, *noted.first)[:PLACES])
    return total


def warn_of(several: Iterable[Repairs], stacklevel: int = 3) -> None:
    """Show one warning about all repairs, if there are any."""
    total = merged(several)
    if total.noted:
        warnings.warn(f"the data set is used with these repairs, which are errors if strict is set:\n{total}",
                      RepairWarning, stacklevel=stacklevel)
