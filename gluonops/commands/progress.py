"""A progress bar, if tqdm is installed and stderr is a terminal."""
from __future__ import annotations

from collections.abc import Iterable

try:
    from tqdm import tqdm
except ImportError:   # the commands work without it
    tqdm = None

__all__ = ["layers", "over"]


def over(items: Iterable, what: str, unit: str) -> Iterable:
    """The items, with a bar on stderr if that is a terminal."""
    return items if tqdm is None else tqdm(items, desc=what, unit=unit, disable=None)


def layers(items: Iterable) -> Iterable:
    """The layers while their weights are read, with a bar."""
    return over(items, "weights", "layer")
