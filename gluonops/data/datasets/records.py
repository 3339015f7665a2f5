"""MXNet's RecordIO: a .rec file with images and labels, and beside it an .idx file with the offset of each.

Files made by ``im2rec --pack-label`` or ``mx.recordio``. For detection a label is what ``mx.image.ImageDetIter`` reads:
the length of its header A, the length of an object B (at least 5), the rest of the header, then per object class, xmin,
ymin, xmax, ymax as shares of the image's width and height, and B - 5 further numbers. ``root`` is the file or a folder
with train.rec and val.rec (or valid.rec, test.rec).
"""
from __future__ import annotations

import os

import numpy as np

from ...core.errors import OpError
from ...core.files import opened
from ...core.recordio import HEADER, LABEL, content, index, parts, unpack
from ..base import ALIASES, MIN_BOX_SIZE, Classes, ClassificationDataset, FractionDataset, class_names
from ..images import decode_image, encoded_size, progress

WHERE = "data.rec"
MAX_UNNAMED = 100_000   # classes whose names are their class ids
SLACK = 1e-3   # rounding lets a box exceed the image by so much


class Records:
    """A .rec file that several threads and processes may read. ``packed``: the label of each record, float32.

    A data set that derives from it as well takes its images from the file.
    """

    def __init__(self, root: str, split: str, where: str):
        self.where, self.path = where, _find(root, split, where)
        self._offsets = index(where, f"{os.path.splitext(self.path)[0]}.idx")
        self.packed = self._headers()

    def name(self, i: int) -> str:
        """The name of a record in errors."""
        return f"{self.path}, record {self._offsets[i][0]}"

    def encoded(self, i: int) -> bytes:
        """The bytes of a record's image."""
        with opened(self.where, self.path, "Pass another root") as file:
            record = content(file, self._parts(file, *self._offsets[i]))
        return unpack(self.where, record).content

    def image(self, i: int) -> np.ndarray:
        """A record's image, uint8 (height, width, 3)."""
        return decode_image(self.encoded(i), self.name(i), self.where)

    def size(self, i: int) -> tuple[int, int]:
        """(width, height) of a record's image, from its header."""
        return encoded_size(self.encoded(i), self.name(i), self.where)

    def _parts(self, file, key, offset):
        return parts(self.where, self.path, file, offset, key)

    def _headers(self):
        labels = []
        with opened(self.where, self.path, "Pass another root") as file:
            for key, offset in progress(self._offsets, f"checking {os.path.basename(self.path)}"):
                (start, length), *_ = self._parts(file, key, offset)
                file.seek(start)
                count, label, _, _ = HEADER.unpack(file.read(HEADER.size).ljust(HEADER.size, b"\0"))
                if count * LABEL > length - HEADER.size:
                    raise OpError(self.where, f"{self.path}, record {key}: a label of {count} numbers does not fit in "
                                  "the record", "Create the file again")
                labels.append(np.frombuffer(file.read(count * LABEL), "<f4") if count else np.float32([label]))
        return labels


class DetectionRecords(Records, FractionDataset):
    """Boxes from RecordIO; see this module, and :class:`gluonops.data.DetectionDataset` for its items.

    ``classes`` are names, or a file with one per line; by default the class ids are the names.
    """

    def __init__(self, root: str, split: str = "train", classes: Classes = None):
        Records.__init__(self, root, split, WHERE)
        labels = [_objects(self.name(i), label) for i, label in enumerate(self.packed)]
        largest = [label[:, 0].max(initial=-1) for label in labels]
        FractionDataset.__init__(self, WHERE, _names(classes, largest, self), labels=labels)


class ClassificationRecords(Records, ClassificationDataset):
    """Images with a class each, from RecordIO; items as :func:`gluonops.data.classification` says.

    The arguments are those of :class:`DetectionRecords`.
    """

    def __init__(self, root: str, split: str = "train", classes: Classes = None):
        Records.__init__(self, root, split, WHERE)
        for i, label in enumerate(self.packed):
            if len(label) != 1 or not np.isfinite(label[0]) or label[0] < 0 or label[0] != int(label[0]):
                raise OpError(WHERE, f"{self.name(i)}: the label is {label.tolist()}; expected the number of a "
                              "class", "Create the file again, or read it as one for detection")
        labels = [int(label[0]) for label in self.packed]
        ClassificationDataset.__init__(self, WHERE, _names(classes, labels, self), labels=labels)


def _find(root, split, where):
    paths = [root] if os.path.splitext(root)[1] == ".rec" else [
        os.path.join(root, f"{name}.rec") for name in ALIASES[split]]
    for path in paths:
        if os.path.isfile(path):
            return path
    raise OpError(where, f"there is no {' and no '.join(paths)}", "Pass another root")


def _objects(name, label):
    """A packed label as rows of class, xmin, ymin, xmax, ymax."""
    header, width = (int(value) if np.isfinite(value) else 0 for value in np.append(label[:2], [0, 0])[:2])
    if header < 2 or width < 5 or len(label) < header or (len(label) - header) % width:
        raise OpError(WHERE, f"{name}: a label of {len(label)} numbers that starts with {label[:2].tolist()}; expected "
                      "the length of its header, the length of an object (at least 5), and objects of that length",
                      "Pack it as im2rec --pack-label does")
    rows = label[header:].reshape(-1, width)[:, :5]
    for row in rows:
        if not (row[0] >= 0 and row[0] == np.floor(row[0]) and np.isfinite(row[0])):
            raise OpError(WHERE, f"{name}: the class is {row[0]:g}; expected a whole number from 0",
                          "Create the file again")
        left, top, right, bottom = row[1:]
        if not all(-SLACK <= low and high <= 1 + SLACK and min(high, 1) - max(low, 0) >= MIN_BOX_SIZE
                   for low, high in ((left, right), (top, bottom))):
            raise OpError(WHERE, f"{name}: the box is {left:g} {top:g} {right:g} {bottom:g}; expected shares of the "
                          "image's size, 0 <= xmin < xmax <= 1, and so for y", "Create the file again")
    return rows


def _names(classes, class_ids, records):
    """The names of the classes, by default their ids; ``class_ids`` has the largest of every record, or -1."""
    if classes is None:
        largest = int(max(class_ids))
        if largest < 0:
            raise OpError(records.where, f"{records.path} has no object", "Pass classes")
        if largest >= MAX_UNNAMED:
            raise OpError(records.where, f"{records.path} has the class {largest}; expected at most {MAX_UNNAMED} of "
                          "them", "Pass classes, or create the file again")
        return tuple(map(str, range(largest + 1)))
    names = class_names(classes, records.where)
    for i, class_id in enumerate(class_ids):
        if class_id >= len(names):
            raise OpError(records.where, f"{records.name(i)}: the class is {class_id:g}; expected a whole number "
                          f"from 0 to {len(names) - 1}", "Pass all classes, or create the file again")
    return names
