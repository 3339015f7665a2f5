"""Folders in the layout of Darknet: images, and per image a text file with ``class x y width height`` per object.

x and y are the centre of the box. All four are fractions of the image's width and height. Class ids start at 0.

``root`` has ``train.txt`` and ``val.txt`` (or valid.txt, or test.txt) with an image path per line, relative to ``root``
or to its parent folder. Or it has the folders ``images/train`` and ``images/val``, or ``train/images`` and
``val/images``. The path of a label is that of its image with the ending ``.txt``, and with the folder ``labels``
instead of ``images`` (or ``JPEGImages``). The names of the classes are in ``*.names`` or classes.txt. Instead of a
folder there may be one of Darknet's ``.data`` files.

Those have lines ``key = value`` that name the lists of images, the classes and the folder for weights. Paths count from
the current folder, as in Darknet, or else from the file's own folder or the one above it. ``#`` and ``;`` begin a
comment at the beginning of a line. Source: ``read_data_cfg`` in ``src/option_list.c`` of pjreddie/darknet, commit
f6afaabc.
"""
from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...core.attributes import Attr, Int
from ...core.errors import OpError, naming
from ...core.files import read_lines
from ..base import ALIASES, MIN_BOX_SIZE, Classes, FractionDataset, class_names
from ..images import EXTENSIONS, progress

WHERE, OF_DATA_FILE = "data.yolo", "data.read_data_file"
FIELDS = 5
ENDING = ".data"
NAMES = ("names", "labels")   # detectors name their classes by the first, classifiers by the second


class Yolo(FractionDataset):
    """A data set in the layout of Darknet. The module describes the folder, and the base class the items.

    Boxes are clipped to the image, as in Darknet. ``classes`` are names, or a file with one per line, by default the
    file in ``root``. An OpError if a file is missing or malformed.
    """

    def __init__(self, root: str, split: str = "train", classes: Classes = None):
        if is_data_file(root):
            listed = read_data_file(root)
            names = class_names(listed.classes if classes is None else classes, WHERE)
            paths = listed.images(split)
            root = ""   # any folder `images` or JPEGImages of a path becomes `labels`
        else:
            names = class_names(_names_file(root) if classes is None else classes, WHERE)
            paths = _images(root, split)
        labels = [read_label(_label_path(path, root), len(names)) for path in progress(paths, f"checking {split}")]
        super().__init__(WHERE, names, paths, labels)

    def _corners(self, label):
        centre, half = label[:, 1:3], label[:, 3:5] / 2
        return np.hstack([centre - half, centre + half])


def read_label(path: str, classes: int) -> np.ndarray:
    """The rows of a label file, float64 (objects, 5): class id, x, y, width, height. ``classes``: how many there are.

    An OpError if the file cannot be read, or a line is invalid.
    """
    lines = read_lines(WHERE, path, "Add or replace it; an image without objects has an empty label file", "the label")
    rows = [_row(path, number, line, classes) for number, line in enumerate(lines, 1) if line.strip()]
    return np.array(rows, "float64").reshape(-1, FIELDS)


def _row(path, number, line, classes):
    try:
        row = [float(word) for word in line.split()]
    except ValueError:
        row = []
    if len(row) != FIELDS or not all(math.isfinite(value) for value in row):
        raise _bad(path, number, repr(line), "class x y width height: five numbers")
    label, x, y, width, height = row
    if label not in range(classes):
        raise _bad(path, number, f"the class is {label:g}", f"a whole number from 0 to {classes - 1}")
    if not (0 <= x <= 1 and 0 <= y <= 1 and MIN_BOX_SIZE <= width <= 1 and MIN_BOX_SIZE <= height <= 1):
        raise _bad(path, number, f"the box is {x:g} {y:g} {width:g} {height:g}",
                   f"a centre from 0 to 1, and sizes from {MIN_BOX_SIZE:g} to 1")
    return row


def _bad(path, number, got, expected):
    return OpError(WHERE, f"{path}, line {number}: {got}; expected {expected}", "Correct the line")


def names_files(root: str) -> list[str]:
    """The files in a folder that name the classes."""
    if not os.path.isdir(root):
        raise OpError(WHERE, f"there is no folder {root}", "Pass another root")
    return sorted(name for name in os.listdir(root) if name.endswith(".names") or name == "classes.txt")


def _names_file(root):
    files = names_files(root)
    if len(files) != 1:
        got = " and ".join(files) or "no *.names and no classes.txt"
        raise OpError(WHERE, f"{root} has {got}; expected one file with the classes' names",
                      "Pass classes, names or such a file")
    return os.path.join(root, files[0])


def _images(root, split):
    """The paths of the split's images, each of which exists."""
    for name in ALIASES[split]:
        path = os.path.join(root, f"{name}.txt")
        if os.path.isfile(path):
            return listed_images(path, (root, os.path.dirname(root)), WHERE, "Pass another root")
    folders = [os.path.join(root, *parts) for name in ALIASES[split] for parts in (("images", name), (name, "images"))]
    for folder in folders:
        if os.path.isdir(folder):
            images = sorted(name for name in os.listdir(folder) if name.lower().endswith(EXTENSIONS))
            if not images:
                raise OpError(WHERE, f"{folder} has no images ({', '.join(EXTENSIONS)})", "Pass another root")
            paths = [os.path.join(folder, name) for name in images]
            _warn_of_unused_labels(paths, root)
            return paths
    raise OpError(WHERE, f"{root} has no {' or '.join(f'{name}.txt' for name in ALIASES[split])}, and no folder "
                  f"{' or '.join(os.path.relpath(folder, root) for folder in folders)}", "Create one of them")


def _warn_of_unused_labels(images, root):
    """Warn of labels whose image is missing or has a format that cannot be read."""
    expected = [_label_path(image, root) for image in images]
    folder = os.path.dirname(expected[0])
    if not os.path.isdir(folder):   # reported with the first image
        return
    names = {os.path.basename(path) for path in expected} | {"classes.txt"}
    unused = sorted(name for name in os.listdir(folder) if name.endswith(".txt") and name not in names)
    if unused:
        warnings.warn(f"{folder} has {len(unused)} labels without an image, first {unused[0]}; they are left out",
                      stacklevel=5)


def _label_path(image, root):
    """The path of an image's label. Only a folder inside ``root`` is replaced by ``labels``."""
    folder, name = os.path.split(image)
    prefix = os.path.join(root, "")
    if not os.path.join(folder, "").startswith(prefix):
        prefix = ""
    parts = folder[len(prefix):].split(os.sep)
    image_folders = [index for index, part in enumerate(parts) if part in ("images", "JPEGImages")]
    if image_folders:
        parts[image_folders[-1]] = "labels"
    return os.path.join(prefix + os.sep.join(parts), f"{os.path.splitext(name)[0]}.txt")


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
            raise OpError(OF_DATA_FILE, f"{self.path} has no {key}; expected a list of images",
                          f"Add a line {key} = FILE")
        return listed_images(file, _folders(file), OF_DATA_FILE, "Add images, each in a line of text")


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
        raise _error(OF_DATA_FILE, path, number, f"classes is {count}, and {value} has {len(names)} names",
                     "Correct classes, or add names")
    return names[:count]   # Darknet reads no more of them


def _find(path: str, value: str, number: int) -> str:
    """The file that a line of a ``.data`` file names."""
    found = _candidate(value, _folders(path))
    if found is None:
        raise _error(OF_DATA_FILE, path, number, f"there is no file {value}", "Correct the line, or add the file")
    return found


def _folders(path: str) -> list[str]:
    """The folders that the paths in a file count from: the current one, the file's own, and the one above it."""
    own = os.path.dirname(path)
    return [os.curdir, own, os.path.join(own, os.pardir)]


def _candidate(written: str, folders: Sequence[str]) -> str | None:
    """The first existing file that a path names, counted from one of the folders; None: there is none."""
    paths = (os.path.normpath(os.path.join(folder, written)) for folder in folders)
    return next(filter(os.path.isfile, paths), None)


def listed_images(path: str, folders: Sequence[str], where: str, remedy: str) -> list[str]:
    """The images that a list names, each in a line, by paths that count from one of the folders.

    An OpError if the list cannot be read or is empty, which has the remedy, or one of its images does not exist.
    """
    images = []
    for number, line in lines_of(path, where, remedy):
        found = _candidate(line, folders)
        if found is None:
            raise _error(where, path, number, f"there is no image {line} in {' or '.join(folders)}",
                         "Correct the line, or add the image")
        if not line.lower().endswith(EXTENSIONS):
            raise _error(where, path, number, f"{line} is not an image ({', '.join(EXTENSIONS)})",
                         "Correct the line, or convert the image")
        images.append(found)
    if not images:
        raise OpError(where, f"{path} is empty; expected an image's path per line", remedy)
    return images


def lines_of(path: str, where: str, remedy: str) -> list[tuple[int, str]]:
    """(number, line) of the lines of a file that are not empty, without blanks around them."""
    lines = read_lines(where, path, remedy)
    return [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]


def _error(where: str, path: str, number: int, what: str, remedy: str) -> OpError:
    return OpError(where, f"{path}, line {number}: {what}", remedy)
