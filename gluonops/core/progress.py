"""tqdm's bars on stderr: as wide as the terminal, in a notebook a widget, and none where tqdm is not installed."""
from __future__ import annotations

import functools
import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterable

COLUMNS, ROWS = 80, 24   # A log has so many, and so has a terminal that names none, as those of containers do.
WIDEST = 100             # a bar has no more columns


def bars() -> Callable | None:
    """What makes a bar, with tqdm's arguments. None without tqdm."""
    try:
        if in_notebook() and importlib.util.find_spec("ipywidgets"):   # tqdm.auto warns where there are no widgets
            from tqdm.notebook import tqdm
            return functools.partial(tqdm)
        from tqdm import tqdm
    except ImportError:
        return None
    return functools.partial(tqdm, ncols=columns(), nrows=ROWS)   # tqdm shows nothing in a terminal of no rows


def columns() -> int:
    """Columns of the terminal, at most 100; 80 in a log."""
    return min(shutil.get_terminal_size((COLUMNS, ROWS)).columns, WIDEST) or COLUMNS


def in_notebook() -> bool:
    """Whether Jupyter shows what is written on stderr, which is no terminal there."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return hasattr(shell, "kernel")


def over(items: Iterable, what: str, unit: str, least: int = 2, leave: bool = True) -> Iterable:
    """``items`` with a progress bar, unless stderr is a log or there are fewer than ``least``.

    ``what`` is the text in front of the bar, and ``leave`` says whether the bar stays when it is full.
    """
    bar = bars()
    is_short = hasattr(items, "__len__") and len(items) < least
    if bar is None or is_short or not (sys.stderr.isatty() or in_notebook()):
        return items
    return bar(items, desc=what, unit=unit, leave=leave)


def layers(items: Iterable) -> Iterable:
    """The layers of a network with a progress bar, while their weights are read."""
    return over(items, "weights", "layer")
