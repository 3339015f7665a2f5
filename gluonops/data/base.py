"""The base classes of data sets: items, errors, and class names. They do not depend on a format."""
import contextlib
import hashlib
import os
from collections.abc import Sequence
from typing import Optional, Union

import numpy as np
from mxnet import gluon

from ..core.errors import OpError, naming
from ..core.files import read_lines
from .images import image_size, read_image

Classes = Union[Sequence[str], str, os.PathLike, None]   # names, a file with one per line, or the data set's own
COLUMNS = 6   # a label has xmin, ymin, xmax, ymax, class id, difficult
MIN_BOX_SIZE = 1e-6   # smallest width and height, as a fraction of the image's; float32 still represents it
NAMED = 8   # classes in a line
SPLITS = ("train", "val")
ALIASES = {"train": ("train",), "val": ("val", "valid", "test")}   # of a list or folder


class Described:
    """A data set that is printed as its sizes and classes."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} images, {len(self.classes)} classes: {listed(self.classes)})"


class LabelledImages(Described, gluon.data.Dataset):
    """Images in files, and what data sets of both kinds share. A subclass has items, with labels.

    The arguments are those of :class:`DetectionDataset`.
    """

    def __init__(self, where: str, classes: Sequence[str], paths: Sequence[str] = (), labels: Sequence = (),
                 expected_sizes: Optional[Sequence[tuple]] = None):
        self.where, self.classes, self._paths, self._labels = where, tuple(classes), paths, labels
        self._expected_sizes = expected_sizes

    def __len__(self) -> int:
        return len(self._labels)

    def image(self, index: int) -> np.ndarray:
        """The image without its label, uint8 (height, width, 3)."""
        image = read_image(self._paths[index], self.where)
        self._check_size(index, image.shape[1::-1])
        return image

    def size(self, index: int) -> tuple[int, int]:
        """(width, height) of the image. Only the header of its file is decoded."""
        size = image_size(self._paths[index], self.where)
        self._check_size(index, size)
        return size

    def name(self, index: int) -> str:
        """The name of the image in errors."""
        return self._paths[index] if self._paths else f"image {index}"

    def _check_size(self, index, size):
        if self._expected_sizes is None:
            return
        (width, height), label = self._expected_sizes[index]
        if (width, height) != tuple(size):
            raise OpError(self.where, f"{self._paths[index]} is {size[0]} x {size[1]}; expected {width:g} x "
                          f"{height:g}, as {label} says", "Correct the label, or replace the image by the labelled one")


class DetectionDataset(LabelledImages):
    """Images with boxes, in gluoncv's convention. Index it, or pass it to :class:`gluonops.data.Augmented`.

    An item is (image, label), two NumPy arrays. The image is uint8 (height, width, 3), RGB, upright as EXIF says. The
    label is float32 (objects, 6): xmin, ymin, xmax, ymax in pixels of the upright image, the class id, and 1 if the
    object is difficult, else 0.

    Parameters
    ----------
    where : str
        Name of the caller, for errors.
    classes : sequence of str
        Names of the classes, in the order of their class ids.
    paths : sequence of str
        The image files.
    labels : sequence of numpy.ndarray
        The label of each image.
    expected_sizes : sequence of tuple, optional
        For each image ((width, height), name): the size that its label states, and the label's name for errors.
        Reading an image of another size is an error, because its boxes do not fit.

    Attributes
    ----------
    classes : tuple of str
        Names of the classes.
    """

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        label = self.label(index)
        return self.image(index), label

    def label(self, index: int) -> np.ndarray:
        """The boxes of an image, float32 (objects, 6). The image is not decoded."""
        return np.array(self._labels[index], "float32").reshape(-1, COLUMNS)

    def fingerprint(self) -> str:
        """A hexadecimal hash of the labels and of the images' file names. It changes if the data set changes."""
        digest = hashlib.sha256()
        for path in self._paths:
            digest.update(os.fsencode(os.path.basename(path)) + b"\0")
        for label in self._labels:
            numbers = np.asarray(label, "float64").ravel()
            digest.update(np.int64(len(numbers)).tobytes() + numbers.tobytes())
        return digest.hexdigest()[:16]


class FractionDataset(DetectionDataset):
    """A data set whose labels hold fractions of the image's width and height. Boxes are clipped to the image.

    A label is (objects, 5 or more): class id, xmin, ymin, xmax, ymax.
    """

    def __getitem__(self, index):
        image = self.image(index)
        return image, self._in_pixels(index, image.shape[1::-1])

    def label(self, index: int) -> np.ndarray:
        """The boxes of an image, float32 (objects, 6). Only the header of the image is decoded, for its size."""
        return self._in_pixels(index, self.size(index))

    def _in_pixels(self, index, size):
        label = self._labels[index]
        out = np.zeros((len(label), COLUMNS), "float32")
        out[:, :4] = np.clip(self._corners(label), 0, 1) * np.tile(size, 2)
        out[:, 4] = label[:, 0]
        return out

    def _corners(self, label):
        """xmin, ymin, xmax, ymax of the rows of a label."""
        return label[:, 1:5]


class ClassificationDataset(LabelledImages):
    """Images with one class each, with the items of :func:`gluonops.data.classification`; ``labels`` are class ids."""

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return self.image(index), int(self._labels[index])

    @property
    def labels(self) -> np.ndarray:
        """The class id of each image, int32 (N,)."""
        return np.asarray(self._labels, "int32")


def listed(names: Sequence[str], most: int = NAMED) -> str:
    """The first names, of classes as many as a line has room for."""
    return ", ".join([*names[:most], *(["..."] if len(names) > most else [])])


def about_image(dataset: gluon.data.Dataset, index: int) -> contextlib.AbstractContextManager:
    """Add the name of the image to every OpError in the ``with`` block."""
    try:
        return naming(dataset.name(index))
    except AttributeError:   # gluoncv's data sets and data sets in memory have no names
        return naming(f"image {index}")


def class_words(words: Sequence[str], where: str) -> tuple[str, ...]:
    """What the option ``--classes`` means: names of classes, or a file with one per line."""
    is_file = len(words) == 1 and os.path.isfile(words[0])
    return class_names(words[0] if is_file else words, where)


def class_names(classes: Union[Sequence[str], str, os.PathLike], where: str) -> tuple[str, ...]:
    """Class names from a sequence, or from a text file with one name per line.

    ``classes``: the names, or the path of the file. An OpError if the file cannot be read, or there are no names, or
    two equal names.
    """
    origin = ""
    if isinstance(classes, (str, os.PathLike)):
        origin = f" in {os.fspath(classes)}"
        lines = read_lines(where, classes, "Pass a sequence of names, or a text file with one per line",
                           "the class names in")
        classes = [line.strip() for line in lines if line.strip()]
    names = tuple(classes)
    if not names or len(set(names)) != len(names) or not all(isinstance(name, str) and name for name in names):
        raise OpError(where, f"classes{origin} are {names!r}; expected one name or more, all different",
                      "Pass a sequence of names, or a text file with one per line")
    return names
