"""Reads regular files only, and writes files completely or not at all."""
from __future__ import annotations

import codecs
import contextlib
import errno
import glob
import os
import pathlib
import re
import secrets
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from typing import BinaryIO

from ..contract.errors import OpError

TEMPORARY = ".tmp"   # the end of a temporary file's name
MOST_OF_BEGINNING = 512   # bytes
PAGE = ("a web page that was saved under the name of the file; expected the file itself",
        "Download it again, from the link of the file itself")
# The beginnings of files that were saved in place of others, what such files are, and what the user can do.
NOT_DOWNLOADED = (
    (b"version https://git-lfs.github.com/spec/", "a Git LFS pointer, a text that stands for the file; expected the "
     "file itself", "Run: git lfs pull"),
    (b"<!doctype html", *PAGE), (b"<html", *PAGE), (b"<?xml", *PAGE), (b"<head", *PAGE), (b"<!--", *PAGE))
# Create a file that is not there yet, not even as a link. Windows has no O_NOFOLLOW.
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


def check_writable(where: str, *paths: str) -> None:
    """Raise an OpError if a file cannot be written: its folder does not exist, or it is a folder itself."""
    for path in paths:
        check_name(where, path)
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder):
            raise OpError(where, f"the folder {folder} does not exist", "Create it first")
        if os.path.isdir(path):
            raise OpError(where, f"{path} is a folder; expected the name of a file",
                          "Pass another name, or remove the folder")


def check_name(where: str, path: str | os.PathLike) -> None:
    """Raise an OpError for a name that the system or MXNet, which takes UTF-8 only, cannot have."""
    if not isinstance(path, (str, os.PathLike)):
        raise OpError(where, f"the path is {path!r}; expected text, or a pathlib.Path", "Pass the name of a file")
    if re.search("[\0\ud800-\udfff]", os.fspath(path)):
        raise OpError(where, f"{os.fspath(path)!r} is not the name of a file; expected UTF-8 without NUL characters",
                      "Choose another name")


def check_regular(path: str | os.PathLike) -> None:
    """Raise an OSError if a file does not exist or is not a regular file: opening a FIFO would wait for ever."""
    try:
        mode = os.stat(path).st_mode
    except ValueError as error:   # a NUL, or a character that the system's encoding lacks
        raise OSError(errno.EINVAL, "no file can have this name", os.fspath(path)) from error
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))


def check_downloaded(where: str, path: str | os.PathLike) -> None:
    """Raise an OpError if a file is what is found where a download has failed: a Git LFS pointer, or a web page."""
    with open(path, "rb") as file:
        beginning = file.read(MOST_OF_BEGINNING).removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    for mark, what, remedy in NOT_DOWNLOADED:
        if beginning.startswith(mark):
            raise OpError(where, f"{os.fspath(path)} is {what}", remedy)


@contextlib.contextmanager
def opened(where: str, path: str | os.PathLike, remedy: str, what: str = "") -> Iterator[BinaryIO]:
    """Open a file to read bytes from. ``what`` says in errors what the file is, such as ``the list``.

    Raise an OpError with the remedy if the file cannot be read, or if the path names something else than a file.
    """
    try:
        check_regular(path)
        with open(path, "rb") as file:
            yield file
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not a text file" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise OpError(where, f"{what} {os.fspath(path)} cannot be read: {reason}".lstrip(), remedy) from error


def read_lines(where: str, path: str | os.PathLike, remedy: str, what: str = "") -> list[str]:
    """Return the lines of a text file, without the ends of lines and without a byte order mark.

    The text is UTF-8. With a byte order mark it may also be UTF-16, as some programs of Windows write it. The other
    arguments and the errors are those of :func:`opened`.
    """
    with opened(where, path, remedy, what) as file:
        content = file.read()
        is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        return content.decode("utf-16" if is_utf16 else "utf-8-sig").splitlines()


def make_folder(where: str, path: str) -> None:
    """Make the folder of a file, and its parents, if they do not exist."""
    check_name(where, path)
    folder = os.path.dirname(path) or "."
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise OpError(where, f"the folder {folder} cannot be made: {error.strerror}", "Pass another path") from error


@contextlib.contextmanager
def made_folder(where: str, path: str) -> Iterator[None]:
    """Make the folder of a file as :func:`make_folder` does, and remove it again if the body of the ``with`` fails."""
    folder = pathlib.Path(path).absolute().parent
    new = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
    make_folder(where, path)
    try:
        yield
    except BaseException:
        for each in new:   # the inner folders come first, and one that is not empty stays
            with contextlib.suppress(OSError):
                each.rmdir()
        raise


def replace(where: str, savers: dict[str, Callable[[str], object]]) -> None:
    """Save every file under a temporary name, then rename all of them: a failure leaves the old files unchanged.

    The content is on the disk before a file is renamed. Temporary files that a killed process left behind for the same
    paths are removed.

    ``savers`` maps each path to a function, which writes the file to the path that it is called with. Raise an OpError
    if a file cannot be written, for instance because the disk is full or a folder has its name.
    """
    try:
        _replace(where, savers)
    except (OSError, RuntimeError) as error:   # MXNetError is a RuntimeError
        reason = getattr(error, "strerror", None) or str(error).strip().splitlines()[-1]
        raise OpError(where, f"cannot write {' and '.join(savers)}: {reason}; the previous files are unchanged",
                      "Make room on the disk, or choose another path") from error


def _replace(where: str, savers: dict[str, Callable[[str], object]]) -> None:
    new, old = {}, {}   # the temporary files with the new and with the old content, by path
    try:
        for path, save in savers.items():
            _remove_leftovers(path)
            new[path] = _name_beside(path)
            os.close(os.open(new[path], CREATE, 0o666))
            save(new[path])
            with open(new[path], "rb+") as file:   # Windows refuses a file that is open for reading alone
                os.fsync(file.fileno())   # a rename may reach the disk first
        for path in list(savers)[:-1]:   # nothing can fail after the last rename
            if os.path.isfile(path):
                old[path] = _name_beside(path)
                shutil.copy2(path, old[path])
        _rename(where, new, old)
    finally:
        for name in (*new.values(), *old.values()):
            _remove(name)


def _rename(where: str, new: dict[str, str], old: dict[str, str]) -> None:
    try:
        for path, name in new.items():
            os.replace(name, path)
    except BaseException:
        while not _put_back(where, new, old):
            pass
        raise
    finally:
        for name in old.values():   # Ctrl-C here leaves the rest to the caller
            _remove(name)


def _put_back(where: str, new: dict[str, str], old: dict[str, str]) -> bool:
    """Put the old files back, unless all new ones are renamed. Return False if Ctrl-C has interrupted it.

    The caller then calls it again.

    Ctrl-C may also come before or after a rename, so only the file system knows what is done.
    """
    try:
        renamed = [path for path, name in new.items() if not os.path.exists(name)]
        if len(renamed) == len(new):
            return True
        for path in renamed:
            if path not in old:
                _remove(path)
            elif os.path.exists(old[path]):
                os.replace(old[path], path)
        return True
    except KeyboardInterrupt:
        return False
    except OSError as error:
        backup = old.pop(path)
        raise OpError(where, f"{path} is only half written, and the previous file cannot be put back: {error.strerror}",
                      f"Rename {backup}, which is the previous file, to {path}") from error


def _name_beside(path: str) -> str:
    """Return a name for a temporary file in the same folder. The name contains this machine and this process."""
    return f"{path}.{secrets.token_hex(4)}.{_machine()}.{os.getpid()}{TEMPORARY}"


def _machine() -> str:
    """Return this machine's name, in characters that every file name may have."""
    return re.sub(r"[^\w-]", "-", socket.gethostname())


def _remove_leftovers(path: str) -> None:
    """Remove the temporary files of this path whose process, of this machine, is dead."""
    pattern = re.compile(rf".+\.{re.escape(_machine())}\.(\d+){re.escape(TEMPORARY)}")
    for name in glob.glob(f"{glob.escape(path)}.*{TEMPORARY}"):
        match = pattern.fullmatch(name)
        if match and not is_alive(int(match.group(1))):
            _remove(name)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def is_alive(process: int) -> bool:
    """Return whether a process with this number runs on this machine, whoever has started it.

    Windows does not tell, so the answer there is always True.
    """
    if os.name == "nt":   # os.kill would end the process
        return True
    try:
        os.kill(process, 0)   # sends nothing
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):   # it is another user's, or the number of no process
        return True
    return True
