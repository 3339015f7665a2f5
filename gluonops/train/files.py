"""Files of a run: written completely or not at all, and on the disk before they replace the old ones."""
from __future__ import annotations

import atexit
import errno
import fcntl
import os
import pathlib
import socket
import tempfile
from typing import Callable

from ..core.arrays import check_written
from ..core.errors import OpError
from ..core.files import replace

__all__ = ["lock_folder", "make_folder", "save_tensors", "write"]

LOCK = ".run.lock"
_locks = {}   # path -> its open file


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
    """Make the folder for the results, and its parents, and see that files can be written there.

    Raises
    ------
    OpError
        There is a file of this name, or no permission, or the file system is read-only.
    """
    path = pathlib.Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise OpError(where, f"the folder {path} cannot be made or written: {error.strerror}",
                      "Choose another --out") from error
    return path


def lock_folder(path: str | os.PathLike, where: str = "train.lock_folder") -> None:
    """Keep other processes from writing a run's files in this folder, until this process ends.

    The file ``.run.lock`` in it says who has it. It stays there, and means nothing when that process has ended.

    Raises
    ------
    OpError
        Another process has the folder. The message says which.
    """
    name = os.path.join(os.path.realpath(path), LOCK)
    if name in _locks:
        return
    file = open(name, "a+", encoding="utf-8")   # closing it gives the lock back
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):   # a file system without locks
            file.close()
            return
        file.seek(0)
        owner = file.read().strip() or "another process"
        file.close()
        raise OpError(where, f"{owner} writes its run to {path}", "Wait for it, or choose another --out") from error
    file.truncate(0)
    file.write(f"process {os.getpid()} of {socket.gethostname()}\n")
    file.flush()
    _locks[name] = file
    atexit.register(file.close)
