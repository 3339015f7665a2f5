"""Writes files completely or not at all."""
from __future__ import annotations

import os
import shutil
import tempfile
from typing import Callable

import mxnet as mx

from .errors import OpError

__all__ = ["check_target", "make_folder", "replace", "save_arrays"]


def check_target(where: str, *paths: str) -> None:
    """Raise an OpError if a file cannot be written: its folder does not exist, or it is a folder itself."""
    for path in paths:
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder):
            raise OpError(where, f"the folder {folder} does not exist", "Create it first")
        if os.path.isdir(path):
            raise OpError(where, f"{path} is a folder; expected the name of a file", "Pass another name, or remove it")


def make_folder(where: str, path: str) -> None:
    """Make the folder of a file, and its parents, if they do not exist."""
    folder = os.path.dirname(path) or "."
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise OpError(where, f"cannot make the folder {folder}: {error.strerror}", "Pass another path") from error


def replace(where: str, savers: dict[str, Callable[[str], object]]) -> None:
    """Save every file under a temporary name, then rename all of them: a failure leaves the old files unchanged.

    Parameters
    ----------
    where : str
        The caller, for errors.
    savers : dict of str to callable
        Path -> function that writes the file to the path in its argument.

    Raises
    ------
    OpError
        A file cannot be written, for instance because the disk is full or a folder has its name.
    """
    try:
        _replace(savers)
    except (OSError, mx.MXNetError) as error:
        reason = getattr(error, "strerror", None) or str(error).strip().splitlines()[-1]
        raise OpError(where, f"cannot write {' and '.join(savers)}: {reason}; what was there before is untouched",
                      "Make room on the disk, or choose another path") from error


def save_arrays(path: str, arrays: dict[str, mx.nd.NDArray]) -> None:
    """``mx.nd.save``. The file is read back, because MXNet ignores an error in writing the last block."""
    mx.nd.save(path, arrays)
    mx.nd.load(path)   # the names come last, so this fails for every file that is cut off


def _replace(savers: dict[str, Callable[[str], object]]) -> None:
    temporary = {}   # path -> the new file
    backups = {}     # path -> a copy of the old file
    renamed = []
    try:
        for path, save in savers.items():
            temporary[path] = _beside(path)
            save(temporary[path])
            os.chmod(temporary[path], 0o666 & ~_umask())
        for path in list(savers)[:-1]:   # nothing can fail after the last rename
            if os.path.isfile(path):
                backups[path] = _beside(path)
                shutil.copy2(path, backups[path])
        for path in savers:
            os.replace(temporary[path], path)
            del temporary[path]
            renamed.append(path)
    except BaseException:
        _restore(renamed, backups)
        raise
    finally:
        for path in (*temporary.values(), *backups.values()):
            os.unlink(path)


def _restore(paths: list[str], backups: dict[str, str]) -> None:
    """Put the old files back. A file that is new is removed."""
    for path in paths:
        if path in backups:
            os.replace(backups.pop(path), path)
        else:
            os.unlink(path)


def _beside(path: str) -> str:
    """A new temporary file in the same folder."""
    handle, name = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=os.path.basename(path) + ".")
    os.close(handle)
    return name


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
