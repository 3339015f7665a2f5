"""tqdm's bars on stderr: as wide as the terminal, in a notebook a widget, and none where tqdm is not installed.

A run has such a bar, in a log a line now and then, and sentences above it.
"""
from __future__ import annotations

import functools
import importlib.util
import itertools
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping

COLUMNS, ROWS = 80, 24   # The size of a log, and of a terminal that does not tell its own, as in containers.
WIDEST = 100             # the most columns of a bar
WITHOUT_VALUES = 38   # columns of a bar that are not for its title, its unit and its values
LOG_EVERY = 30     # seconds between lines in a log
FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {remaining} left, {rate_fmt}{postfix}"


def bars() -> Callable | None:
    """Return what makes a bar from tqdm's arguments, or None if tqdm is not installed."""
    try:
        if in_notebook() and importlib.util.find_spec("ipywidgets"):   # tqdm.auto warns where there are no widgets
            from tqdm.notebook import tqdm
            return functools.partial(tqdm)
        from tqdm import tqdm
    except ImportError:
        return None
    return functools.partial(tqdm, ncols=columns(), nrows=ROWS)   # tqdm shows nothing in a terminal of no rows


def columns() -> int:
    """Return how many columns the terminal has, but at most 100, or 80 for a log."""
    return min(shutil.get_terminal_size((COLUMNS, ROWS)).columns, WIDEST) or COLUMNS


def in_notebook() -> bool:
    """Return whether Jupyter shows what is written on stderr, which is no terminal there."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return hasattr(shell, "kernel")


def over(items: Iterable, what: str, unit: str, least: int = 2, leave: bool = True) -> Iterable:
    """Return ``items`` with a progress bar, unless stderr is a log or there are fewer than ``least`` items.

    ``what`` is the text in front of the bar, and ``leave`` says whether the bar stays when it is full.
    """
    bar = bars()
    is_short = hasattr(items, "__len__") and len(items) < least
    if bar is None or is_short or not (sys.stderr.isatty() or in_notebook()):
        return items
    return bar(items, desc=what, unit=unit, leave=leave)


def layers(items: Iterable) -> Iterable:
    """Return the layers of a network with a progress bar, while their weights are read."""
    return over(items, "weights", "layer")


class Bar:
    """A progress bar on stderr, or in a notebook. A log gets a line every 30 seconds instead, and one at the end.

    ``done`` is what a run that is resumed has done before. ``shown`` is False in the workers that stay silent.
    """

    def __init__(self, total: int, done: int, title: str, unit: str, shown: bool):
        self._total, self._done, self._title = total, done, title
        self._taken = WITHOUT_VALUES + len(title) + len(unit)
        self._values, self._logged = "", time.monotonic()
        self._logs = shown and not (sys.stderr.isatty() or in_notebook())
        bar = bars() if shown and not self._logs else None
        # With unit_scale a rate has at most five columns, such as 1.23k.
        self._bar = bar and bar(total=total, initial=done, desc=title, unit=unit, unit_scale=True, bar_format=FORMAT)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error) -> None:
        if self._bar is not None:
            self._bar.close()
        if self._logs and self._values:
            self._log()

    def advance(self, count: int, values: Mapping[str, object]) -> None:
        """Count what was done, and show values beside the bar, as many as have room."""
        self._done += count
        longer = itertools.accumulate((f"{name}={value}" for name, value in values.items()), "{}, {}".format)
        room = columns() - self._taken
        self._values = max((text for text in longer if len(text) <= room), key=len, default="")
        if self._bar is not None:
            self._bar.ncols = columns()   # the window may have another size now
            self._bar.set_postfix_str(self._values, refresh=False)
            self._bar.update(count)
        elif self._logs and time.monotonic() - self._logged > LOG_EVERY:
            self._log()

    def _log(self):
        self._logged = time.monotonic()
        print(f"{self._title}: {self._done / max(1, self._total):4.0%}, {self._values}", file=sys.stderr, flush=True)


def say(text: str) -> None:
    """Print a sentence on stderr, above the bar if there is one.

    In a notebook it is printed on stdout, because notebooks show stderr in red.
    """
    bar, file = bars(), sys.stdout if in_notebook() else sys.stderr
    if bar is None:
        print(text, file=file, flush=True)
    else:
        bar.func.write(text, file=file)
