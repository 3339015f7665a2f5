"""Data sets that are derived from others: of some classes, kept in memory, or repeated. Also anchors for them."""
from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

import mxnet as mx
import numpy as np
from mxnet import gluon

from .. import darknet, data
from ..contract.errors import OpError
from ..data import DetectionDataset
from ..data.anchors import box_sizes
from ..data.base import Described, around, listed
from ..data.repairs import Repairs
from ..runtime.near import perhaps

__all__ = ["Cached", "ClassSubset", "DetectionSubset", "OF_DIGITS", "Repeated", "classification_batch",
           "default_augment", "describe_images", "find_anchors"]


OF_DIGITS = ("digits", "mnist")   # formats whose colours and orientation mean something
STRIDE = 32           # pixels of a cell of YOLOv2
MAX_ANCHORS = 5       # YOLOv2 has so many
WELL_FITTING = 0.65   # mean IoU of boxes and their anchors; VOC's boxes and its five published ones: 0.61


def find_anchors(words: Sequence[str], dataset: data.DetectionDataset, size: int, seed: int = 0,
                 cfg: str | os.PathLike | None = None) -> list | str | None:
    """The anchors that ``--anchors`` means.

    Parameters
    ----------
    words : sequence of str
        ``auto`` runs k-means over the boxes of the data set. There are as many anchors as the cfg has. Without a cfg,
        it is the smallest number from 1 to 5 with which the anchors have a mean IoU of 0.65 with the boxes, because
        several anchors of nearly one size would share the examples of that size. ``voc`` and ``coco`` are the published
        anchors, and ``cfg`` means those of the cfg. The words may also be pairs, such as ``1.3,1.7 3.2,4.0``.
    dataset : gluonops.data.DetectionDataset
        The data set whose boxes count.
    size : int
        Size of the net's input.
    seed : int, default 0
        Seed of k-means.
    cfg : str or os.PathLike, optional
        A Darknet cfg, whose number of anchors and size of cells count.

    Returns
    -------
    list, str or None
        Pairs of a width and a height in cells, the name of published ones, or None for those of the cfg.

    Raises
    ------
    OpError
        The words are none of these.
    """
    words = list(words)
    if words == ["cfg"] and cfg:
        return None
    if words == ["auto"]:
        maps = darknet.load(cfg)._detections if cfg else []   # a net without any is refused when it is made
        if not maps:
            return _fewest_anchors(dataset, size, seed)
        head = maps[0]
        return data.anchors_of(dataset, len(head.anchors), size, head.stride, seed)[0].round(4).tolist()
    if words in (["voc"], ["coco"]) and not cfg:
        return words[0]
    try:
        return [[float(number) for number in pair.split(",")] for pair in words]
    except ValueError as error:
        raise OpError("train.find_anchors", f"--anchors has {error}", "Write pairs, for instance 1.3,1.7 3.2,4.0, or "
                      f"auto{', or cfg' if cfg else ', voc or coco'}") from error


def _fewest_anchors(dataset, size, seed):
    """The smallest number of anchors that fit the boxes well, at most those of YOLOv2."""
    sizes = box_sizes(dataset, size) / STRIDE
    for count in range(1, MAX_ANCHORS + 1):
        anchors, overlap = data.kmeans(sizes, count, seed)
        if overlap >= WELL_FITTING:
            break
    return anchors.round(4).tolist()


def default_augment(name: str, flip: float = 0) -> data.Augment:
    """The augmentation for a format of data sets. It is Darknet's, but digits keep their colours and move less.

    Parameters
    ----------
    name : str
        Name of a format of data sets.
    flip : float, default 0
        Probability of mirroring an image.
    """
    if name in OF_DIGITS:
        return data.Augment(jitter=0.1, scale=(0.9, 1.15), flip=flip, hue=0, saturation=1, exposure=1)
    return data.Augment(flip=flip)


def classification_batch(items: Sequence[tuple]) -> tuple[mx.nd.NDArray, mx.nd.NDArray]:
    """The ``batchify_fn`` of a DataLoader. It returns images (B, C, H, W) from 0 to 1, and labels (B,)."""
    images, labels = zip(*items)
    return mx.nd.array(np.stack(images)), mx.nd.array(np.array(labels, "float32"))


def describe_images(training: Repeated, held_out: gluon.data.Dataset,
                    choosing: Sequence | None = None) -> dict[str, object]:
    """Say how many pictures, boxes and classes a run learns from, for :meth:`gluonops.train.Run.introduce`.

    ``choosing`` are the images that choose the best epoch, if those held out do not.
    """
    images, classes = training.dataset, training.dataset.classes
    times = f", {training.times} times in an epoch" if training.times > 1 else ""
    choice = "" if choosing is None else f"; {len(choosing)} to choose the best epoch"
    facts = {"pictures": f"{len(images)} to learn from{times}{choice}; {len(held_out)} held out"}
    if hasattr(images, "label"):
        facts["boxes"] = sum(len(images.label(i)) for i in range(len(images)))
    facts["classes"] = f"{len(classes)}: {listed(classes)}"
    return facts


class Derived(Described, gluon.data.Dataset):
    """A data set that is derived from another one. This base class has the same images in the same order."""

    def __init__(self, dataset: gluon.data.Dataset):
        self.dataset = dataset

    def __len__(self):
        return len(self.dataset)

    def _source_index(self, index: int) -> int:
        """The index of an image in the other data set."""
        return index

    @property
    def repairs(self) -> Repairs:
        """What was changed or left out while the labels were read."""
        return self.dataset.repairs

    @property
    def held_out(self) -> tuple[str, ...] | None:
        """The names of the pictures that are held out, if the data set has no part for validation."""
        return self.dataset.held_out

    def fingerprint(self) -> str:
        """A hash that changes if the data does."""
        return self.dataset.fingerprint()

    def size(self, index: int) -> tuple[int, int]:
        """(width, height) of an image in a file."""
        return self.dataset.size(self._source_index(index))

    def name(self, index: int) -> str:
        """What an error calls an image in a file."""
        return self.dataset.name(self._source_index(index))


class ClassSubset(Derived):
    """The images of some classes, labelled by their index among them.

    Parameters
    ----------
    dataset : gluon.data.Dataset
        A data set for classification.
    classes : sequence of str
        Names of the classes, in the order of their class ids.
    chosen : numpy.ndarray, optional
        Which of the images of these classes to take, bool (N,). By default all of them.
    """

    def __init__(self, dataset: gluon.data.Dataset, classes: Sequence[str], chosen: np.ndarray | None = None):
        super().__init__(dataset)
        self.classes, self._numbers = classes, _numbers(classes, dataset)
        self.indices = np.flatnonzero(self._numbers[dataset.labels] >= 0)
        if chosen is not None:
            self.indices = self.indices[chosen]
        self.labels = self._numbers[dataset.labels[self.indices]]

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, index):
        for each in around(index, len(self)):
            source = self._source_index(each)
            image, label = self.dataset[source]
            if label == self.dataset.labels[source]:   # else one of another class took the place of a damaged one
                return image, self.labels[each]
        raise OpError("train.ClassSubset", "no image of these classes can be decoded", "Replace the image files")

    def _source_index(self, index):
        return int(self.indices[index])

    def fingerprint(self) -> str:
        """A hash of the selected images and their labels; it changes if the data does."""
        return hashlib.sha256(np.stack([self.indices, self.labels]).astype("int64").tobytes()).hexdigest()[:16]


class DetectionSubset(Derived):
    """A data set for detection with the objects of some classes. An image without any of them is background.

    Parameters
    ----------
    dataset : gluonops.data.DetectionDataset
        The data set with all classes.
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
    """The index of each class of a data set among those that are chosen, or -1."""
    return np.array([classes.index(name) if name in classes else -1 for name in dataset.classes])


def check_classes(chosen: Sequence[str], existing: Sequence[str], where: str) -> None:
    """Raise an OpError for a class that a data set does not have."""
    for name in chosen:
        if name not in existing:
            raise OpError(where, f"there is no class {name!r}; there are {', '.join(existing)}",
                          perhaps(name, existing) or "Choose other --classes")


class Cached(Derived):
    """Keeps the items of a data set in memory after the first read, for items that are costly to make.

    Boxes and sizes are taken from the kept items. So an item is made once, whichever of these is asked for first.

    Parameters
    ----------
    dataset : gluonops.data.DetectionDataset
        The data set whose items are kept.
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
        """(width, height) of an item."""
        return self[index][0].shape[1::-1]


class Repeated(Derived):
    """Repeats a data set several times. Otherwise an epoch of few images would be too short to validate after it.

    In :class:`gluonops.data.Augmented` each repetition has random numbers of its own.

    Parameters
    ----------
    dataset : gluon.data.Dataset
        The data set.
    times : int
        How often each image occurs in an epoch, at least 1.
    """

    def __init__(self, dataset: gluon.data.Dataset, times: int):
        super().__init__(dataset)
        self.times = times

    def __len__(self):
        return self.times * len(self.dataset)

    def __getitem__(self, index):
        return self.dataset[self._source_index(index)]

    def _source_index(self, index):
        return index % len(self.dataset)
