"""Darknet's ``.data`` files: lines ``key = value`` that name the images, the classes and the folder for weights.

Paths count from the current folder, as in Darknet, or else from the file's own folder or the one above it. ``#`` and
``;`` begin a comment at the beginning of a line.

Source: ``read_data_cfg`` in ``src/option_list.c`` of pjreddie/darknet, commit f6afaabc.
"""
from __future__ import annotations

import os
from typing import NamedTuple

from ...core.errors import OpError
from ...core.files import read_lines
from ..base import class_names
from ..images import EXTENSIONS
from ..limits import is_whole_number

WHERE = "data.read_data_file"
ENDING = ".data"
NAMES = ("names", "labels")   # detectors name their classes by the first, classifiers by the second
SHOWN = 60   # characters of a wrong number in an error


class DataFile(NamedTuple):
    """What a ``.data`` file says.

    Attributes
    ----------
    path : str
    classes : tuple of str
        Names of the classes.
    train, valid : str or None
        The lists of the images to train on and of those held out; None: not given.
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

        An OpError if the file names no list, the list cannot be read, or one of its images does not exist.
        """
        key = "train" if split == "train" else "valid"
        file = getattr(self, key)
        if file is None:
            raise OpError(WHERE, f"{self.path} has no {key}; expected a list of images", f"Add a line {key} = FILE")
        images = []
        for number, line in lines_of(file):
            found = _candidate(file, line)
            if found is None:
                raise _error(file, number, f"there is no image {line}", "Correct the line, or add the image")
            if not line.lower().endswith(EXTENSIONS):
                raise _error(file, number, f"{line} is not an image ({', '.join(EXTENSIONS)})",
                             "Correct the line, or convert the image")
            images.append(found)
        if not images:
            raise OpError(WHERE, f"{file} is empty; expected an image's path per line", "Add images")
        return images


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
    for number, line in lines_of(path):
        if line[0] in "#;":
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if not (key and equals and value):
            raise _error(path, number, f"{line!r}; expected key = value", "Correct the line")
        options.setdefault(key, (value, number))
    names = _names(path, options)
    lists = (_find(path, *options[key]) if key in options else None for key in ("train", "valid"))
    return DataFile(path, names, *lists, options.get("backup", [None])[0])


def _names(path: str, options: dict) -> tuple[str, ...]:
    """The names of the classes, as many as ``classes`` says."""
    key = next((key for key in NAMES if key in options), None)
    if key is None:
        raise OpError(WHERE, f"{path} has no names; expected a file with the names of the classes",
                      "Add a line names = FILE")
    value, number = options[key]
    names = class_names(_find(path, value, number), WHERE)
    written, number = options.get("classes", (str(len(names)), 0))
    if not is_whole_number(written) or int(written) < 1:
        raise _error(path, number, f"classes is {written[:SHOWN]!r}; expected a number from 1", "Correct the line")
    if int(written) > len(names):
        raise _error(path, number, f"classes is {written}, and {value} has {len(names)} names",
                     "Correct classes, or add names")
    return names[:int(written)]   # Darknet reads no more of them


def _find(path: str, value: str, number: int) -> str:
    """The file that a line of a ``.data`` file names."""
    found = _candidate(path, value)
    if found is None:
        raise _error(path, number, f"there is no file {value}", "Correct the line, or add the file")
    return found


def _candidate(path: str, written: str) -> str | None:
    """A path as it is written, from the folder of the file that has it, or from the one above; None: no such file."""
    folder = os.path.dirname(path)
    places = [written, os.path.join(folder, written), os.path.join(folder, os.pardir, written)]
    return next((os.path.normpath(place) for place in places if os.path.isfile(place)), None)


def lines_of(path: str, where: str = WHERE, remedy: str = "Pass the path of a text file") -> list[tuple[int, str]]:
    """(number, line) of the lines of a file that are not empty, without blanks around them."""
    lines = read_lines(where, path, remedy)
    return [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]


def _error(path: str, number: int, what: str, remedy: str) -> OpError:
    return OpError(WHERE, f"{path}, line {number}: {what}", remedy)
