"""Folders in the layout of Pascal VOC. This module checks all labels. gluoncv reads them.

``root`` has the folders VOC2007 or VOC2012 or both, or is itself such a folder. A folder has
``ImageSets/Main/<list>.txt`` with one image name per line, ``JPEGImages/<name>.jpg`` and ``Annotations/<name>.xml``.

With the folders of the years, ``train`` is the list trainval of both years, and ``val`` is the list test of 2007. If
``root`` is itself such a folder, ``train`` is its list train (or trainval), and ``val`` is its list val (or test).
"""
from __future__ import annotations

import math
import os
from collections.abc import Sequence
from xml.etree.ElementTree import TreeBuilder
from xml.parsers import expat

from ...core.errors import OpError
from ...core.files import opened, read_lines
from ...core.optional import require
from ..base import Classes, DetectionDataset, class_names
from ..images import progress

__all__ = ["VOC"]

WHERE = "data.voc"
YEARS = {"train": (("VOC2007", "trainval"), ("VOC2012", "trainval")), "val": (("VOC2007", "test"),)}
LISTS = {"train": ("train", "trainval"), "val": ("val", "test")}
LINE = "line"   # the attribute of an element that has its line
REMEDY = "Correct the file, or remove the image from the list"


class VOC(DetectionDataset):
    """A data set in the layout of Pascal VOC. The module describes the folder, and the base class the items.

    - ``root``: the folder.
    - ``split``: "train" or "val"; the split.
    - ``classes``: names, compared without regard to case as gluoncv does, or a file with one name per line. The default
      is VOC's twenty classes, or if the labels have others, the classes of the labels in alphabetical order.
    - ``splits``: pairs of a year (or a folder in ``root``) and the name of a list. They replace the lists of ``split``.

    An OpError if a file is missing or malformed, a class is unknown, or a package is not installed.
    """

    def __init__(self, root: str, split: str = "train", classes: Classes = None,
                 splits: Sequence[tuple] | None = None):
        reader = require("gluoncv.data", WHERE).VOCDetection
        known = None if classes is None else _by_lower_case(class_names(classes, WHERE))
        splits = _splits(root, split) if splits is None else tuple(splits)
        expected_sizes, written = [], {}
        for folder, name in splits:
            folder = f"VOC{folder}" if isinstance(folder, int) else folder
            expected_sizes += _check_list(root, folder, name, known, written)
        if known is None:
            known = {name: name for name in reader.CLASSES}
            if not known.keys() >= written.keys():
                known = dict(sorted(written.items()))
        self._source = type("VOCDetection", (reader,), {"CLASSES": [*known]})(root=root, splits=splits)
        paths = [os.path.normpath(self._source._image_path.format(*item)) for item in self._source._items]
        super().__init__(WHERE, class_names(known.values(), WHERE), paths, self._source._label_cache, expected_sizes)


def _by_lower_case(names):
    """The names by those in lower case, of which no two may be equal: gluoncv reads labels in lower case."""
    return dict(zip(class_names([name.lower() for name in names], WHERE), names))


def _splits(root, split):
    """(folder, list) for each existing list of a split; an OpError if there is none."""
    lists = os.path.dirname(_list(root, "", split))
    is_one = os.path.isdir(lists)
    candidates = [("", name) for name in LISTS[split]] if is_one else YEARS[split]
    existing = tuple(candidate for candidate in candidates if os.path.isfile(_list(root, *candidate)))
    if not existing:
        folder = lists if is_one else root
        expected = " or ".join(os.path.relpath(_list(root, *candidate), folder) for candidate in candidates)
        raise OpError(WHERE, f"{folder} has no {expected}", "Pass the folder that has VOC2007 or ImageSets, or splits")
    return existing[:1] if is_one else existing


def _list(root, folder, name):
    return os.path.join(root, folder, "ImageSets", "Main", f"{name}.txt")


def _check_list(root, folder, name, known, written):
    """((width, height) in its label, path of the label) for each image of a list."""
    path = _list(root, folder, name)
    lines = [line.strip() for line in read_lines(WHERE, path, "Pass another root or splits")]
    if not lines:
        raise OpError(WHERE, f"{path} is empty; expected an image's name per line", "Pass another root or splits")
    expected_sizes = []
    for number, line in enumerate(progress(lines, f"checking {name}"), 1):
        image = os.path.join(root, folder, "JPEGImages", f"{line}.jpg")
        if not line or line != line.split()[0] or not os.path.isfile(image):
            raise OpError(WHERE, f"{path}, line {number}: {line!r} names no image; expected {image}", REMEDY)
        label = os.path.join(root, folder, "Annotations", f"{line}.xml")
        expected_sizes.append((_check_annotation(label, known, written), label))
    return expected_sizes


def _parse(path):
    """The root element of an XML file. Each element has its line, which ElementTree does not store, as an attribute."""
    parser, tree = expat.ParserCreate(), TreeBuilder()

    def start(tag, _):
        tree.start(tag, {LINE: str(parser.CurrentLineNumber)})

    def doctype(*_):   # entities could grow to any size
        raise _bad(path, parser.CurrentLineNumber, "a document type", "none: labels have no entities")

    parser.StartDoctypeDeclHandler = doctype
    parser.StartElementHandler = start
    parser.CharacterDataHandler = tree.data
    parser.EndElementHandler = tree.end
    try:
        with opened(WHERE, path, REMEDY, "the label") as file:
            parser.ParseFile(file)
    except expat.ExpatError as error:
        raise _bad(path, error.lineno, expat.ErrorString(error.code), "XML") from error
    return tree.close()


def _bad(path, line, got, expected):
    return OpError(WHERE, f"{path}, line {line}: {got}; expected {expected}", REMEDY)


def _section(path, parent, tag):
    element = parent.find(tag)
    if element is None:
        raise _bad(path, parent.get(LINE), f"<{parent.tag}> has no <{tag}>", "one")
    return element


def _number(path, parent, tag):
    text, line = _text(path, parent, tag)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _bad(path, line, f"<{tag}> is {text!r}", "a number")
    return value


def _text(path, parent, tag):
    """(text of a child, its line)"""
    element = _section(path, parent, tag)
    return (element.text or "").strip(), element.get(LINE)


def _check_annotation(path, known, written):
    """The (width, height) that an XML label states.

    - ``known``: the names of the classes by those in lower case; None: any.
    - ``written``: the same of the classes that labels have. Those of this label are added.

    An OpError if gluoncv cannot read an object, or would leave it out without a warning.
    """
    root = _parse(path)
    objects = root.findall("object")
    for item in root.iter("object"):
        if item not in objects:   # gluoncv would read it as one more
            raise _bad(path, item.get(LINE), "an <object> inside another element", "it inside of the root")
    size = _section(path, root, "size")
    width, height = _number(path, size, "width"), _number(path, size, "height")
    for item in objects:
        _check_object(path, item, known, written, width, height)
    return width, height


def _check_object(path, item, known, written, width, height):
    text, line = _text(path, item, "name")
    if not text or known is not None and text.lower() not in known:
        expected = f"one of {', '.join(known.values())}" if known else "a name"
        raise _bad(path, line, f"the class is {text!r}", expected)
    written.setdefault(text.lower(), text)
    difficult, line = _text(path, item, "difficult")
    if difficult not in ("0", "1"):
        raise _bad(path, line, f"<difficult> is {difficult!r}", "0 or 1")
    box = _section(path, item, "bndbox")
    left, top, right, bottom = (_number(path, box, tag) for tag in ("xmin", "ymin", "xmax", "ymax"))
    if not (1 <= left < right <= width + 1 and 1 <= top < bottom <= height + 1):   # gluoncv's condition
        raise _bad(path, box.get(LINE), f"the box is {left:g} {top:g} {right:g} {bottom:g} in an image of "
                   f"{width:g} x {height:g}", "1 <= xmin < xmax <= width + 1, and the same for y and height")
