"""A progress bar, if tqdm is installed, and sentences above it."""
from __future__ import annotations

import sys
from collections.abc import Mapping

__all__ = ["Bar"]


class Bar:
    """A progress bar on stderr.

    Parameters
    ----------
    total : int
    done : int
        What is done already, as in a run that is resumed.
    title : str
    unit : str
    shown : bool
        False for the workers that stay silent.
    """

    def __init__(self, total: int, done: int, title: str, unit: str, shown: bool):
        try:
            from tqdm import tqdm
        except ImportError:   # training works without it
            self._bar = None
            return
        self._bar = tqdm(total=total, initial=done, desc=title, unit=unit, disable=not shown, dynamic_ncols=True)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error) -> None:
        if self._bar is not None:
            self._bar.close()

    def advance(self, count: int, values: Mapping[str, object]) -> None:
        """Count what was done, and show values beside the bar."""
        if self._bar is not None:
            self._bar.set_postfix(values, refresh=False)
            self._bar.update(count)


def say(text: str) -> None:
    """Print a sentence on stderr, above the bar if there is one."""
    try:
        from tqdm import tqdm
    except ImportError:
        print(text, file=sys.stderr, flush=True)
    else:
        tqdm.write(text, file=sys.stderr)
