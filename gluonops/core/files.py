"""Reads regular files only, and writes files completely or not at all."""
from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import socket
import stat
import tempfile
from typing import Callable

import mxnet as mx

from .errors import OpError

__all__ = ["check_regular", "check_target", "make_folder", "read_lines", "replace"]

TEMPORARY = ".tmp"   # the end of a temporary file's name


def check_target(where: str, *paths: str) -> None:
    """Raise an OpError if a file cannot be written: its folder does not exist, or it is a folder itself."""
    for path in paths:
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder):
            raise OpError(where, f"the folder {folder} does not exist", "Create it first")
        if os.path.isdir(path):
            raise OpError(where, f"{path} is a folder; expected the name of a file", "Pass another name, or remove it")


def check_regular(path: str | os.PathLike) -> None:
    """Raise an OSError if a file does not exist or is no regular file: opening a FIFO would wait for ever."""
    try:
        mode = os.stat(path).st_mode
    except ValueError as error:   # a NUL, or a character that the system's encoding lacks
        raise OSError(errno.EINVAL, "no file can have this name", os.fspath(path)) from error
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))


def read_lines(path: str | os.PathLike) -> list[str]:
    """The lines of a text file in UTF-8, without their ends. A byte order mark is left out.

    Raises
    ------
    OSError
        The file cannot be read, is no regular file or is not text; ``strerror`` says why.
    """
    check_regular(path)
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read().splitlines()
    except UnicodeDecodeError as error:
        raise OSError(errno.EINVAL, "it is not a text file", os.fspath(path)) from error


def make_folder(where: str, path: str) -> None:
    """Make the folder of a file, and its parents, if they do not exist."""
    folder = os.path.dirname(path) or "."
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise OpError(where, f"cannot make the folder {folder}: {error.strerror}", "Pass another path") from error


def replace(where: str, savers: dict[str, Callable[[str], object]]) -> None:
    """Save every file under a temporary name, then rename all of them: a failure leaves the old files unchanged.

    The content is on the disk before a file is renamed. Temporary files that a killed process left behind for the same
    paths are removed.

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


def _replace(savers: dict[str, Callable[[str], object]]) -> None:
    temporary = {}   # path -> the new file
    backups = {}     # path -> a copy of the old file
    renamed = []
    try:
        for path, save in savers.items():
            _remove_leftovers(path)
            temporary[path] = _beside(path)
            save(temporary[path])
            _to_disk(temporary[path])
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
    """A new temporary file in the same folder. Its name has this machine and this process."""
    handle, name = tempfile.mkstemp(f".{_machine()}.{os.getpid()}{TEMPORARY}", os.path.basename(path) + ".",
                                    os.path.dirname(path) or ".")
    os.close(handle)
    return name


def _machine() -> str:
    """This machine's name, of characters that every file name may have."""
    return re.sub(r"[^\w-]", "-", socket.gethostname())


def _remove_leftovers(path: str) -> None:
    """Remove the temporary files of this path whose process, of this machine, is dead."""
    pattern = re.compile(rf".+\.{re.escape(_machine())}\.(\d+){re.escape(TEMPORARY)}")
    for name in glob.glob(f"{glob.escape(path)}.*{TEMPORARY}"):
        match = pattern.fullmatch(name)
        if match and not _is_alive(int(match.group(1))):
            os.unlink(name)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)   # sends nothing
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):   # another user's; no process's number
        return True
    return True


def _to_disk(path: str) -> None:
    """Wait until the content is on the disk: a rename may reach it first."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
