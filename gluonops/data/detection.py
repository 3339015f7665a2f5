"""Data sets for detection, by name: ``detection("voc", root)``."""
import os

import numpy as np
from mxnet import gluon

from ..core.errors import OpError
from .images import image_size, read_image

__all__ = ["COLUMNS", "Detection", "detection", "names_of"]

COLUMNS = 6   # of a label: xmin, ymin, xmax, ymax, class, difficult
SPLITS = ("train", "val")


class Detection(gluon.data.Dataset):
    """Images with boxes, in gluoncv's convention; index it, or feed it to :class:`gluonops.data.Augmented`.

    An item is (image, label): uint8 (height, width, 3) RGB, and float32 (objects, 6) with xmin, ymin, xmax, ymax in
    pixels, the class's number, and 1 where the object is difficult; both are NumPy arrays.

    Parameters
    ----------
    where : str
        Who complains, in errors.
    classes : sequence of str
        Names of the classes, in the order of their numbers.
    paths : sequence of str
        The image files.
    labels : sequence of numpy.ndarray
        The label of each.

    Attributes
    ----------
    classes : tuple of str
    """

    def __init__(self, where, classes, paths=(), labels=()):
        self.where, self.classes = where, tuple(classes)
        self._paths, self._labels = paths, labels

    def __len__(self):
        return len(self._labels)

    def __getitem__(self, index):
        label = self.label(index)
        return self.image(index), label

    def label(self, index):
        """The boxes alone, float32 (objects, 6); no image is decoded for them."""
        return np.array(self._labels[index], "float32").reshape(-1, COLUMNS)

    def image(self, index):
        """The image alone, uint8 (height, width, 3)."""
        return read_image(self._paths[index], self.where)

    def size(self, index):
        """(width, height) of the image; only the head of its file is decoded."""
        return image_size(self._paths[index], self.where)


def detection(name, root=None, split="train", **options):
    """A data set for detection. Labels are checked before it returns.

    Parameters
    ----------
    name : {"digits", "voc", "coco", "yolo", "rec"}
        ``digits``: scenes made of scikit-learn's digits, see :class:`gluonops.data.DigitScenes`. ``voc``, ``coco``:
        the layouts of these data sets, read by gluoncv. ``yolo``: Darknet's, a text file per image. ``rec``: MXNet's
        RecordIO. See :mod:`gluonops.data.voc`, ``.coco``, ``.yolo`` and ``.records`` for the folders.
    root : str or os.PathLike
        Folder of the data set; for ``rec`` the folder or the .rec file. Not for ``digits``.
    split : {"train", "val"}, default "train"
        Images to train on, or held out.
    **options
        Of the data set: ``classes`` (a sequence, or a file with a name per line) for all but ``digits``; ``size``,
        ``count``, ``objects`` and ``seed`` for ``digits``; ``splits`` for ``voc``.

    Returns
    -------
    Detection

    Raises
    ------
    OpError
        No such data set, a folder or file is missing, a label is malformed (with its file and line), or a package is
        not installed.
    """
    from . import coco, records, scenes, voc, yolo
    makers = {"digits": scenes.DigitScenes, "voc": voc.VOC, "coco": coco.COCO, "yolo": yolo.Yolo,
              "rec": records.DetectionRecords}
    if name not in makers:
        raise OpError("data.detection", f"there is no data set {name!r}; there are {', '.join(makers)}",
                      "Choose one of them")
    if split not in SPLITS:
        raise OpError("data.detection", f"split is {split!r}; expected 'train' or 'val'", "Pass another split")
    if name == "digits":
        if root is not None:
            raise OpError("data.detection", f"digits got root {os.fspath(root)!r}; they ship inside scikit-learn",
                          "Leave root out, or choose another data set")
        return makers[name](split=split, **options)
    if root is None:
        raise OpError("data.detection", f"{name} needs a root, the folder it is in", "Pass root")
    return makers[name](os.path.expanduser(os.fspath(root)), split, **options)


def names_of(classes, where):
    """Class names from a sequence, or from a file with one per line."""
    if isinstance(classes, (str, os.PathLike)):
        try:
            with open(classes, encoding="utf-8-sig") as file:
                classes = [line.strip() for line in file if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            raise OpError(where, f"the class names in {os.fspath(classes)} cannot be read: {error}",
                          "Pass a sequence of names, or a text file with one per line") from error
    names = tuple(classes)
    if not names or len(set(names)) != len(names) or not all(isinstance(name, str) and name for name in names):
        raise OpError(where, f"classes are {names!r}; expected one name or more, all different",
                      "Pass a sequence of names, or a text file with one per line")
    return names
