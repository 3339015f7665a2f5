"""Progress bars on stderr. They are shown if tqdm is installed and stderr is a terminal."""
from __future__ import annotations

from collections.abc import Iterable

try:
    from tqdm import tqdm
except ImportError:   # tqdm is optional
    tqdm = None

__all__ = ["layers", "over"]


def over(items: Iterable, what: str, unit: str) -> Iterable:
    """``items`` with a progress bar.

    - ``what``: text in front of the bar.
    - ``unit``: name of an item.
    """
    if tqdm is None:
        return items
    is_one = hasattr(items, "__len__") and len(items) < 2
    return tqdm(items, desc=what, unit=unit, disable=True if is_one else None)


def layers(items: Iterable) -> Iterable:
    """The layers of a network with a progress bar, while their weights are read."""
    return over(items, "weights", "layer")
