"""Data sets for classification, by name: ``classification("folder", root)``."""
import os

import numpy as np
from mxnet import gluon

from ..core.errors import OpError
from .detection import SPLITS, names_of
from .digits import digits
from .images import EXTENSIONS, image_size, read_image
from .records import ClassificationRecords

__all__ = ["ImageArray", "ImageFolder", "classification"]

LISTS = {"train": ("train",), "val": ("val", "valid", "test")}


class ImageArray(gluon.data.Dataset):
    """Images in memory; items as :func:`classification` says.

    Parameters
    ----------
    images : numpy.ndarray
        uint8, (N, height, width, channels).
    labels : numpy.ndarray
        int, (N,).
    classes : sequence of str
        Names of the classes.
    """

    def __init__(self, images, labels, classes):
        self._images, self.labels, self.classes = images, np.asarray(labels, "int32"), tuple(classes)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self._images[index], int(self.labels[index])


class ImageFolder(gluon.data.Dataset):
    """A folder per class with images in it; items as :func:`classification` says.

    Parameters
    ----------
    root : str
        With a folder ``train`` and ``val`` (or valid, test), and in each a folder per class.
    split : {"train", "val"}
    classes : sequence of str or str, optional
        The classes' folders, or a file with one per line; those of ``train`` in alphabetical order if left out.
    """

    def __init__(self, root, split="train", classes=None):
        where = "data.folder"
        folder, first = _folder(root, split, where), _folder(root, "train", where) if classes is None else None
        self.classes = names_of(_folders(first, where) if classes is None else classes, where)
        found = _folders(folder, where)
        unknown = sorted(set(found) - set(self.classes))
        if unknown:
            raise OpError(where, f"{folder} has the folder {unknown[0]!r}; expected classes only: "
                          f"{', '.join(self.classes)}", "Rename it, or pass classes")
        self._paths = [os.path.join(folder, name, file) for name in self.classes if name in found
                       for file in sorted(os.listdir(os.path.join(folder, name))) if file.lower().endswith(EXTENSIONS)]
        if not self._paths:
            raise OpError(where, f"{folder} has no images ({', '.join(EXTENSIONS)}) in its classes' folders",
                          "Put them there, or pass another root")
        numbers = {name: number for number, name in enumerate(self.classes)}
        self.labels = np.array([numbers[os.path.basename(os.path.dirname(path))] for path in self._paths], "int32")
        self._where = where

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return read_image(self._paths[index], self._where), int(self.labels[index])

    def size(self, index):
        """(width, height) of the image; only the head of its file is decoded."""
        return image_size(self._paths[index], self._where)

    def name(self, index):
        """What an error calls the image."""
        return self._paths[index]


def classification(name, root=None, split="train", **options):
    """A data set for classification. Its items are (image, class): uint8 (height, width, channels) and int.

    It has ``classes``, the names, and ``labels``, the class of every image, int32 (N,). Feed it to
    :class:`gluonops.data.Augmented` and :class:`gluonops.data.Letterboxed`.

    Parameters
    ----------
    name : {"digits", "mnist", "folder", "rec"}
        ``digits``: scikit-learn's. ``mnist``: its four files. ``folder``: :class:`gluonops.data.ImageFolder`. ``rec``:
        MXNet's RecordIO, see :mod:`gluonops.data.records`.
    root : str or os.PathLike
        Folder of the data set; for ``rec`` the folder or the .rec file. Not for ``digits``.
    split : {"train", "val"}, default "train"
        Images to train on, or held out.
    **options
        ``size`` and ``seed``, as :func:`gluonops.data.digits` takes them, for digits and mnist; ``classes`` for folder
        and rec.

    Returns
    -------
    gluon.data.Dataset

    Raises
    ------
    OpError
        No such data set, a folder or file is missing or malformed, or a package is not installed.
    """
    where = "data.classification"
    names = ("digits", "mnist", "folder", "rec")
    if name not in names:
        raise OpError(where, f"there is no data set {name!r}; there are {', '.join(names)}", "Choose one of them")
    if split not in SPLITS:
        raise OpError(where, f"split is {split!r}; expected 'train' or 'val'", "Pass another split")
    if (root is None) != (name == "digits"):
        raise OpError(where, f"{name} got {'no root' if root is None else 'a root'}",
                      "Pass the folder it is in" if root is None else "Leave root out: digits ship inside scikit-learn")
    root = None if root is None else os.path.expanduser(os.fspath(root))
    if name in ("digits", "mnist"):
        images, labels = digits(root, **options)[SPLITS.index(split)]
        images = (images.transpose(0, 2, 3, 1) * 255 + 0.5).astype("uint8")
        return ImageArray(images, labels, [str(digit) for digit in range(10)])
    return (ImageFolder if name == "folder" else ClassificationRecords)(root, split, **options)


def _folder(root, split, where):
    places = [os.path.join(root, name) for name in LISTS[split]]
    for place in places:
        if os.path.isdir(place):
            return place
    raise OpError(where, f"there is no folder {' and no '.join(places)}", "Pass the folder that has train and val")


def _folders(root, where):
    found = sorted(name for name in os.listdir(root) if os.path.isdir(os.path.join(root, name)))
    if not found:
        raise OpError(where, f"{root} has no folders; expected one per class", "Pass another root")
    return found
