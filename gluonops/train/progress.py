"""A progress bar on a terminal or in a notebook, a line now and then in a log, and sentences above them."""
from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Mapping

from ..core.progress import bars, columns, in_notebook

__all__ = ["Bar", "say"]

WITHOUT_VALUES = 38   # columns of a bar that are not for its title, its unit and its values
LOG_EVERY = 30     # seconds between lines in a log
FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {remaining} left, {rate_fmt}{postfix}"


class Bar:
    """A progress bar on stderr, or in a notebook. In a log there are lines: one every 30 seconds, and the last.

    So much is ``done`` already in a run that is resumed. The workers that stay silent are not ``shown``.
    """

    def __init__(self, total: int, done: int, title: str, unit: str, shown: bool):
        self._total, self._done, self._title = total, done, title
        self._taken = WITHOUT_VALUES + len(title) + len(unit)
        self._values, self._logged = "", time.monotonic()
        self._logs = shown and not (sys.stderr.isatty() or in_notebook())
        bar = bars() if shown and not self._logs else None
        # unit_scale: a rate has at most five columns, such as 1.23k.
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
    """Print a sentence on stderr, above the bar if there is one. A notebook shows stderr in red: there on stdout."""
    bar, file = bars(), sys.stdout if in_notebook() else sys.stderr
    if bar is None:
        print(text, file=file, flush=True)
    else:
        bar.func.write(text, file=file)
