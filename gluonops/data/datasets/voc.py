"""Folders in the layout of Pascal VOC.

``root`` has the folders VOC2007 or VOC2012 or both, or is itself such a folder. A folder has
``ImageSets/Main/<list>.txt`` with one image name per line, ``JPEGImages/<name>.jpg`` and ``Annotations/<name>.xml``.

With the folders of the years, ``train`` is the list trainval of both years, and ``val`` is the list test of 2007. If
``root`` is itself such a folder, ``train`` is its list train (or trainval), and ``val`` is its list val (or test).
"""
from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from xml.etree.ElementTree import TreeBuilder
from xml.parsers import expat

from ...core.errors import OpError
from ...core.files import opened, read_lines
from ..base import Classes, DetectionDataset, class_names
from ..images import progress

WHERE = "data.voc"
YEARS = {"train": (("VOC2007", "trainval"), ("VOC2012", "trainval")), "val": (("VOC2007", "test"),)}
LISTS = {"train": ("train", "trainval"), "val": ("val", "test")}
CLASSES = ("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
           "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor")
LINE = "line"   # the attribute of an element that has its line
REMEDY = "Correct the file, or remove the image from the list"


class VOC(DetectionDataset):
    """A data set in the layout of Pascal VOC. The module describes the folder, and the base class the items.

    ``classes`` are names, compared without regard to case, or a file with one per line. The default is VOC's twenty
    classes, or if the labels have others, the classes of the labels in alphabetical order. ``splits`` are pairs of a
    year (or a folder in ``root``) and the name of a list. They replace the lists of ``split``.

    An OpError if a file is missing or malformed, or a class is unknown.
    """

    def __init__(self, root: str, split: str = "train", classes: Classes = None,
                 splits: Sequence[tuple] | None = None):
        known = None   # the names by those in lower case, of which no two may be equal
        if classes is not None:
            names = class_names(classes, WHERE)
            known = dict(zip(class_names([name.lower() for name in names], WHERE), names))
        splits = _splits(root, split) if splits is None else splits
        paths, objects, expected_sizes = [], [], []
        for folder, name in splits:
            folder = f"VOC{folder}" if isinstance(folder, int) else folder
            for image, label in _listed(root, folder, name):
                size, of_image = _read_label(label, known)
                paths.append(image)
                objects.append(of_image)
                expected_sizes.append((size, label))
        if known is None:
            written = {name.lower(): name for *_, name, _ in reversed([*itertools.chain(*objects)])}
            is_voc = written.keys() <= set(CLASSES)
            known = dict(zip(CLASSES, CLASSES)) if is_voc else dict(sorted(written.items()))
        numbers = {name: number for number, name in enumerate(known)}
        labels = [[(*box, numbers[name.lower()], difficult) for *box, name, difficult in of_image]
                  for of_image in objects]
        super().__init__(WHERE, class_names(known.values(), WHERE), paths, labels, expected_sizes)


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


def _listed(root, folder, name):
    """(path of the image, path of its label) for each line of a list."""
    path = _list(root, folder, name)
    lines = [line.strip() for line in read_lines(WHERE, path, "Pass another root or splits")]
    if not lines:
        raise OpError(WHERE, f"{path} is empty; expected an image's name per line", "Pass another root or splits")
    for number, line in enumerate(progress(lines, f"checking {name}"), 1):
        image = os.path.join(root, folder, "JPEGImages", f"{line}.jpg")
        if not line or line != line.split()[0] or not os.path.isfile(image):
            raise OpError(WHERE, f"{path}, line {number}: {line!r} names no image; expected {image}", REMEDY)
        yield os.path.normpath(image), os.path.join(root, folder, "Annotations", f"{line}.xml")


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


def _read_label(path, known):
    """The (width, height) that an XML label states, and its objects: left, top, right, bottom, class, difficult.

    ``known``: the names of the classes by those in lower case; None: any.
    """
    root = _parse(path)
    objects = root.findall("object")
    for item in root.iter("object"):
        if item not in objects:
            raise _bad(path, item.get(LINE), "an <object> inside another element", "it inside of the root")
    size = _section(path, root, "size")
    width, height = _number(path, size, "width"), _number(path, size, "height")
    return (width, height), [_object(path, item, known, width, height) for item in objects]


def _object(path, item, known, width, height):
    name, line = _text(path, item, "name")
    if not name or known is not None and name.lower() not in known:
        expected = f"one of {', '.join(known.values())}" if known else "a name"
        raise _bad(path, line, f"the class is {name!r}", expected)
    difficult, line = _text(path, item, "difficult")
    if difficult not in ("0", "1"):
        raise _bad(path, line, f"<difficult> is {difficult!r}", "0 or 1")
    box = _section(path, item, "bndbox")
    left, top, right, bottom = (_number(path, box, tag) for tag in ("xmin", "ymin", "xmax", "ymax"))
    if not (1 <= left < right <= width + 1 and 1 <= top < bottom <= height + 1):
        raise _bad(path, box.get(LINE), f"the box is {left:g} {top:g} {right:g} {bottom:g} in an image of "
                   f"{width:g} x {height:g}", "1 <= xmin < xmax <= width + 1, and the same for y and height")
    return left - 1, top - 1, right - 1, bottom - 1, name, int(difficult)   # VOC counts pixels from 1
