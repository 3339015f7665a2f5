"""Data sets for detection, by name: ``detection("voc", root)``."""
import contextlib
import hashlib
import os

import numpy as np
from mxnet import gluon

from ..core.errors import OpError
from .images import image_size, read_image

__all__ = ["COLUMNS", "LEAST", "Detection", "detection", "named", "names_of"]

COLUMNS = 6   # of a label: xmin, ymin, xmax, ymax, class, difficult
LEAST = 1e-6  # of a box's width and height, as shares of the image's: float32 still tells its edges apart
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
    claims : sequence of tuple, optional
        For each what its label says of the image's size, and where: (width, height), and a name for errors. An image
        of another size is refused once it is looked at: its boxes were drawn in another.

    Attributes
    ----------
    classes : tuple of str
    """

    def __init__(self, where, classes, paths=(), labels=(), claims=None):
        self.where, self.classes = where, tuple(classes)
        self._paths, self._labels, self._claims = paths, labels, claims

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
        image = read_image(self._paths[index], self.where)
        self._compare(index, image.shape[1::-1])
        return image

    def size(self, index):
        """(width, height) of the image; only the head of its file is decoded."""
        size = image_size(self._paths[index], self.where)
        self._compare(index, size)
        return size

    def name(self, index):
        """What an error calls the image."""
        return self._paths[index]

    def _compare(self, index, size):
        if self._claims is not None and tuple(self._claims[index][0]) != tuple(size):
            (width, height), label = self._claims[index]
            raise OpError(self.where, f"{self._paths[index]} is {size[0]} x {size[1]}; expected {width:g} x "
                          f"{height:g}, as {label} says", "Mend the label, or put the image there that it was made for")

    def fingerprint(self):
        """A hash of the labels and the images' names, hexadecimal: another one where the data set has changed."""
        total = hashlib.sha256()
        for path in self._paths:
            total.update(os.fsencode(os.path.basename(path)) + b"\0")
        for label in self._labels:
            numbers = np.asarray(label, "float64").ravel()
            total.update(np.int64(len(numbers)).tobytes() + numbers.tobytes())
        return total.hexdigest()[:16]


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
        if "classes" in options:
            raise OpError("data.detection", "digits got classes; they are always the ten digits", "Leave classes out")
        return makers[name](split=split, **options)
    if root is None:
        raise OpError("data.detection", f"{name} needs a root, the folder it is in", "Pass root")
    return makers[name](os.path.expanduser(os.fspath(root)), split, **options)


@contextlib.contextmanager
def named(dataset, index):
    """An error in the ``with`` block says which image of the data set it is about."""
    try:
        yield
    except OpError as error:
        try:
            name = dataset.name(index)
        except AttributeError:   # gluoncv's and one in memory have none
            name = f"image {index}"
        raise OpError(error.where, f"{name}: {error.what}", error.remedy) from error


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
