"""Data sets by name: ``detection("voc", root)``, ``classification("folder", root)``."""
import importlib
import os
from typing import Callable, Optional, Union

from mxnet import gluon

from ..core.errors import OpError
from . import formats
from .base import SPLITS, DetectionDataset

__all__ = ["classification", "detection", "format_names"]

Path = Union[str, os.PathLike]


def format_names(task: str) -> tuple[str, ...]:
    """The names that :func:`detection` or :func:`classification` takes. The first is the default of the scripts.

    Parameters
    ----------
    task : {"detection", "classification"}
        What the data sets are for.
    """
    return formats.names(task)


def detection(name: str, root: Optional[Path] = None, split: str = "train", **options) -> DetectionDataset:
    """A data set for detection. All labels are checked before the function returns.

    Parameters
    ----------
    name : {"digits", "voc", "coco", "yolo", "rec"}
        Name of the format.

        - ``digits``: scenes composed of scikit-learn's digits, see :class:`gluonops.data.DigitScenes`.
        - ``voc``, ``coco``: folders in the layout of these data sets. gluoncv reads them.
        - ``yolo``: a folder in the layout of Darknet, with a text file per image.
        - ``rec``: MXNet's RecordIO.

        The modules ``voc``, ``coco``, ``yolo`` and ``records`` of :mod:`gluonops.data.datasets` describe the folders.
    root : str or os.PathLike
        Folder of the data set, or for ``rec`` the folder or the .rec file. Not for ``digits``.
    split : {"train", "val"}, default "train"
        Images for training, or held-out images.
    **options
        Options of the data set: ``classes`` (a sequence of names, or a file with one name per line) for all except
        ``digits``; ``size``, ``count``, ``objects``, ``seed`` and ``hard`` for ``digits``; ``splits`` for ``voc``.

    Raises
    ------
    OpError
        There is no such data set, a folder or file is missing, a label is malformed (the message gives its file and
        line), or a package is not installed.
    """
    where = "data.detection"
    entry = _find("detection", name, where)
    _check_split(split, where)
    if not entry.rooted and root is not None:
        raise OpError(where, f"{name} got root {os.fspath(root)!r}; they are part of scikit-learn",
                      "Leave root out, or choose another data set")
    if not entry.classes and "classes" in options:
        raise OpError(where, f"{name} got classes; they are always the ten digits", "Leave classes out")
    if entry.rooted and root is None:
        raise OpError(where, f"{name} needs a root, the folder of the data set", "Pass root")
    return _read(entry, root, split, options)


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
    root : str or os.PathLike
        Folder of the data set, or for ``rec`` the folder or the .rec file. Not for ``digits``.
    split : {"train", "val"}, default "train"
        Images for training, or held-out images.
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
    where = "data.classification"
    entry = _find("classification", name, where)
    _check_split(split, where)
    if entry.rooted and root is None:
        raise OpError(where, f"{name} got no root", "Pass the folder of the data set")
    if not entry.rooted and root is not None:
        raise OpError(where, f"{name} got a root", "Leave root out: digits are part of scikit-learn")
    return _read(entry, root, split, options)


def _find(task: str, name: str, where: str) -> formats.Format:
    try:
        return formats.find(task, name)
    except KeyError:
        raise OpError(where, f"there is no data set {name!r}; there are {', '.join(formats.names(task))}",
                      "Choose one of them") from None


def _check_split(split: str, where: str) -> None:
    if split not in SPLITS:
        raise OpError(where, f"split is {split!r}; expected 'train' or 'val'", "Pass another split")


def _read(entry: formats.Format, root: Optional[Path], split: str, options: dict) -> gluon.data.Dataset:
    reader = _reader(entry)
    if not entry.rooted:
        return reader(split=split, **options)
    return reader(os.path.expanduser(os.fspath(root)), split, **options)


def _reader(entry: formats.Format) -> Callable:
    module, name = entry.reader.split(":")
    return getattr(importlib.import_module(f"{__package__}.datasets.{module}"), name)
