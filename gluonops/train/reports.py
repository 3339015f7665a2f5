"""Reports the results of a run: on the screen, in ``history.csv``, in TensorBoard's files and in ``results.json``."""
from __future__ import annotations

import csv
import json
import numbers
import os
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence

import mxnet as mx
import numpy as np

from ..io.optional import require
from ..io.progress import COLUMNS
from ..version import __version__
from .run_files import write

__all__ = ["EpochTable", "EventWriter", "write_history", "write_results"]

WIDTH = 7   # A column is at least so wide: four digits, a point and an exponent.
SLOW, TIMED = 4, 12   # the first batches of a run are slow; the time of the batches after them is measured


class EpochTable:
    """The screen of a run: a header, and an aligned row for each epoch, in at most 80 columns.

    Parameters
    ----------
    epochs : int
        Number of epochs of the run.
    shown : sequence of str, default ()
        Names of the values to show. By default all values of an epoch are shown, as far as there is room.
    """

    def __init__(self, epochs: int, shown: Sequence[str] = ()):
        self._epochs, self._shown, self._names = epochs, tuple(shown), None

    def row(self, values: Mapping[str, object], seconds: float | None = None) -> str:
        """The text of an epoch, below the header if the columns are new.

        Parameters
        ----------
        values : mapping
            Row of a run's history.
        seconds : float, optional
            How long the epoch took. If it is given, the row shows it, and how long the remaining epochs will take.
        """
        counted = f"{values['epoch']}/{self._epochs}"
        cells = {"epoch": counted.rjust(len(f"{self._epochs}/{self._epochs}"))}
        if seconds is not None:
            cells["time"] = duration(seconds)
            cells["left"] = duration(seconds * (self._epochs - values["epoch"]))
        for name in self._shown or [name for name in values if name != "epoch"]:
            if isinstance(values.get(name), numbers.Real):
                cells[name.replace("_", " ")] = f"{values[name]:.4g}"
        widths = {name: max(len(name), WIDTH) for name in cells}
        while sum(widths.values()) + 2 * len(widths) > COLUMNS:
            widths.popitem()
        lines = ["  ".join(cells[name].rjust(width) for name, width in widths.items())]
        if list(widths) != self._names:
            self._names = list(widths)
            lines.insert(0, "  ".join(name.rjust(width) for name, width in widths.items()))
        return "\n".join(lines)


class ExpectedTime:
    """The last line of a run's introduction, which says how long the run will take. Titles have the given width."""

    def __init__(self, width: int, say: Callable[[str], None]):
        self._width, self._say, self._marks = width, say, []

    def after_a_batch(self, left: int) -> None:
        """Print the line as soon as some batches have been timed. ``left`` is the number of batches that are left."""
        self._marks.append(time.monotonic())
        if len(self._marks) == SLOW + TIMED + 1:
            seconds = (self._marks[-1] - self._marks[SLOW]) / TIMED
            self._say(f"{'time':>{self._width}}  about {in_words(seconds * left)}, and the validations")


def in_words(seconds: float) -> str:
    """A duration for a sentence, such as ``5 s``, ``12 min 34 s`` or ``1 h 2 min``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def duration(seconds: float) -> str:
    """A duration for a column, such as ``0:05``, ``12:34`` or ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def write_history(history: Sequence[Mapping[str, object]], path: str | os.PathLike) -> None:
    """Write the history of a run as CSV, with the names in the first line. A value that an epoch lacks is empty."""
    names = list(dict.fromkeys(name for row in history for name in row))

    def save(temporary):
        with open(temporary, "w", newline="", encoding="utf-8") as file:
            rows = csv.DictWriter(file, names)
            rows.writeheader()
            rows.writerows(history)

    write(path, save, "train.write_history")


class EventWriter:
    """Writes the rows of a run's history as scalars for TensorBoard.

    Parameters
    ----------
    folder : str or os.PathLike
        The folder, which ``tensorboard --logdir`` takes.

    Raises
    ------
    OpError
        tensorboardX is not installed.
    """

    def __init__(self, folder: str | os.PathLike):
        self._make = require("tensorboardX", "train.EventWriter",
                             "Run: pip install tensorboardX; or leave tensorboard out").SummaryWriter
        self._folder = os.fspath(folder)

    def write(self, row: Mapping[str, object]) -> None:
        """Write the numbers of a row at the step ``row["epoch"]``, and close the file: each call adds a file."""
        # Files are named by the second, and two epochs may end in one.
        with self._make(self._folder, filename_suffix=f".epoch{row['epoch']}") as writer:
            for name, value in row.items():
                if name != "epoch" and isinstance(value, numbers.Real):
                    writer.add_scalar(name, float(value), int(row["epoch"]))


def write_results(results: Mapping[str, object], path: str | os.PathLike) -> None:
    """Write results as JSON, with the versions of the packages.

    Parameters
    ----------
    results : mapping
        The results. Their ``options`` reproduce the run with ``--config results.json``.
    path : str or os.PathLike
        The file.

    Raises
    ------
    OpError
        The file cannot be written.
    """
    versions = {"gluonops": __version__, "mxnet": mx.__version__, "numpy": np.__version__}
    text = json.dumps({**results, "versions": versions}, indent=2, default=lambda value: (
        value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)))
    write(path, lambda name: pathlib.Path(name).write_text(f"{text}\n", encoding="utf-8"), "train.write_results")
