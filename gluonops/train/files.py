"""Files of a run: written completely or not at all, and on the disk before they replace the old ones."""
from __future__ import annotations

import os
import pathlib
from typing import Callable

from ..core.arrays import check_written
from ..core.errors import OpError
from ..core.files import replace

__all__ = ["make_folder", "save_tensors", "write"]


def write(path: str | os.PathLike, save: Callable[[str], object], where: str = "train.write") -> None:
    """``save(name)`` under a temporary name, then rename: a crash or a full disk leaves the old file or the new one.

    Parameters
    ----------
    path : str or os.PathLike
    save : callable
        Writes the file at the path that it is given.
    where : str
        The caller, for errors.

    Raises
    ------
    OpError
        The file cannot be written. The old file is unchanged, and nothing is left beside it.
    """
    replace(where, {os.fspath(path): save})


def save_tensors(path: str | os.PathLike, save: Callable[[str], object], where: str = "train.save_tensors") -> None:
    """Write a file of tensors, and check it before it replaces the old one.

    MXNet does not check whether closing a file succeeds. If the last block found no room on the disk, the file is cut
    short without an error. The names come last, so the check fails wherever the file was cut.

    Parameters
    ----------
    path : str or os.PathLike
    save : callable
        Writes the file with ``mx.nd.save``, as ``net.save_parameters`` does.
    where : str
        The caller, for errors.

    Raises
    ------
    OpError
        The file cannot be written. The old file is unchanged.
    """
    def save_and_check(name):
        save(name)
        check_written(name)

    write(path, save_and_check, where)


def make_folder(path: str | os.PathLike, where: str = "train.make_folder") -> pathlib.Path:
    """Make the folder for the results, and its parents.

    Raises
    ------
    OpError
        There is a file of this name, or no permission.
    """
    path = pathlib.Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OpError(where, f"the folder {path} cannot be made: {error.strerror}", "Choose another --out") from error
    return path
