"""What every data set for detection is: its items, its errors, and the names of its classes. It knows no format."""
import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import Optional, Union

import numpy as np
from mxnet import gluon

from ..core.errors import OpError
from .images import image_size, read_image

__all__ = ["COLUMNS", "MIN_BOX_SIZE", "SPLITS", "Classes", "Detection", "about_image", "class_names"]

Classes = Union[Sequence[str], str, os.PathLike, None]   # names, a file with one per line, or the data set's own
COLUMNS = 6   # of a label: xmin, ymin, xmax, ymax, class, difficult
MIN_BOX_SIZE = 1e-6  # of a box's width and height, as shares of the image's: float32 still tells its edges apart
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
    expected_sizes : sequence of tuple, optional
        The size of each image according to its label: (width, height), and the label's name for errors. An image of
        another size is refused when it is read, because its boxes do not fit it.

    Attributes
    ----------
    classes : tuple of str
    """

    def __init__(self, where: str, classes: Sequence[str], paths: Sequence[str] = (),
                 labels: Sequence[np.ndarray] = (), expected_sizes: Optional[Sequence[tuple]] = None):
        self.where, self.classes = where, tuple(classes)
        self._paths, self._labels, self._expected_sizes = paths, labels, expected_sizes

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        label = self.label(index)
        return self.image(index), label

    def label(self, index: int) -> np.ndarray:
        """The boxes alone, float32 (objects, 6); no image is decoded for them."""
        return np.array(self._labels[index], "float32").reshape(-1, COLUMNS)

    def image(self, index: int) -> np.ndarray:
        """The image alone, uint8 (height, width, 3)."""
        image = read_image(self._paths[index], self.where)
        self._check_size(index, image.shape[1::-1])
        return image

    def size(self, index: int) -> tuple[int, int]:
        """(width, height) of the image; only the head of its file is decoded."""
        size = image_size(self._paths[index], self.where)
        self._check_size(index, size)
        return size

    def name(self, index: int) -> str:
        """What an error calls the image."""
        return self._paths[index]

    def _check_size(self, index, size):
        if self._expected_sizes is None:
            return
        (width, height), label = self._expected_sizes[index]
        if (width, height) != tuple(size):
            raise OpError(self.where, f"{self._paths[index]} is {size[0]} x {size[1]}; expected {width:g} x "
                          f"{height:g}, as {label} says", "Mend the label, or put the image there that it was made for")

    def fingerprint(self) -> str:
        """A hash of the labels and the images' names, hexadecimal: another one where the data set has changed."""
        total = hashlib.sha256()
        for path in self._paths:
            total.update(os.fsencode(os.path.basename(path)) + b"\0")
        for label in self._labels:
            numbers = np.asarray(label, "float64").ravel()
            total.update(np.int64(len(numbers)).tobytes() + numbers.tobytes())
        return total.hexdigest()[:16]


@contextlib.contextmanager
def about_image(dataset: gluon.data.Dataset, index: int) -> Iterator[None]:
    """An error in the ``with`` block says which image of the data set it is about."""
    try:
        yield
    except OpError as error:
        try:
            name = dataset.name(index)
        except AttributeError:   # gluoncv's and one in memory have none
            name = f"image {index}"
        raise OpError(error.where, f"{name}: {error.what}", error.remedy) from error


def class_names(classes: Union[Sequence[str], str, os.PathLike], where: str) -> tuple[str, ...]:
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
