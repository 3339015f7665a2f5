"""Folders in the layout of Darknet: images, and per image a text file with ``class x y width height`` per object.

x and y are the centre of the box. All four are fractions of the image's width and height. Class ids start at 0.

``root`` has ``train.txt`` and ``val.txt`` (or valid.txt, or test.txt) with an image path per line, relative to ``root``
or to its parent folder. Or it has the folders ``images/train`` and ``images/val``, or ``train/images`` and
``val/images``. The path of a label is that of its image with the ending ``.txt``, and with the folder ``labels``
instead of ``images`` (or ``JPEGImages``). The names of the classes are in ``*.names`` or classes.txt. Instead of a
folder there may be one of Darknet's ``.data`` files, which names the lists and the classes: see
:mod:`gluonops.data.datasets.data_file`.
"""
from __future__ import annotations

import math
import os
import warnings

import numpy as np

from ...core.errors import OpError
from ...core.files import read_lines
from ..base import MIN_BOX_SIZE, PLACES, Classes, FractionDataset, class_names
from ..images import EXTENSIONS, progress
from .data_file import is_data_file, listed_images, read_data_file

WHERE = "data.yolo"
FIELDS = 5


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
    for name in PLACES[split]:
        path = os.path.join(root, f"{name}.txt")
        if os.path.isfile(path):
            return listed_images(path, (root, os.path.dirname(root)), WHERE, "Pass another root")
    folders = [os.path.join(root, *parts) for name in PLACES[split] for parts in (("images", name), (name, "images"))]
    for folder in folders:
        if os.path.isdir(folder):
            images = sorted(name for name in os.listdir(folder) if name.lower().endswith(EXTENSIONS))
            if not images:
                raise OpError(WHERE, f"{folder} has no images ({', '.join(EXTENSIONS)})", "Pass another root")
            paths = [os.path.join(folder, name) for name in images]
            _warn_of_unused_labels(paths, root)
            return paths
    raise OpError(WHERE, f"{root} has no {' or '.join(f'{name}.txt' for name in PLACES[split])}, and no folder "
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
