"""Data sets that are made of another one: some of its classes, kept in memory, or several times over."""
from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from mxnet import gluon

from ..core.errors import OpError
from ..data import DetectionDataset
from ..data.base import described
from ..runtime.near import perhaps

__all__ = ["Cached", "ClassSubset", "DetectionSubset", "Repeated"]


class Derived(gluon.data.Dataset):
    """A data set that is made of another one; here with the same images in the same order."""

    def __init__(self, dataset: gluon.data.Dataset):
        self.dataset = dataset

    def __len__(self):
        return len(self.dataset)

    def __repr__(self) -> str:
        return described(self)

    def _place(self, index: int) -> int:
        """Where an image is in the other data set."""
        return index

    def fingerprint(self) -> str:
        """A hash that changes if the data does."""
        return self.dataset.fingerprint()

    def size(self, index: int) -> tuple[int, int]:
        """(width, height) of an image in a file."""
        return self.dataset.size(self._place(index))

    def name(self, index: int) -> str:
        """What an error calls an image in a file."""
        return self.dataset.name(self._place(index))


class ClassSubset(Derived):
    """The images of some classes, labelled by their place among them.

    Parameters
    ----------
    dataset : gluon.data.Dataset
        For classification.
    classes : sequence of str
    chosen : numpy.ndarray, optional
        Which of the images of these classes to take: bool (N,).
    """

    def __init__(self, dataset: gluon.data.Dataset, classes: Sequence[str], chosen: np.ndarray | None = None):
        super().__init__(dataset)
        self.classes, numbers = classes, _numbers(classes, dataset)
        self.indices = np.flatnonzero(numbers[dataset.labels] >= 0)
        if chosen is not None:
            self.indices = self.indices[chosen]
        self.labels = numbers[dataset.labels[self.indices]]

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, index):
        return self.dataset[self._place(index)][0], self.labels[index]

    def _place(self, index):
        return int(self.indices[index])

    def fingerprint(self) -> str:
        """A hash of the selected images and their labels; it changes if the data does."""
        return hashlib.sha256(np.stack([self.indices, self.labels]).astype("int64").tobytes()).hexdigest()[:16]


class DetectionSubset(Derived):
    """A data set for detection with the objects of some classes. An image without any of them is one of background.

    Parameters
    ----------
    dataset : gluonops.data.DetectionDataset
    classes : sequence of str
        Names of the classes, in the order of their class ids.

    Raises
    ------
    OpError
        The data set has no such class.
    """

    def __init__(self, dataset: DetectionDataset, classes: Sequence[str]):
        check_classes(classes, dataset.classes, "train.DetectionSubset")
        super().__init__(dataset)
        self.classes, self._numbers = tuple(classes), _numbers(classes, dataset)

    def __getitem__(self, index):
        image, label = self.dataset[index]
        return image, self._chosen(label)

    def label(self, index: int) -> np.ndarray:
        """The boxes of the classes in an image."""
        return self._chosen(self.dataset.label(index))

    def fingerprint(self) -> str:
        """A hash of the data set and the classes."""
        text = "\0".join([self.dataset.fingerprint(), *self.classes])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _chosen(self, label):
        numbers = self._numbers[label[:, 4].astype(int)]
        label = label[numbers >= 0]
        label[:, 4] = numbers[numbers >= 0]
        return label


def _numbers(classes: Sequence[str], dataset: gluon.data.Dataset) -> np.ndarray:
    """The place of each class of a data set among those that are chosen, or -1."""
    return np.array([classes.index(name) if name in classes else -1 for name in dataset.classes])


def check_classes(chosen: Sequence[str], known: Sequence[str], where: str) -> None:
    """Raise an OpError for a class that a data set does not have."""
    for name in chosen:
        if name not in known:
            raise OpError(where, f"there is no class {name!r}; there are {', '.join(known)}",
                          perhaps(name, known) or "Choose other --classes")


class Cached(Derived):
    """A data set's items, kept in memory after the first read; for items that are costly to make.

    Boxes and sizes are those of the items. So an item is made once, whatever is asked for first.

    Parameters
    ----------
    dataset : gluonops.data.DetectionDataset
    """

    def __init__(self, dataset: DetectionDataset):
        super().__init__(dataset)
        self.classes, self._items = dataset.classes, {}

    def __getitem__(self, index):
        if index not in self._items:
            self._items[index] = self.dataset[index]
        return self._items[index]

    def label(self, index: int) -> np.ndarray:
        """The boxes of an item."""
        return self[index][1]

    def size(self, index: int) -> tuple[int, int]:
        """(width, height)"""
        return self[index][0].shape[1::-1]


class Repeated(Derived):
    """A data set, several times over: an epoch of few images is over too soon to validate after each.

    In :class:`gluonops.data.Augmented` each of the times has random numbers of its own.

    Parameters
    ----------
    dataset : gluon.data.Dataset
    times : int
        At least 1.
    """

    def __init__(self, dataset: gluon.data.Dataset, times: int):
        super().__init__(dataset)
        self.times = times

    def __len__(self):
        return self.times * len(self.dataset)

    def __getitem__(self, index):
        return self.dataset[self._place(index)]

    def _place(self, index):
        return index % len(self.dataset)
