"""Folders in the layout of Pascal VOC: pictures, and for each an XML file with its objects.

``root`` is one of these; case does not count in the names of folders:

- a VOCdevkit: folders VOC2007, VOC2012 or of any other year (or the folder above it). Each has
  ``ImageSets/Main/<list>.txt`` with a picture's name per line, ``JPEGImages`` and ``Annotations/<name>.xml``. If a year
  has the list test, with labels, ``val`` is the first such list and ``train`` the lists trainval. Otherwise ``train``
  and ``val`` are the lists of these names.
- such a folder of a year itself. ``train`` is its list train (or trainval), and ``val`` is its list val (or test).
- ``JPEGImages`` or ``images`` beside ``Annotations`` or ``annots``, without lists. In both there may be the folders
  ``train`` and ``val``, or both may be in folders of these names.
- ``train`` and ``val`` with the pictures and their XML files.

Where there is no part for ``val``, a fifth can be held out.
"""
from __future__ import annotations

import functools
import itertools
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from xml.etree import ElementTree
from xml.parsers import expat

from ...contract.errors import OpError
from ...io.files import opened, read_lines
from .. import layouts
from ..base import ALIASES, SPLITS, Classes, DetectionDataset, class_names
from ..images import headers, progress
from ..labels import Labelled, fit, note_missing
from ..repairs import Repairs

WHERE = "data.voc"
LISTS = {"train": ("train", "trainval", "training"), "val": ALIASES["val"]}
CLASSES = ("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
           "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor")
LINE = "line"   # the attribute of an element that has its line
REMEDY = "Correct the file, or remove the image from the list"
LISTS_REMEDY = "Pass the folder that contains VOC2007 or ImageSets, or name the lists to read in splits"
LAYOUT = "ImageSets/Main, or JPEGImages beside Annotations, or a folder of these for each year, such as VOC2007"
ORIGIN = 1   # VOC's number of the first pixel
DIFFICULT = {"0": 0, "1": 1}
SPELLED = {"true": 1, "yes": 1, "1.0": 1}   # what other values of <difficult> mean; all others mean 0


class VOC(DetectionDataset):
    """A data set in the layout of Pascal VOC. The module describes the folder, and the base class the items.

    ``classes`` are names, compared without regard to case, or a file with one per line. The default is VOC's twenty
    classes, or if the labels have others, the classes of the labels in alphabetical order. ``splits`` are pairs of a
    year (or a folder in ``root``) and the name of a list. They replace the lists of ``split``. ``strict`` refuses what
    would be repaired. ``hold_out`` is for data sets without a part for validation: True holds out a
    fifth, and names hold out these pictures.

    An OpError is raised if a file is missing or malformed, or a class is unknown.
    """

    def __init__(self, root: str, split: str = "train", classes: Classes = None,
                 splits: Sequence[tuple] | None = None, strict: bool = False, hold_out: bool | Sequence[str] = False):
        class_of = None   # the names by those in lower case, of which no two may be equal
        if classes is not None:
            names = class_names(classes, WHERE)
            class_of = dict(zip(class_names([name.lower() for name in names], WHERE), names))
        repairs = Repairs(WHERE, strict)
        has_split, pairs = (True, _of_splits(root, splits)) if splits is not None else _pairs(root, split, repairs)
        pictures, missing = [], []
        for picture, label in progress([*pairs], f"checking {split}"):
            if not os.path.isfile(label):
                missing.append(len(pictures))
                pictures.append(Labelled(picture, label, [], []))
            else:
                pictures.append(read_label(picture, label, class_of, repairs))
        note_missing(pictures, missing, repairs)

        if class_of is None:
            class_of = _classes_of(pictures)
        numbers = {name: number for number, name in enumerate(class_of)}
        for picture in pictures:
            picture.rows = [(*edges, numbers[name.lower()], difficult) for *edges, name, difficult in picture.rows]
        paths = [picture.picture for picture in pictures]
        fitted = fit(pictures, headers(paths, WHERE, "checking pictures"), repairs, origin=ORIGIN)
        super().__init__(WHERE, class_names(class_of.values(), WHERE), [paths[i] for i in fitted.kept], fitted.labels,
                         fitted.sizes, repairs)
        if not has_split:
            self._hold_out(split, root, hold_out)


def _classes_of(pictures):
    """The names of the classes by their names in lower case.

    They are VOC's twenty classes. If the labels have others, they are the classes of the labels.
    """
    written = {name.lower(): name for picture in reversed(pictures) for *_, name, _ in reversed(picture.rows)}
    return dict(zip(CLASSES, CLASSES)) if written.keys() <= set(CLASSES) else dict(sorted(written.items()))


def _of_splits(root: str, splits: Sequence[tuple]) -> Iterator[tuple[str | OpError, str]]:
    for folder, name in splits:
        folder = os.path.join(root, f"VOC{folder}" if isinstance(folder, int) else folder)
        yield from _listed(_Folder.of(folder), name)


class _Folder(NamedTuple):
    """A folder with lists, or with pictures and labels: its paths, and the paths of the lists by their names."""
    root: str
    pictures: str
    labels: str
    lists: dict[str, str]

    @classmethod
    def of(cls, root: str) -> _Folder:
        """The folder of a year. Folders that are missing in it are given the names that VOC gives them, for errors."""
        sets = layouts.child(root, "ImageSets")
        folder = sets and layouts.child(sets, "Main") or sets or os.path.join(root, "ImageSets", "Main")
        lists = {os.path.splitext(name)[0].lower(): os.path.join(folder, name)
                 for name in layouts.files_and_folders(folder)[0] if name.lower().endswith(".txt")}
        pictures, labels = layouts.child(root, *layouts.PICTURES), _label_folder(root)
        return cls(root, pictures or os.path.join(root, "JPEGImages"), labels or os.path.join(root, "Annotations"),
                   lists)


def _label_folder(root: str) -> str | None:
    """The path of the folder of the XML files, or None if there is none."""
    folder = layouts.child(root, *layouts.XML)
    return folder and (layouts.child(folder, "xmls", "xml") or folder)


def _pairs(root: str, split: str, repairs: Repairs) -> tuple[bool, Iterator[tuple[str | OpError, str]]]:
    """(whether there is a part for each split, (picture or its error, label) of each picture of the split)"""
    folders = _years(root)
    plan = _plan(root, folders)
    if plan["train"] or plan["val"]:
        has_split = bool(plan["val"])
        wanted = plan[split if has_split else "train"]
        if not wanted:
            folder = next(os.path.dirname(path) for folder in folders for path in folder.lists.values())
            raise OpError(WHERE, f"{folder} has no {' or '.join(f'{name}.txt' for name in LISTS[split])}",
                          LISTS_REMEDY)
        pairs = itertools.chain.from_iterable(_listed(*each) for each in wanted)
        held_out = [each for each in plan["val"] if each[1] == "val" and (each[0], "trainval") in wanted]
        if split == "train" and held_out:   # trainval has them, too
            labels = {label for each in held_out for _, label in _listed(*each)}
            return True, (pair for pair in pairs if pair[1] not in labels)
        return has_split, pairs
    return _pairs_of_folders(root, split, folders, repairs)


def _years(root: str) -> list[_Folder]:
    """The folders with VOC's lists or its pictures: that of each year, or ``root`` itself."""
    if layouts.child(root, "ImageSets") or layouts.child(root, "JPEGImages"):
        return [_Folder.of(root)]
    devkit = layouts.child(root, "VOCdevkit") or root
    names = [name for name in layouts.files_and_folders(devkit)[1] if re.match("VOC", name, re.IGNORECASE)]
    return [_Folder.of(os.path.join(devkit, name)) for name in names]


def _plan(root: str, folders: Sequence[_Folder]) -> dict[str, list[tuple[_Folder, str]]]:
    """(folder, list) of each list of each split."""
    if len(folders) == 1 and folders[0].root == root:
        return {split: _first(folders[0], LISTS[split]) for split in SPLITS}
    tests = [(folder, "test") for folder in folders if "test" in folder.lists and _has_labels(folder, "test")][:1]
    plan = {"train": [], "val": tests}
    for folder in folders:
        if tests:
            together = _first(folder, ("trainval",))
            plan["train"] += together or [(folder, name) for name in ("train", "val") if name in folder.lists]
        elif "train" in folder.lists and "val" in folder.lists:
            plan["train"].append((folder, "train"))
            plan["val"].append((folder, "val"))
        else:
            plan["train"] += _first(folder, ("trainval", "train"))
            plan["val"] += _first(folder, ("val",)) if "trainval" not in folder.lists else []
    return plan


def _first(folder, names):
    return [(folder, name) for name in names if name in folder.lists][:1]


def _has_labels(folder, name):
    """Whether the first picture of a list has a label: those of VOC2012's list test are not public."""
    return any(os.path.isfile(label) for _, label in itertools.islice(_listed(folder, name), 1))


def _listed(folder: _Folder, name: str) -> Iterator[tuple[str | OpError, str]]:
    """(path of the image, or why there is none; path of its label) for each line of a list."""
    path = folder.lists.get(name, os.path.join(folder.root, "ImageSets", "Main", f"{name}.txt"))
    lines = [line.strip() for line in read_lines(WHERE, path, LISTS_REMEDY)]
    if not any(lines):
        raise OpError(WHERE, f"{path} is empty; expected the name of an image in each line",
                      LISTS_REMEDY)
    images, labels = _stems(folder)
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        stem = next((stem for stem in _names_in(line) if stem in images), line)
        picture = images.get(stem)
        if picture is None:
            expected = os.path.join(folder.pictures, f"{line}.jpg")
            picture = OpError(WHERE, f"{path}, line {number}: {line!r} names no image; expected {expected}", REMEDY)
        yield picture, labels.get(stem, os.path.join(folder.labels, f"{stem}.xml"))


def _stems(folder):
    """The pictures and the labels of a folder, by their names without the ending."""
    xml = [os.path.join(folder.labels, name) for name in layouts.files_and_folders(folder.labels)[0]
           if name.lower().endswith(".xml")]
    return layouts.by_stem(layouts.pictures_in(folder.pictures)), layouts.by_stem(xml)


def _names_in(line: str) -> Iterator[str]:
    """The names of a picture that a line may mean: it may be a path, have an ending, or a flag behind the name."""
    yield line
    name = os.path.basename(line.replace("\\", "/"))
    yield name
    yield os.path.splitext(name)[0]
    if re.search(r"\s-?[01]$", line):
        yield line.rsplit(None, 1)[0]


def _pairs_of_folders(root: str, split: str, years: Sequence[_Folder], repairs: Repairs) -> tuple[bool, Iterator]:
    """The pairs of a data set without lists: see :func:`_pairs`."""
    parts = {name: _split_folders(root, name) for name in SPLITS}
    if parts[split] or parts["train"]:
        return bool(parts["val"]), _beside(parts[split] or parts["train"], repairs)
    if parts["val"]:
        raise OpError(WHERE, f"{root} has no folder train", "Add it, or pass split='val'")
    whole = [folder for folder in (years or [_Folder.of(root)]) if _stems(folder)[1]]
    if not whole or not any(_stems(folder)[0] for folder in whole):
        raise layouts.unknown(WHERE, root, LAYOUT)
    return False, itertools.chain.from_iterable(_beside(folder, repairs) for folder in whole)


def _split_folders(root: str, split: str) -> _Folder | None:
    """The folders of the pictures and labels of a split."""
    own = layouts.split_folder(root, split)
    pictures, labels = layouts.child(root, *layouts.PICTURES), _label_folder(root)
    candidates = [(pictures and layouts.split_folder(pictures, split), labels and layouts.split_folder(labels, split))]
    if own:
        candidates += [(layouts.child(own, *layouts.PICTURES), _label_folder(own)),
                       (own, own)]
    for pair in candidates:
        folder = _Folder(root, *pair, {}) if all(pair) else None
        if folder and _stems(folder)[1]:
            return folder
    return None


def _beside(folder: _Folder, repairs: Repairs) -> Iterator[tuple[str, str]]:
    """Each picture of a folder, with its label. Labels without a picture are noted."""
    images, labels = _stems(folder)
    for stem in sorted(labels.keys() - images.keys()):
        repairs.note("no_picture", labels[stem], "it has no picture", f"{stem}.jpg or so in {folder.pictures}")
    for stem in sorted(images):
        yield images[stem], labels.get(stem, os.path.join(folder.labels, f"{stem}.xml"))


def _parse(path: str) -> ElementTree.Element:
    """The root element of an XML file. Each element has its line, which ElementTree does not store, as an attribute."""
    parser, tree = expat.ParserCreate(), ElementTree.TreeBuilder()

    def start(tag, _):
        tree.start(tag, {LINE: str(parser.CurrentLineNumber)})

    def doctype(*_):   # entities could grow to any size
        raise _bad(path, parser.CurrentLineNumber, "it declares a document type",
                   "none, because labels have no entities")

    parser.StartDoctypeDeclHandler = doctype
    parser.StartElementHandler = start
    parser.CharacterDataHandler = tree.data
    parser.EndElementHandler = tree.end
    with opened(WHERE, path, REMEDY, "the label") as file:
        content = file.read()
    try:
        parser.Parse(_in_utf8(content), True)
    except expat.ExpatError as error:
        raise _bad(path, error.lineno, expat.ErrorString(error.code), "XML") from error
    except (LookupError, UnicodeDecodeError) as error:
        raise _bad(path, 1, str(error), "text in the encoding that the first line names") from error
    return tree.close()


def _in_utf8(content: bytes) -> bytes:
    """The content of an XML file in an encoding that expat reads. It knows none with several bytes, such as GBK."""
    declared = re.match(rb"<\?xml[^>]*?encoding=[\"']([\w.-]+)[\"'][^>]*?\?>", content)
    if declared is None or declared[1].lower() in (b"utf-8", b"utf8", b"utf-16", b"us-ascii"):
        return content
    return content[declared.end():].decode(declared[1].decode()).encode()


def _bad(path, line, got, expected):
    return OpError(WHERE, f"{path}, line {line}: {got}; expected {expected}", REMEDY)


class _Imperfect(Exception):
    """Raised if a label needs a repair."""


def _refuse(*_):
    raise _Imperfect


def read_label(picture: str | OpError, path: str, class_of: dict[str, str] | None, repairs: Repairs) -> Labelled:
    """What an XML file says about a picture. A row has the name of the class where other labels have its number.

    ``class_of`` has the names of the classes by their names in lower case. None allows any name. A label is read with
    Python's parser in C first, which is three times as fast but does not count lines. If the label is faulty, it is
    read again with a parser that knows the line of each element, for the message.
    """
    with opened(WHERE, path, REMEDY, "the label") as file:
        content = file.read()
    try:
        if b"<!" in content or b"\0" in content:   # a document type, perhaps in UTF-16
            raise _Imperfect
        rows, size = _read(path, ElementTree.fromstring(content), class_of, _refuse)
    except (ElementTree.ParseError, OpError, _Imperfect, ValueError, LookupError):   # the last two: the encoding
        rows, size = _read(path, _parse(path), class_of, repairs.note)
    return Labelled(picture, path, rows, functools.partial(_lines, path), size, path)


def _lines(path):
    """Where the boxes of a file stand."""
    return [f"line {item.find('bndbox').get(LINE)}" for item in _parse(path).findall("object")]


def _read(path, root, class_of, note: Callable) -> tuple[list[tuple], tuple[float, float]]:
    """(rows, the size that the label states for the picture, or zeros) of a root element."""
    objects = root.findall("object")
    if len(objects) != sum(1 for _ in root.iter("object")):
        inner = next(item for item in root.iter("object") if item not in objects)
        raise _bad(path, inner.get(LINE), "an <object> is inside of another element",
                   "every <object> directly in the root")
    size = root.find("size")
    return [_object(path, item, class_of, note) for item in objects], (_side(size, "width"), _side(size, "height"))


def _side(size, tag):
    """A side of the picture as the label states it, or 0 if it does not."""
    try:
        value = float(size.findtext(tag))
    except (AttributeError, TypeError, ValueError):
        return 0.0
    return value if math.isfinite(value) else 0.0


def _section(path, parent, tag):
    element = parent.find(tag)
    if element is None:
        raise _bad(path, parent.get(LINE), f"<{parent.tag}> has no <{tag}>", f"one <{tag}>")
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


def _object(path, item, class_of, note):
    name, line = _text(path, item, "name")
    if not name or class_of is not None and name.lower() not in class_of:
        expected = f"one of {', '.join(class_of.values())}" if class_of else "a name"
        raise _bad(path, line, f"the class is {name!r}", expected)
    box = _section(path, item, "bndbox")
    edges = [_number(path, box, tag) - ORIGIN for tag in ("xmin", "ymin", "xmax", "ymax")]
    return (*edges, name, _difficult(path, item, note))


def _difficult(path, item, note):
    element = item.find("difficult")
    text = "" if element is None else (element.text or "").strip()
    if text in DIFFICULT:
        return DIFFICULT[text]
    if element is None:
        note("difficult", f"{path}, line {item.get(LINE)}", "<object> has no <difficult>", "one <difficult>")
    else:
        note("difficult", f"{path}, line {element.get(LINE)}", f"<difficult> is {text!r}", "0 or 1")
    return SPELLED.get(text.lower(), 0)
