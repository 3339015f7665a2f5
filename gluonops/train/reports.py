"""What a run leaves in words and numbers: sentences, ``history.csv``, ``results.json``."""
from __future__ import annotations

import csv
import json
import numbers
import os
import pathlib
from collections.abc import Mapping, Sequence

import mxnet as mx
import numpy as np

from ..version import __version__
from .files import write
from .progress import COLUMNS

__all__ = ["describe_epoch", "write_history", "write_results"]


def describe_epoch(row: Mapping[str, object], epochs: int, title: str = "training") -> str:
    """A sentence with the numbers of an epoch, in lines of at most 80 columns.

    Parameters
    ----------
    row : mapping
        Row of a run's history.
    epochs : int
        Number of epochs of the run.
    title : str, default "training"
    """
    values = [f"{_words(name)} {value:.4g}" for name, value in row.items()
              if name != "epoch" and isinstance(value, numbers.Real)]
    said = f"Epoch {row['epoch']} of {epochs} of the {title} is done"
    if not values:
        return f"{said}."
    lines = [f"{said}:"]
    for value in [f"{value}," for value in values[:-1]] + [f"{values[-1]}."]:
        if len(lines[-1]) + 1 + len(value) <= COLUMNS:
            lines[-1] += f" {value}"
        else:
            lines.append(f"  {value}")
    return "\n".join(lines)


def write_history(history: Sequence[Mapping[str, object]], path: str | os.PathLike) -> None:
    """Write the rows of a run's history as CSV, the names in the first line. A value that an epoch lacks is empty.

    Raises
    ------
    OpError
        The file cannot be written.
    """
    names = list(dict.fromkeys(name for row in history for name in row))

    def save(temporary):
        with open(temporary, "w", newline="", encoding="utf-8") as file:
            rows = csv.DictWriter(file, names)
            rows.writeheader()
            rows.writerows(history)

    write(path, save, "train.write_history")


def write_results(results: Mapping[str, object], path: str | os.PathLike) -> None:
    """Write results as JSON, with the versions of the packages.

    Parameters
    ----------
    results : mapping
        Its ``options`` reproduce the run: ``--config results.json``.
    path : str or os.PathLike

    Raises
    ------
    OpError
        The file cannot be written.
    """
    versions = {"gluonops": __version__, "mxnet": mx.__version__, "numpy": np.__version__}
    text = json.dumps({**results, "versions": versions}, indent=2, default=_as_json) + "\n"
    write(path, lambda name: pathlib.Path(name).write_text(text, encoding="utf-8"), "train.write_results")


def _as_json(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return str(value)


def _words(name: str) -> str:
    return name.replace("_", " ")
