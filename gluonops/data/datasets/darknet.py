"""Darknet's ``.data`` files, and its lists of images.

A ``.data`` file has lines ``key = value`` that name the lists of images, the classes and the folder for weights. Paths
count from the current folder, as in Darknet, or else from the file's own folder or the one above it. ``#`` and ``;``
begin a comment at the beginning of a line. Source: ``read_data_cfg`` in ``src/option_list.c`` of pjreddie/darknet,
commit f6afaabc.

A list has the path of an image in each line. Backslashes are separators, too. If a path does not exist, its end is
looked for. For example, ``/home/ann/set/images/1.jpg`` of another machine can be ``images/1.jpg`` here.
"""
from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...contract.attributes import Attr, Int
from ...contract.errors import OpError, naming, plural
from ...io.files import read_lines
from ..base import class_names
from ..images import ENDINGS, EXTENSIONS

OF_DATA_FILE = "data.read_data_file"
ENDING = ".data"
NAMES = ("names", "labels")   # detectors name their classes by the first, classifiers by the second


class DataFile(NamedTuple):
    """What a ``.data`` file says.

    Attributes
    ----------
    path : str
    classes : tuple of str
        Names of the classes.
    train, valid : str or None
        The lists of the images to train on and of those held out, or None if they are not given.
    backup : str or None
        The folder for weights, as it is written.
    """
    path: str
    classes: tuple[str, ...]
    train: str | None
    valid: str | None
    backup: str | None

    def images(self, split: str) -> list[str]:
        """The paths of the images of a split, "train" or "val".

        An OpError is raised if the file names no list, the list cannot be read, or one of its images does not exist.
        """
        pictures = self.images_or_errors(split)
        for image in pictures:
            if isinstance(image, OpError):
                raise image
        return pictures

    def images_or_errors(self, split: str) -> list[str | OpError]:
        """As :meth:`images`, but with an OpError in the place of each image that does not exist."""
        key = "train" if split == "train" else "valid"
        file = getattr(self, key)
        if file is None:
            raise OpError(OF_DATA_FILE, f"{self.path} has no {key}; expected a list of images",
                          f"Add a line {key} = FILE")
        return listed_images(file, _folders(file), OF_DATA_FILE, "Add the path of an image in each line")


def is_data_file(path: str | os.PathLike) -> bool:
    """Whether the name of a file ends in ``.data``."""
    return os.fspath(path).endswith(ENDING)


def read_data_file(path: str | os.PathLike) -> DataFile:
    """Read a ``.data`` file, and the names of its classes.

    Parameters
    ----------
    path : str or os.PathLike

    Raises
    ------
    OpError
        A file cannot be read, a line is no option, or there are fewer names than ``classes``. The message has the file
        and the line.
    """
    path = os.fspath(path)
    options = {}
    for number, line in lines_of(path, OF_DATA_FILE, "Pass the path of a text file"):
        if line[0] in "#;":
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if not (key and equals and value):
            raise _error(OF_DATA_FILE, path, number, f"{line!r}; expected key = value", "Correct the line")
        options.setdefault(key, (value, number))
    names = _names(path, options)
    lists = (_find(path, *options[key]) if key in options else None for key in ("train", "valid"))
    return DataFile(path, names, *lists, options.get("backup", [None])[0])


def _names(path: str, options: dict) -> tuple[str, ...]:
    """The names of the classes, as many as ``classes`` says."""
    key = next((key for key in NAMES if key in options), None)
    if key is None:
        raise OpError(OF_DATA_FILE, f"{path} has no names; expected a file with the names of the classes",
                      "Add a line names = FILE")
    value, number = options[key]
    names = class_names(_find(path, value, number), OF_DATA_FILE)
    written, number = options.get("classes", (str(len(names)), 0))
    with naming(f"{path}, line {number}"):
        count = Attr("classes", Int(1), None).parse(OF_DATA_FILE, written)
    if count > len(names):
        raise _error(OF_DATA_FILE, path, number, f"classes is {count}, and {value} has {plural(len(names), 'name')}; "
                     "expected a name for each class", "Correct classes, or add names")
    return names[:count]   # Darknet reads no more of them


def _find(path: str, value: str, number: int) -> str:
    """The file that a line of a ``.data`` file names."""
    path_of_value = _candidate(value, _folders(path))
    if path_of_value is None:
        raise _error(OF_DATA_FILE, path, number, f"there is no file {value}", "Correct the line, or add the file")
    return path_of_value


def _folders(path: str) -> list[str]:
    """The folders that the paths in a file count from: the current one, the file's own, and the one above it."""
    own = os.path.dirname(path)
    return [os.curdir, own, os.path.join(own, os.pardir)]


def _candidate(written: str, folders: Sequence[str]) -> str | None:
    """The first existing file that a path names, counted from one of the folders, or None if there is none."""
    for name in (written, written.replace("\\", "/"), *suffixes(written)):
        for folder in folders:
            path = os.path.normpath(os.path.join(folder, name))
            if os.path.isfile(path):
                return path
    return None


def suffixes(written: str) -> Iterator[str]:
    """The ends of a path of another machine, the longest first.

    The ends of a relative path have at least one folder.
    """
    parts = [part for part in written.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    is_absolute = re.match(r"[/\\]|[A-Za-z]:", written)
    first, last = (":" in parts[0], len(parts)) if is_absolute and parts else (1, len(parts) - 1)
    yield from ("/".join(parts[start:]) for start in range(int(first), last))


def listed_images(path: str, folders: Sequence[str], where: str, remedy: str) -> list[str | OpError]:
    """The paths of the images that a list names, one per line. They count from one of the folders.

    In the place of an image that does not exist there is an OpError with the line. An OpError with the remedy is raised
    if the list cannot be read or is empty.
    """
    images = [_listed_image(path, number, line, folders, where) for number, line in lines_of(path, where, remedy)]
    if not images:
        raise OpError(where, f"{path} is empty; expected the path of an image in each line", remedy)
    return images


def _listed_image(path, number, line, folders, where):
    image = _candidate(line, folders)
    if image is None:
        return _error(where, path, number, f"there is no image {line} in {' or '.join(folders)}",
                      "Correct the line, or add the image")
    if not line.lower().endswith(EXTENSIONS):
        return _error(where, path, number, f"{line} is not an image ({ENDINGS})",
                      "Correct the line, or convert the image")
    return image


def lines_of(path: str, where: str, remedy: str) -> list[tuple[int, str]]:
    """(number, line) for each line of a file that is not empty. The lines are stripped of blanks."""
    lines = read_lines(where, path, remedy)
    return [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]


def _error(where: str, path: str, number: int, what: str, remedy: str) -> OpError:
    return OpError(where, f"{path}, line {number}: {what}", remedy)
