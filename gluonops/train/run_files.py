"""Writes the files of a run: completely or not at all. A file is on the disk before it replaces the old one."""
from __future__ import annotations

import errno
import fcntl
import os
import pathlib
import re
import socket
import stat
import tempfile
from typing import Callable

from ..contract.errors import OpError
from ..io.files import check_name, is_alive, replace
from ..io.params import check_written

__all__ = ["lock_folder", "make_folder", "save_tensors", "write"]

LOCK = ".run.lock"
_locks = {}   # path -> its open file's number; closing the file would give the lock back


def write(path: str | os.PathLike, save: Callable[[str], object], where: str = "train.write") -> None:
    """Call ``save`` with a temporary name, and rename the file. A crash or a full disk leaves the old file or the new.

    An OpError is raised if the file cannot be written. The old file is unchanged, and nothing is left beside it.

    Parameters
    ----------
    path : str or os.PathLike
    save : callable
        Writes the file at the path that it is given.
    where : str
        The caller, for errors.
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
    """Make the folder for the results, and its parents, and check that files can be written there.

    An OpError is raised if there is a file of this name, or no permission, or the file system is read-only.
    """
    check_name(where, path)
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

    The file ``.run.lock`` in the folder says which process has it. The file stays there, and has no meaning after that
    process has ended.

    On a file system without locks, the content of the file decides. This works only for processes of one machine. An
    OpError is raised if another process has the folder, and the message says which; or if the file cannot be written.
    """
    name = os.path.join(os.path.realpath(path), LOCK)
    if name in _locks:
        return
    try:
        lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        owner = _other_owner(lock)
        if owner is None:
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"process {os.getpid()} of {socket.gethostname()}\n".encode(), 0)
    except OSError as error:
        raise OpError(where, f"{name}, which keeps two runs apart, cannot be written: {error.strerror}",
                      "Remove that file, make room on the disk, or choose another --out") from error
    if owner is not None:
        os.close(lock)
        raise OpError(where, f"{owner} is writing its run to {path}",
                      "Wait until it has ended, or choose another --out")
    _locks[name] = lock


def _other_owner(lock: int) -> str | None:
    """The process that has a lock, in words. None if this process has it now."""
    if not stat.S_ISREG(os.fstat(lock).st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    text = os.pread(lock, 1000, 0).decode(errors="replace").strip()
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return text or "another process"
        process = re.fullmatch(rf"process (\d+) of {re.escape(socket.gethostname())}", text)
        if process and int(process[1]) != os.getpid() and is_alive(int(process[1])):
            return text
    return None
