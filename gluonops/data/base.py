"""The base classes of data sets: items, errors, and class names. They do not depend on a format."""
import collections
import contextlib
import copy
import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import Optional, Union

import numpy as np
from mxnet import gluon

from ..contract.errors import OpError, naming, plural
from ..io.files import read_lines
from .images import UnreadableError, image_size, read_image
from .labels import COLUMNS
from .repairs import Repairs

Classes = Union[Sequence[str], str, os.PathLike, None]   # names, a file with one per line, or the data set's own
NAMED = 8   # classes in a line
SPLITS = ("train", "val")
# The names of a list or folder of each split; of several that exist the first counts.
ALIASES = {"train": ("train", "training"), "val": ("val", "valid", "validation", "test", "testing")}
SHARE = 5   # one of so many pictures is held out where a data set has no part for it
HOLD_OUT_SEED = 0


class Described:
    """A data set whose ``repr`` shows how many images it has, and its classes."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} images, {len(self.classes)} classes: {listed(self.classes)})"


class LabelledImages(Described, gluon.data.Dataset):
    """Images in files, and what data sets of both kinds share. A subclass has items, with labels.

    The arguments, and the attributes that are not described here, are those of :class:`DetectionDataset`.

    Attributes
    ----------
    rest : LabelledImages or None
        If a fifth of a data set is held out, the other split. Otherwise None.
    held_out : tuple of str or None
        If a fifth of a data set is held out, the names of the pictures that are held out. Otherwise None.
    """

    rest, held_out = None, None
    _columns = ("_paths", "_labels", "_sizes")   # attributes that have an entry for each image

    def __init__(self, where: str, classes: Sequence[str], paths: Sequence[str] = (), labels: Sequence = (),
                 sizes: Optional[Sequence[tuple]] = None, repairs: Optional[Repairs] = None):
        self.where, self.classes, self._paths, self._labels = where, tuple(classes), paths, labels
        self._sizes, self.repairs = sizes, repairs or Repairs(where)

    def __len__(self) -> int:
        return len(self._labels)

    def image(self, index: int) -> np.ndarray:
        """The image without its label, uint8 (height, width, 3)."""
        image = read_image(self._paths[index], self.where)
        self._check_size(index, image.shape[1::-1])
        return image

    def readable(self, index: int) -> tuple[int, np.ndarray]:
        """(index, image) of the first image that can be decoded, counted from an index on. The search wraps around.

        A header says nothing about the pixels behind it, and to decode all images beforehand would take as long as an
        epoch. So a damaged image is found when its turn comes, and is counted in ``repairs``. An OpError is raised if
        the repairs are strict, or more than 1 in 10 images cannot be read.
        """
        for current in around(index, len(self)):
            try:
                return current, self.image(current)
            except UnreadableError as error:
                self.repairs.damaged(error, len(self) + len(self.rest or ()))
        raise AssertionError("repairs.damaged() raises an error where no image can be decoded")

    def size(self, index: int) -> tuple[int, int]:
        """(width, height) of the image. Only the header of its file is decoded."""
        return image_size(self._paths[index], self.where) if self._sizes is None else self._sizes[index]

    def name(self, index: int) -> str:
        """The name of the image in errors."""
        return self._paths[index] if self._paths else f"image {index}"

    def _check_size(self, index, size):
        if self._sizes is not None and tuple(size) != self._sizes[index]:
            raise OpError(self.where, "{} is {} x {}; expected {} x {}, as when its label was read".format(
                self.name(index), *size, *self._sizes[index]), "The file has changed: create the data set again")

    def _keep(self, indices):
        """Keep the images with these indices, and leave the others out."""
        for column in self._columns:
            values = getattr(self, column)
            if values is not None and len(values):
                setattr(self, column, [values[i] for i in indices])

    def _hold_out(self, split: str, root: str, hold_out: Union[bool, Sequence[str]]) -> None:
        """Become a split of this data set, which has no part for validation. ``rest`` becomes the other split.

        ``hold_out`` are the names of the pictures to hold out, as ``held_out`` has them. True holds out a fifth of each
        class. It is drawn with a fixed seed, so it is the same for the same pictures. False holds out nothing: all
        pictures are for training.
        """
        if hold_out is False or hold_out is None:
            if split == "val":
                raise OpError(self.where, f"{root} has no part for validation: no {', '.join(ALIASES['val'])}",
                              "Add such a part, or pass hold_out=True, which holds out a fifth of the pictures")
            return
        if len(self) < 2:
            raise OpError(self.where, f"{root} has {plural(len(self), 'picture')} and no part for validation; expected "
                          "at least two pictures, of which one is held out", "Add pictures")
        own = [os.path.relpath(self.name(i), root) for i in range(len(self))]
        chosen = fifth(self._groups(), own) if hold_out is True else _listed_ones(own, hold_out, self.where)
        is_mine = chosen if split == "val" else ~chosen
        other = copy.copy(self)
        self.held_out = other.held_out = tuple(name for name, is_chosen in zip(own, chosen) if is_chosen)
        self._keep(np.flatnonzero(is_mine))
        other._keep(np.flatnonzero(~is_mine))
        self.rest = other

    def _groups(self):
        """The group of each image: its class. A fifth of each group is held out."""
        return self._labels


class DetectionDataset(LabelledImages):
    """Images with boxes, in gluoncv's convention. Index it, or pass it to :class:`gluonops.data.Augmented`.

    An item is (image, label), two NumPy arrays. The image is uint8 (height, width, 3), RGB, upright as EXIF says. The
    label is float32 (objects, 6): xmin, ymin, xmax, ymax in pixels of the upright image, the class id, and 1 if the
    object is difficult, else 0. Where an image cannot be decoded, the next one takes its place, with its label.

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
    sizes : sequence of tuple, optional
        The (width, height) of each image, upright. By default its file is asked.
    repairs : gluonops.data.repairs.Repairs, optional
        What was changed or left out while the labels were read.

    Attributes
    ----------
    classes : tuple of str
        Names of the classes.
    repairs : gluonops.data.repairs.Repairs
    """

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        index, image = self.readable(index)
        return image, self.label(index)

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

    def _groups(self):
        """The group of each image: its rarest class, or -1 if it has no object."""
        classes = [[int(row[4]) for row in label] for label in self._labels]
        counts = collections.Counter(number for each in classes for number in each)
        return [min(each, key=lambda number: (counts[number], number), default=-1) for each in classes]


class ClassificationDataset(LabelledImages):
    """Images with one class each. Its items are those of :func:`gluonops.data.classification`."""

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        index, image = self.readable(index)
        return image, int(self._labels[index])

    @property
    def labels(self) -> np.ndarray:
        """The class id of each image, int32 (N,)."""
        return np.asarray(self._labels, "int32")


def fifth(groups: Sequence[int], names: Sequence[str]) -> np.ndarray:
    """Which pictures are held out, bool (pictures,): a fifth of each group.

    Of a group with two to four pictures, one is held out. The choice depends on the names and the groups alone.
    """
    chosen = np.zeros(len(names), bool)
    rng = np.random.RandomState(HOLD_OUT_SEED)
    for group in sorted(set(map(int, groups))):
        members = sorted((name, i) for i, name in enumerate(names) if groups[i] == group)
        count = max(1, round(len(members) / SHARE)) if len(members) > 1 else 0
        for place in rng.permutation(len(members))[:count]:
            chosen[members[place][1]] = True
    if not chosen.any():   # a picture of each class
        chosen[rng.randint(len(names))] = True
    return chosen


def _listed_ones(own, names, where):
    """Which pictures a list holds out."""
    unknown = sorted(set(names) - set(own))
    if unknown:
        raise OpError(where, f"there is no picture {unknown[0]}, which is to be held out; expected names such as "
                      f"{own[0]}", "Correct the list, or leave it out to hold out a fifth of the pictures")
    return np.isin(own, list(names))


def listed(names: Sequence[str], most: int = NAMED) -> str:
    """The first names as a text, as many as fit in a line."""
    return ", ".join([*names[:most], *(["..."] if len(names) > most else [])])


def around(index: int, count: int) -> Iterator[int]:
    """The indices below ``count``, beginning with ``index`` and wrapping around.

    An IndexError is raised if there is no such index.
    """
    first = range(count)[index]
    return ((first + further) % count for further in range(count))


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

    ``classes`` are the names, or the path of the file. An OpError is raised if the file cannot be read, or there are no
    names, or two equal names.
    """
    origin = ""
    if isinstance(classes, (str, os.PathLike)):
        origin = f" in {os.fspath(classes)}"
        lines = read_lines(where, classes, "Pass a sequence of names, or a text file with one per line",
                           "the class names in")
        classes = [line.strip() for line in lines if line.strip()]
    names = tuple(classes)
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise OpError(where, f"classes{origin} are {names!r}, with {twice!r} twice; expected one name or more, all "
                      "different", "Rename one of the two, or leave one out")
    if not names or not all(isinstance(name, str) and name for name in names):
        raise OpError(where, f"classes{origin} are {names!r}; expected one name or more, all different",
                      "Pass a sequence of names, or a text file with one per line")
    return names
