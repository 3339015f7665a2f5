"""The base class of data sets for detection: items, errors, and class names. It does not depend on a format."""
import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import Optional, Union

import numpy as np
from mxnet import gluon

from ..core.errors import OpError
from ..core.files import read_lines
from .images import image_size, read_image

__all__ = ["COLUMNS", "MIN_BOX_SIZE", "SPLITS", "Classes", "DetectionDataset", "about_image", "class_names",
           "class_words"]

Classes = Union[Sequence[str], str, os.PathLike, None]   # names, a file with one per line, or the data set's own
COLUMNS = 6   # a label has xmin, ymin, xmax, ymax, class id, difficult
MIN_BOX_SIZE = 1e-6   # smallest width and height, as a fraction of the image's; float32 still represents it
NAMED = 8   # classes in a line
SPLITS = ("train", "val")


class DetectionDataset(gluon.data.Dataset):
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

    def __init__(self, where: str, classes: Sequence[str], paths: Sequence[str] = (),
                 labels: Sequence[np.ndarray] = (), expected_sizes: Optional[Sequence[tuple]] = None):
        self.where, self.classes = where, tuple(classes)
        self._paths, self._labels, self._expected_sizes = paths, labels, expected_sizes

    def __len__(self) -> int:
        return len(self._labels)

    def __repr__(self) -> str:
        return described(self)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        label = self.label(index)
        return self.image(index), label

    def label(self, index: int) -> np.ndarray:
        """The boxes of an image, float32 (objects, 6). The image is not decoded."""
        return np.array(self._labels[index], "float32").reshape(-1, COLUMNS)

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
        return self._paths[index]

    def _check_size(self, index, size):
        if self._expected_sizes is None:
            return
        (width, height), label = self._expected_sizes[index]
        if (width, height) != tuple(size):
            raise OpError(self.where, f"{self._paths[index]} is {size[0]} x {size[1]}; expected {width:g} x "
                          f"{height:g}, as {label} says", "Correct the label, or replace the image by the labelled one")

    def fingerprint(self) -> str:
        """A hexadecimal hash of the labels and of the images' file names. It changes if the data set changes."""
        digest = hashlib.sha256()
        for path in self._paths:
            digest.update(os.fsencode(os.path.basename(path)) + b"\0")
        for label in self._labels:
            numbers = np.asarray(label, "float64").ravel()
            digest.update(np.int64(len(numbers)).tobytes() + numbers.tobytes())
        return digest.hexdigest()[:16]


def described(dataset: gluon.data.Dataset) -> str:
    """What a data set is printed as."""
    return (f"{type(dataset).__name__}({len(dataset)} images, {len(dataset.classes)} classes: "
            f"{listed(dataset.classes)})")


def listed(classes: Sequence[str]) -> str:
    """The names of the classes, as many as a line has room for."""
    return ", ".join([*classes[:NAMED], *(["..."] if len(classes) > NAMED else [])])


@contextlib.contextmanager
def about_image(dataset: gluon.data.Dataset, index: int) -> Iterator[None]:
    """Add the name of the image to every OpError in the ``with`` block."""
    try:
        yield
    except OpError as error:
        try:
            name = dataset.name(index)
        except AttributeError:   # gluoncv's data sets and data sets in memory have no names
            name = f"image {index}"
        raise error.about(name) from error


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
