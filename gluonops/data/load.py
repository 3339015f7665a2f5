"""Data sets by name: ``detection("voc", root)``, ``classification("folder", root)``."""
import glob
import importlib
import os
from typing import Callable, Optional, Union

from mxnet import gluon

from ..core.attributes import Attr, Choice
from ..core.errors import OpError
from . import formats
from .base import SPLITS, DetectionDataset
from .datasets.records import Records
from .formats import format_names
from .images import EXTENSIONS

Path = Union[str, os.PathLike]


def detection(name: str, root: Optional[Path] = None, split: str = "train", **options) -> DetectionDataset:
    """A data set for detection. All labels are checked before the function returns.

    An OpError if there is no such data set, a folder or file is missing, a label is malformed (the message gives its
    file and line), or a package is not installed.

    Parameters
    ----------
    name : {"digits", "voc", "coco", "yolo", "rec"}
        Name of the format.

        - ``digits``: scenes composed of scikit-learn's digits, see :class:`gluonops.data.DigitScenes`.
        - ``voc``, ``coco``: folders in the layout of these data sets.
        - ``yolo``: a folder in the layout of Darknet, with a text file per image.
        - ``rec``: MXNet's RecordIO.

        The modules ``voc``, ``coco``, ``darknet`` and ``records`` of :mod:`gluonops.data.datasets` describe them.
    root : str or os.PathLike
        Folder of the data set, or for ``rec`` the folder or the .rec file. Not for ``digits``.
    split : {"train", "val"}, default "train"
        Images for training, or held-out images.
    **options
        Options of the data set: ``classes`` (a sequence of names, or a file with one name per line) for all except
        ``digits``; ``size``, ``count``, ``objects``, ``seed`` and ``hard`` for ``digits``; ``splits`` for ``voc``.
    """
    return _load("detection", name, root, split, options)


def classification(name: str, root: Optional[Path] = None, split: str = "train", **options) -> gluon.data.Dataset:
    """A data set for classification. Its items are (image, class id): uint8 (height, width, channels) and int.

    Pass it to :class:`gluonops.data.Augmented` or :class:`gluonops.data.Letterboxed`.

    Parameters
    ----------
    name : {"digits", "mnist", "folder", "rec"}
        Name of the format.

        - ``digits``: scikit-learn's digits.
        - ``mnist``: a folder with the four files of MNIST.
        - ``folder``: a folder of images per class, see :class:`gluonops.data.ImageFolder`.
        - ``rec``: MXNet's RecordIO, see :mod:`gluonops.data.datasets.records`.
    root, split
        As :func:`gluonops.data.detection` takes them.
    **options
        For ``digits`` and ``mnist``: ``size`` and ``seed`` of :func:`gluonops.data.digits`. For ``folder`` and
        ``rec``: ``classes``, a sequence of names, or a file with one name per line.

    Returns
    -------
    gluon.data.Dataset
        Its attribute ``classes`` holds the names. Its attribute ``labels`` holds the class id of each image, int32
        (N,).

    Raises
    ------
    OpError
        There is no such data set, a folder or file is missing or malformed, or a package is not installed.
    """
    return _load("classification", name, root, split, options)


def recognize(path: Optional[Path], task: Optional[str] = None) -> formats.Format:
    """The format of a data set, as the layout of its folder tells it. Its ``name`` is what the other functions take.

    An OpError if there is no such folder, no format has its layout, or the format is for the other task.

    Parameters
    ----------
    path : str or os.PathLike, optional
        The folder; or a .rec file, or one of Darknet's .data files. None: the digits, which are part of scikit-learn.
    task : {"detection", "classification"}, optional
        What the data set shall be for. By default what its labels are for.
    """
    where = "data.recognize"
    entries = [entry for entry in formats.FORMATS if task in (None, entry.task)]
    if path is None:
        return entries[0]
    path = os.path.expanduser(os.fspath(path))
    if not os.path.exists(path):
        raise OpError(where, f"there is no folder {path}", "Pass the folder of a data set")
    found = [entry for entry in formats.FORMATS if _has_layout(entry, path)]
    if not found:
        if any(glob.glob(os.path.join(glob.escape(path), f"*/*{ending}")) for ending in EXTENSIONS):
            raise OpError(where, f"{path} has folders of images; expected train and val in it, with a folder per "
                          "class", f"Move a fifth of each class to {path}/val/CLASS, the rest to {path}/train/CLASS")
        marks = dict.fromkeys(f"{entry.marks[0]} ({entry.name})" for entry in formats.FORMATS if entry.marks)
        raise OpError(where, f"{path} has the layout of no data set; expected one of {', '.join(marks)} in it",
                      "See docs/fine_tuning.md for the layouts")
    fitting = [entry for entry in found if entry in entries]
    if not fitting:
        raise OpError(where, f"{path} has the layout {found[0].name}, which is for {found[0].task}; expected one for "
                      f"{task}", f"Run: gluonops train {path}")
    if len(fitting) > 1 and fitting[0].name == fitting[-1].name:   # RecordIO has both kinds of labels
        has_boxes = len(Records(path, "train", where).packed[0]) > 1
        return fitting[0 if has_boxes else -1]
    return fitting[0]


def _has_layout(entry: formats.Format, path: str) -> bool:
    if os.path.isfile(path):
        return bool(entry.ending) and path.endswith(entry.ending)
    return any(glob.glob(os.path.join(glob.escape(path), mark)) for mark in entry.marks)


def _load(task: str, name: str, root: Optional[Path], split: str, options: dict) -> gluon.data.Dataset:
    where = f"data.{task}"
    entry = next((entry for entry in formats.FORMATS if (entry.task, entry.name) == (task, name)), None)
    if entry is None:
        raise OpError(where, f"there is no data set {name!r}; there are {', '.join(format_names(task))}",
                      "Choose one of them")
    Attr("split", Choice(*SPLITS), None).parse(where, split)
    if not entry.rooted and root is not None:
        raise OpError(where, f"{name} got root {os.fspath(root)!r}; they are part of scikit-learn",
                      "Leave root out, or choose another data set")
    if not entry.classes and "classes" in options:
        raise OpError(where, f"{name} got classes; they are always the ten digits", "Leave classes out")
    if not entry.rooted:
        return _reader(entry)(split=split, **options)
    if root is None:
        raise OpError(where, f"{name} needs a root, the folder of the data set", "Pass root")
    return _reader(entry)(os.path.expanduser(os.fspath(root)), split, **options)


def _reader(entry: formats.Format) -> Callable:
    module, name = entry.reader.split(":")
    return getattr(importlib.import_module(f"{__package__}.datasets.{module}"), name)
