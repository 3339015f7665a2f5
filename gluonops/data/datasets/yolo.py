"""Folders in the layouts of Darknet and YOLO: images, and per image a text file.

It has a line ``class x y width height`` for each object. x and y are the centre of the box. All four are fractions of
the image's width and height. Class ids start at 0. A sixth number is a confidence, and is left out. A class and three
or more points are a polygon, whose bounding box counts.

``root`` is one of these; case does not count in the names of folders:

- a folder with ``data.yaml`` of Ultralytics or Roboflow, or this file; see :mod:`.data_yaml`.
- one of Darknet's ``.data`` files, see :mod:`.darknet`, or its folder.
- a folder with ``train.txt`` and ``val.txt`` (or valid.txt, or test.txt) with an image path per line, relative to
  ``root`` or to its parent folder.
- ``images/train`` and ``images/val`` beside ``labels/train`` and ``labels/val``; or ``train/images`` beside
  ``train/labels``, and so for ``val``; or ``train`` and ``val`` with both kinds of files.
- ``images`` beside ``labels``, or a folder with both kinds of files.

The path of a label is that of its image with the ending ``.txt``, and with the folder ``labels`` instead of ``images``
(or ``JPEGImages``); or it is beside the image. But for data.yaml and .data files, the names of the classes are in
``*.names`` or classes.txt, which may be beside the labels. If there is no part for ``val``, a fifth can be held out.
"""
from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...contract.errors import OpError
from ...io.files import read_lines
from .. import layouts
from ..base import ALIASES, SPLITS, Classes, DetectionDataset, class_names
from ..images import headers, progress
from ..labels import Labelled, fit, note_missing
from ..repairs import Repairs
from .darknet import is_data_file, listed_images, read_data_file
from .data_yaml import ENDINGS, find_data_yaml, is_data_yaml, read_data_yaml

WHERE = "data.yolo"
FIELDS = 5
NAMES = ("classes.txt", "predefined_classes.txt")   # and *.names
LAYOUT = ("data.yaml, train.txt, images/train beside labels/train, train/images beside train/labels, or images beside "
          "labels")


class Yolo(DetectionDataset):
    """A data set in the layout of Darknet or YOLO. The module describes the folder, and the base class the items.

    ``classes`` are names, or a file with one per line, by default the names in ``root``. ``strict`` refuses what would
    be repaired. ``hold_out`` is for data sets without a part for validation: True holds out a
    fifth, and names hold out these pictures.

    An OpError is raised if a file is missing or malformed.
    """

    def __init__(self, root: str, split: str = "train", classes: Classes = None, strict: bool = False,
                 hold_out: bool | Sequence[str] = False):
        source = find(root, split)
        names = source.names if classes is None else dict(enumerate(class_names(classes, WHERE)))
        if names is None:
            raise _without_names(root)
        repairs = Repairs(WHERE, strict)
        numbers = {number: place for place, number in enumerate(names)}
        folder = "" if os.path.isfile(root) else root   # of a file any folder `images` of a path becomes `labels`
        pictures, missing = [], []
        for image in progress(source.images, f"checking {split}"):
            path = "" if isinstance(image, OpError) else label_of(image, folder)
            if path and not os.path.isfile(path):
                missing.append(len(pictures))
            rows, lines = read_label(path, numbers, repairs, source.keypoints) if os.path.isfile(path) else ([], [])
            pictures.append(Labelled(image, path, rows, lines))
        note_missing(pictures, missing, repairs)
        if source.has_folders:
            _note_unused(pictures, repairs)
        fitted = fit(pictures, headers(source.images, WHERE, "checking pictures"), repairs, shares=True)
        super().__init__(WHERE, class_names([*names.values()], WHERE), [source.images[i] for i in fitted.kept],
                         fitted.labels, fitted.sizes, repairs)
        if not source.has_split:
            self._hold_out(split, folder or os.path.dirname(root), hold_out)


class Source(NamedTuple):
    """The pictures of a split: ``images``, each a path or an error.

    ``names`` are the names of the classes by their ids; None: the data set names none. ``has_split`` says whether it
    has a part for each split. ``has_folders`` says whether all pictures of folders are meant, and not those of a list.
    """
    images: list[str | OpError]
    names: dict[int, str] | None
    has_split: bool
    has_folders: bool = False
    keypoints: int = 0


def find(root: str, split: str) -> Source:
    """The pictures of a split of a data set."""
    if is_data_file(root):
        listed = read_data_file(root)
        has_split = listed.valid is not None or split == "train" and listed.train is None
        images = listed.images_or_errors(split if has_split else "train")
        return Source(images, dict(enumerate(listed.classes)), has_split)
    path = root if root.lower().endswith(ENDINGS) and os.path.isfile(root) else find_data_yaml(root)
    if path is not None:
        content = read_data_yaml(path)
        part, has_split = _part(content.parts, split)
        return Source(content.images(part), content.names, has_split, False, content.keypoints)
    if not os.path.isdir(root):
        raise OpError(WHERE, f"there is no folder {root}", "Pass another root")
    if not _has_lists(root) and _data_file_in(root):
        return find(_data_file_in(root), split)
    return _lists(root, split) or _split_folders(root, split) or _one_folder(root)


def _part(parts: Mapping[str, object], split: str) -> tuple[str, bool]:
    """The part of a data set that a split is taken from, and whether there is a part for each split."""
    if parts["val"] or not parts["train"]:
        return split, True
    return "train", False


def _data_file_in(root: str) -> str | None:
    """The ``.data`` file in a folder, or None if there is none or several."""
    data_files = [name for name in layouts.files_and_folders(root)[0] if is_data_file(name)]
    return os.path.join(root, data_files[0]) if len(data_files) == 1 else None


def _has_lists(root):
    names = {name.lower() for name in layouts.files_and_folders(root)[0]}
    return any(f"{alias}.txt" in names for alias in ALIASES["train"])


def _lists(root, split):
    """The source of a folder with lists, or None if it has none."""
    files = {name.lower(): os.path.join(root, name) for name in layouts.files_and_folders(root)[0]}
    parts = {part: next((files[f"{name}.txt"] for name in ALIASES[part] if f"{name}.txt" in files), None)
             for part in SPLITS}
    if not any(parts.values()):
        return None
    part, has_split = _part(parts, split)
    if parts[part] is None:
        raise OpError(WHERE, f"{root} has no {' or '.join(f'{name}.txt' for name in ALIASES[part])}",
                      "Create such a list of pictures")
    images = listed_images(parts[part], (root, os.path.dirname(root)), WHERE, "Pass another root")
    return Source(images, _names_of(root), has_split)


def _split_folders(root, split):
    """The source of a folder with a folder for each split, or None if it has none."""
    images = layouts.child(root, *layouts.PICTURES)
    parts = {}
    for part in SPLITS:
        own = layouts.split_folder(root, part)
        folders = [images and layouts.split_folder(images, part), own and layouts.child(own, *layouts.PICTURES), own]
        parts[part] = next((folder for folder in folders if folder and layouts.pictures_below(folder)), None)
    if not any(parts.values()):
        return None
    part, has_split = _part(parts, split)
    if parts[part] is None:
        raise OpError(WHERE, f"{root} has no pictures to train on; expected {LAYOUT}", "Add pictures to train on")
    return Source(layouts.pictures_below(parts[part]), _names_of(root), has_split, True)


def _one_folder(root):
    """The source of a folder without splits."""
    folder = layouts.child(root, *layouts.PICTURES) or root
    images = layouts.pictures_below(folder)
    if not images or not any(os.path.isfile(label_of(image, root)) for image in images):
        raise layouts.unknown(WHERE, root, LAYOUT)
    return Source(images, _names_of(root), False, True)


def names_files(root: str) -> list[str]:
    """The files in a folder, or beside its labels, that name the classes."""
    labels = layouts.child(root, "labels")
    of_splits = [layouts.split_folder(labels, part) for part in SPLITS] if labels else []
    for folder in filter(None, [root, labels, *of_splits]):
        paths = [os.path.join(folder, name) for name in layouts.files_and_folders(folder)[0]
                 if name.lower().endswith(".names") or name.lower() in NAMES]
        if paths:
            return paths
    return []


def has_names(root: str) -> bool:
    """Whether a data set names its classes."""
    if is_data_file(root) or is_data_yaml(root) or find_data_yaml(root) or names_files(root):
        return True
    return not _has_lists(root) and _data_file_in(root) is not None


def _names_of(root):
    """The names of the classes by their ids; None: there is no file of them, or there are several."""
    files = names_files(root)
    return dict(enumerate(class_names(files[0], WHERE))) if len(files) == 1 else None


def _without_names(root):
    files = " and ".join(map(os.path.basename, names_files(root))) or "no *.names, no classes.txt and no data.yaml"
    return OpError(WHERE, f"{root} has {files}; expected one file with the names of the classes",
                   "Pass classes, or add a file classes.txt with a name in each line")


def label_of(image: str, root: str) -> str:
    """The path of an image's label. Only a folder inside ``root`` is replaced by ``labels``."""
    folder, name = os.path.split(image)
    name = f"{os.path.splitext(name)[0]}.txt"
    prefix = os.path.join(root, "")
    if not os.path.join(folder, "").startswith(prefix):
        prefix = ""
    parts = folder[len(prefix):].split(os.sep)
    image_folders = [index for index, part in enumerate(parts) if part.lower() in ("images", "jpegimages")]
    if not image_folders:
        return os.path.join(folder, name)
    parts[image_folders[-1]] = "labels"
    path = os.path.join(prefix + os.sep.join(parts), name)
    beside = os.path.join(folder, name)
    return beside if not os.path.isfile(path) and os.path.isfile(beside) else path


def _note_unused(pictures: Sequence[Labelled], repairs: Repairs) -> None:
    """Note the labels in the folders whose picture is missing."""
    used = {picture.label for picture in pictures}
    for folder in sorted({os.path.dirname(path) for path in used if path}):
        for name in layouts.files_and_folders(folder)[0]:
            path = os.path.join(folder, name)
            if name.lower().endswith(".txt") and name.lower() not in NAMES and path not in used:
                repairs.note("no_picture", path, "it has no picture", "one")


def read_label(path: str, numbers: Mapping[int, int], repairs: Repairs, keypoints: int = 0) -> tuple[list, list]:
    """The rows of a label file, and the line of each.

    A row is xmin, ymin, xmax, ymax as shares, class, 0. ``numbers`` has the class id for each id in the file.
    ``keypoints`` say how many numbers of key points follow a box. An OpError is raised if the file cannot be read, or a
    line is no label.
    """
    lines = read_lines(WHERE, path, "Add or replace it; an image without objects has an empty label file", "the label")
    rows, places = [], []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if words:
            rows.append(_row(path, number, words, numbers, repairs, keypoints))
            places.append(f"line {number}")
    return rows, places


def _row(path, number, words, numbers, repairs, keypoints):
    try:
        label, *values = map(float, words)
    except ValueError:
        label, values = math.nan, []
    count = len(values)
    is_box = count in (FIELDS - 1, FIELDS) or keypoints and count == FIELDS - 1 + keypoints
    is_polygon = not is_box and count >= 6 and count % 2 == 0
    if not (is_box or is_polygon) or not all(map(math.isfinite, (label, *values))):
        raise _bad(path, number, repr(" ".join(words)), "class x y width height: five numbers, or a class and the "
                   "points of a polygon")
    if label not in numbers:
        expected = f"a whole number from 0 to {len(numbers) - 1}" if max(numbers) < len(numbers) else \
            f"one of {', '.join(map(str, numbers))}"
        raise _bad(path, number, f"the class is {label:g}", expected)
    if is_polygon:
        repairs.note("polygon", f"{path}, line {number}", f"a polygon of {count // 2} points", "class x y width height")
        return min(values[::2]), min(values[1::2]), max(values[::2]), max(values[1::2]), numbers[label], 0
    if count == FIELDS and not keypoints:
        repairs.note("confidence", f"{path}, line {number}", "six numbers", "class x y width height")
    x, y, width, height = values[:4]
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2, numbers[label], 0


def _bad(path, number, got, expected):
    return OpError(WHERE, f"{path}, line {number}: {got}; expected {expected}", "Correct the line")
