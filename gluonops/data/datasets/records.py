"""MXNet's RecordIO: a .rec file with images and labels, and beside it an .idx file with the offset of each.

``im2rec --pack-label`` and ``mx.recordio`` make such files. For detection a label is what ``mx.image.ImageDetIter``
reads: the length A of its header, the length B of an object, which is at least 5, and the rest of the header. Then each
object has its class, xmin, ymin, xmax and ymax as shares of the image's width and height, and B - 5 further numbers.
Rows of -1 are padding.

``root`` is the file, or a folder with train.rec and val.rec (or valid.rec, test.rec); without the latter a fifth can
be held out. Without the .idx file the offsets are found in the .rec file. Records without an image, such as
insightface's headers, are left out.
"""
from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np

from ...contract.errors import OpError
from ...io.files import opened
from ...io.recordio import HEADER, LABEL, content, index, parts, scan, unpack
from .. import layouts
from ..base import ALIASES, Classes, ClassificationDataset, DetectionDataset, class_names
from ..images import Header, checked_header, decode_image, progress
from ..labels import NOISE_OF_FLOAT32, Labelled, fit, readable
from ..repairs import Repairs

WHERE = "data.rec"
MAX_UNNAMED = 100_000   # classes whose names are their class ids
PADDING = -1
LEAST_WIDTH = 5         # numbers of an object
WINDOW = 1 << 12        # So many bytes of an image are read at a time for its header.


class Records:
    """The records of a .rec file that have an image; several threads and processes may read them.

    ``packed`` is the label of each record, float32. ``has_headers`` says whether there are records without an image. A
    data set that derives from it as well takes its images from the file.
    """

    def __init__(self, root: str, split: str, repairs: Repairs):
        self.where, self.repairs = repairs.where, repairs
        self.path, self.has_split = _find(root, split, repairs.where)
        offsets = _offsets(self.path, repairs)
        self._offsets, self.packed = [], []
        for number, offset, label, has_image in _headers(self.where, self.path, offsets):
            if has_image:
                self._offsets.append((number, offset))
                self.packed.append(label)
            else:
                repairs.note("header", f"{self.path}, record {number}", "it has no image", "one")
        self.has_headers = len(self.packed) < len(offsets)
        if not self.packed:
            raise OpError(self.where, f"{self.path} has no record with an image", "Create the file again")

    def name(self, i: int) -> str:
        """The name of a record in errors."""
        return f"{self.path}, record {self._offsets[i][0]}"

    def encoded(self, i: int) -> bytes:
        """The bytes of a record's image."""
        with opened(self.where, self.path, "Pass another root") as file:
            return self._image_in(file, i)

    def image(self, i: int) -> np.ndarray:
        """A record's image, uint8 (height, width, 3)."""
        image = decode_image(self.encoded(i), self.name(i), self.where)
        self._check_size(i, image.shape[1::-1])
        return image

    def image_headers(self) -> list[Header | OpError]:
        """The header of each record's image, or why it cannot be read."""
        headers = []
        with opened(self.where, self.path, "Pass another root") as file:
            for i in progress(range(len(self._offsets)), "checking images"):
                try:
                    headers.append(checked_header(self._opened_image(file, i), self.name(i), self.where))
                except OpError as error:
                    headers.append(error)
        return headers

    def _opened_image(self, file: BinaryIO, i: int) -> BinaryIO:
        """A record's image as a file, of which no more is read than is asked for."""
        number, offset = self._offsets[i]
        (start, length), *others = parts(self.where, self.path, file, offset, number)
        if others:
            return io.BytesIO(self._image_in(file, i))
        skipped = HEADER.size + LABEL * (len(self.packed[i]) if _has_array(file, start) else 0)
        return io.BufferedReader(_Window(file, start + skipped, length - skipped), WINDOW)

    def _image_in(self, file: BinaryIO, i: int) -> bytes:
        number, offset = self._offsets[i]
        record = content(file, parts(self.where, self.path, file, offset, number))
        return unpack(self.where, record).content


class _Window(io.RawIOBase):
    """A file object that shows a part of another file."""

    def __init__(self, file: BinaryIO, start: int, length: int):
        self._file, self._start, self._length, self._at = file, start, length, 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: memoryview) -> int:
        """Read as much as there is room and content for."""
        self._file.seek(self._start + self._at)
        text = self._file.read(min(len(buffer), max(0, self._length - self._at)))
        buffer[:len(text)] = text
        self._at += len(text)
        return len(text)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a byte of the part."""
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._length}[whence]
        return self._at


def _has_array(file, start):
    """Whether the label of a record is an array behind its header, instead of a number in it."""
    file.seek(start)
    count, *_ = HEADER.unpack(file.read(HEADER.size))
    return count > 0


def _headers(where, path, offsets):
    """(number, offset, label, has an image) for each record."""
    with opened(where, path, "Pass another root") as file:
        for number, offset in progress(offsets, f"checking {os.path.basename(path)}"):
            (start, length), *others = parts(where, path, file, offset, number)
            file.seek(start)
            count, label, _, _ = HEADER.unpack(file.read(HEADER.size).ljust(HEADER.size, b"\0"))
            if count * LABEL > length - HEADER.size:
                raise OpError(where, f"{path}, record {number}: a label of {count} numbers does not fit in the record",
                              "Create the file again")
            labels = np.frombuffer(file.read(count * LABEL), "<f4") if count else np.float32([label])
            has_image = bool(others) or length > HEADER.size + count * LABEL
            yield number, offset, labels, has_image


def _offsets(path, repairs):
    """The numbers and offsets of the records, from the .idx file. Without one, the .rec file is read for them."""
    index_path = f"{os.path.splitext(path)[0]}.idx"
    if os.path.lexists(index_path):
        return index(repairs.where, index_path)
    repairs.note("no_index", path, f"there is no {index_path}", "one, which is made along with the .rec file")
    return scan(repairs.where, path)


class DetectionRecords(Records, DetectionDataset):
    """Boxes from RecordIO; see this module, and :class:`gluonops.data.DetectionDataset` for its items.

    ``classes`` are names, or a file with one per line; by default the class ids are the names. ``strict`` refuses what
    would be repaired. ``hold_out`` is for data sets without a part for validation: True holds out a
    fifth, and names hold out these pictures.
    """

    _columns = ("_labels", "_sizes", "_offsets", "packed")

    def __init__(self, root: str, split: str = "train", classes: Classes = None, strict: bool = False,
                 hold_out: bool | Sequence[str] = False):
        repairs = Repairs(WHERE, strict)
        Records.__init__(self, root, split, repairs)
        objects = [_objects(self.name(i), label, repairs) for i, label in enumerate(self.packed)]
        largest = [max((row[4] for row in rows), default=-1) for rows in objects]
        names = _names(classes, largest, self)
        pictures = [Labelled(self.name(i), self.name(i), rows, [f"object {place}" for place in range(len(rows))])
                    for i, rows in enumerate(objects)]
        fitted = fit(pictures, self.image_headers(), repairs, shares=True, noise=NOISE_OF_FLOAT32)
        self._offsets, self.packed = ([column[i] for i in fitted.kept] for column in (self._offsets, self.packed))
        DetectionDataset.__init__(self, WHERE, names, (), fitted.labels, fitted.sizes, repairs)
        if not self.has_split:
            self._hold_out(split, root, hold_out)


class ClassificationRecords(Records, ClassificationDataset):
    """Images with a class each, from RecordIO; items as :func:`gluonops.data.classification` says.

    The arguments are those of :class:`DetectionRecords`.
    """

    _columns = ("_labels", "_sizes", "_offsets", "packed")

    def __init__(self, root: str, split: str = "train", classes: Classes = None, strict: bool = False,
                 hold_out: bool | Sequence[str] = False):
        repairs = Repairs(WHERE, strict)
        Records.__init__(self, root, split, repairs)
        for i, label in enumerate(self.packed):
            # insightface's labels may go on behind the class
            is_alone = len(label) == 1 or self.has_headers and len(label) > 1
            if not is_alone or not np.isfinite(label[0]) or label[0] < 0 or label[0] != int(label[0]):
                raise OpError(WHERE, f"{self.name(i)}: the label is {label.tolist()}; expected the number of a class",
                              "Create the file again, or read it as a data set for detection")
        labels = [int(label[0]) for label in self.packed]
        names = _names(classes, labels, self)
        headers = self.image_headers()
        kept = readable(headers, repairs)
        self._offsets, self.packed = ([column[i] for i in kept] for column in (self._offsets, self.packed))
        ClassificationDataset.__init__(self, WHERE, names, (), [labels[i] for i in kept],
                                       [headers[i].size for i in kept], repairs)
        if not self.has_split:
            self._hold_out(split, root, hold_out)


def has_boxes(root: str) -> bool:
    """Whether the first record with an image has boxes.

    An OpError is raised if there is no file, or it cannot be read.
    """
    path, _ = _find(root, "train", WHERE)
    offsets = _offsets(path, Repairs(WHERE))
    label = next((label for *_, label, has_image in _headers(WHERE, path, offsets) if has_image), ())
    return len(label) > 1 and label[0] >= 2 and label[0] <= len(label) and label[1] >= LEAST_WIDTH


def _find(root, split, where):
    """(the path of the file, whether there is one for each split)"""
    if os.path.splitext(root)[1].lower() == ".rec":
        if not os.path.isfile(root):
            raise OpError(where, f"there is no file {root}", "Pass the path of a .rec file, or of its folder")
        return root, True
    paths = {part: _file(root, part) for part in ALIASES}
    part = split if paths["val"] else "train"
    path = paths[part]
    if path is None:
        missing = [os.path.join(root, f"{name}.rec") for name in ALIASES[part]]
        raise OpError(where, f"there is no {' and no '.join(missing)}; {root} has {layouts.describe(root)}",
                      "Pass the path of a .rec file, or of its folder")
    return path, bool(paths["val"])


def _file(root, split):
    """The .rec file whose name is an alias of a split, or has one as a word. None if there is none."""
    files = [name for name in layouts.files_and_folders(root)[0] if name.lower().endswith(".rec")]
    for alias in ALIASES[split]:
        for name in sorted(files, key=lambda name: (os.path.splitext(name)[0].lower() != alias, name)):
            if alias in re.split("[^a-z]+", os.path.splitext(name)[0].lower()):
                return os.path.join(root, name)
    return os.path.join(root, files[0]) if split == "train" and len(files) == 1 and not _is_named(files[0]) else None


def _is_named(name):
    return any(alias in re.split("[^a-z]+", name.lower()) for alias in ALIASES["val"])


def _objects(name, label, repairs):
    """A packed label as rows of xmin, ymin, xmax, ymax, class, 0."""
    header, width = (int(value) if np.isfinite(value) else 0 for value in np.append(label[:2], [0, 0])[:2])
    if header >= 2 and width >= LEAST_WIDTH and len(label) >= header:
        end = header + (len(label) - header) // width * width
        if (label[end:] == PADDING).all():   # a label is padded to a length that is no multiple of the objects'
            label = label[:end]
    if header < 2 or width < LEAST_WIDTH or len(label) < header or (len(label) - header) % width:
        raise OpError(WHERE, f"{name}: it has a label of {len(label)} numbers that starts with {label[:2].tolist()}; "
                      "expected the length of its header, the length of an object (at least 5), and objects of that "
                      "length",
                      "Pack it as im2rec --pack-label does")
    rows = []
    for number, *edges in label[header:].reshape(-1, width)[:, :LEAST_WIDTH].tolist():
        if number == PADDING and edges == [PADDING] * 4:
            repairs.note("padding", name, "a row of -1", "an object")
            continue
        if not (number >= 0 and math.isfinite(number) and number == math.floor(number)):
            raise OpError(WHERE, f"{name}: the class is {number:g}; expected a whole number from 0",
                          "Create the file again")
        if not all(map(math.isfinite, edges)):
            raise OpError(WHERE, f"{name}: the box is {' '.join(f'{edge:g}' for edge in edges)}; expected shares of "
                          "the image's size", "Create the file again")
        rows.append((*edges, int(number), 0))
    return rows


def _names(classes, class_ids, records):
    """The names of the classes, by default their ids; ``class_ids`` has the largest of every record, or -1."""
    if classes is None:
        largest = int(max(class_ids))
        if largest < 0:
            raise OpError(records.where, f"{records.path} has no object, so its classes are not known",
                          "Pass the names of the classes as classes")
        if largest >= MAX_UNNAMED:
            raise OpError(records.where, f"{records.path} has the class {largest}; expected at most {MAX_UNNAMED} "
                          "classes without names", "Pass the names of the classes as classes, or create the file again")
        return tuple(map(str, range(largest + 1)))
    names = class_names(classes, records.where)
    for i, class_id in enumerate(class_ids):
        if class_id >= len(names):
            raise OpError(records.where, f"{records.name(i)}: the class is {class_id:g}; expected a whole number from "
                          f"0 to {len(names) - 1}", "Pass the names of all classes, or create the file again")
    return names
