"""Losses and metrics for TensorBoard, written by the package tensorboardX."""
from __future__ import annotations

import numbers
import os
from collections.abc import Mapping

from ..core.errors import OpError

__all__ = ["EventWriter"]


class EventWriter:
    """Writes the rows of a run's history as scalars, in the folder that ``tensorboard --logdir`` takes.

    Parameters
    ----------
    folder : str or os.PathLike

    Raises
    ------
    OpError
        tensorboardX is not installed.
    """

    def __init__(self, folder: str | os.PathLike):
        try:
            import tensorboardX
        except ImportError as error:
            raise OpError("train.EventWriter", f"tensorboardX cannot be imported ({error})",
                          "Run: pip install tensorboardX; or leave tensorboard out") from error
        self._make = tensorboardX.SummaryWriter
        self._folder = os.fspath(folder)

    def write(self, row: Mapping[str, object]) -> None:
        """Write the numbers of a row at the step ``row["epoch"]``, and close the file: each call adds a file."""
        # Files are named by the second, and two epochs may end in one.
        with self._make(self._folder, filename_suffix=f".epoch{row['epoch']}") as writer:
            for name, value in row.items():
                if name != "epoch" and isinstance(value, numbers.Real):
                    writer.add_scalar(name, float(value), int(row["epoch"]))
