"""From a data set to a network's input: items that a DataLoader reads, and the functions that make batches of them.

    train = data.Augmented(data.detection("voc", root), size=416, augment=data.Augment(), seed=0)
    order = gluon.data.BatchSampler(gluon.data.RandomSampler(len(train)), 16, "discard")
    keys = data.Batches(order, sizes=range(320, 609, 32), seed=0)
    loader = gluon.data.DataLoader(train, batch_sampler=keys, batchify_fn=data.detection_batch, num_workers=2,
                                   thread_pool=True)
    for keys.epoch in range(epochs):
        for images, ground_truths in loader:
            ...

The augmentation of an image depends on (seed, epoch, index) only, and the size of a batch on (seed, epoch, batch
number) only. Both are the same for any worker, and after a run is resumed.
"""
from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Sequence
from typing import Union

import mxnet as mx
import numpy as np
from mxnet import gluon

from ...core.attributes import Attr, Int
from ...core.errors import OpError
from ..base import COLUMNS, about_image
from .augment import Augment
from .letterbox import letterbox, letterbox_boxes

__all__ = ["Augmented", "Batches", "Letterboxed", "SampleKey", "detection_batch", "ground_truth", "validation_batch"]

Size = Union[int, tuple[int, int]]
STRIDE = 32   # sizes for training are multiples of it
BLOCK = 8     # ground truths per image are padded to a multiple of it, so that few shapes occur


class SampleKey(collections.namedtuple("SampleKey", "index epoch size")):
    """An index with the epoch and the input size, None for the data set's own; :class:`Batches` yields them."""

    __slots__ = ()


class Augmented(gluon.data.Dataset):
    """Images changed at random, to train on.

    An item of a data set for detection is (image, ground truth): float32 (3, height, width) RGB from 0 to 1, and
    float32 (objects, 5) with centre x, centre y, width, height from 0 to 1 and class, as ``gops.loss.RegionLoss``
    takes it. Of one for classification it is (image, class). The key is an index, which means epoch 0, or a
    :class:`SampleKey`.

    Parameters
    ----------
    dataset : gluon.data.Dataset
        What :func:`gluonops.data.detection` or :func:`gluonops.data.classification` returns, or one of gluoncv's.
    size : int or tuple of int
        Input size, or (width, height).
    augment : Augment
        How images are changed.
    seed : int, default 0
        Seed of the augmentation.
    difficult : bool, default False
        Whether objects marked as difficult are trained on. Darknet leaves them out.
    """

    def __init__(self, dataset: gluon.data.Dataset, size: Size, augment: Augment, seed: int = 0,
                 difficult: bool = False):
        self._dataset, self._augment, self._difficult = dataset, augment, difficult
        self._size = _pair(size, "data.Augmented")
        self._seed = Attr("seed", Int(0), 0, "seed").parse("data.Augmented", seed)

    def __len__(self):
        return len(self._dataset)

    def __getitem__(self, key):
        index, epoch, size = key if isinstance(key, SampleKey) else (key, 0, None)
        size = self._size if size is None else _pair(size, "data.Augmented")
        image, label = _item(self._dataset, index)
        rng = np.random.RandomState([self._seed, epoch, index])
        if np.ndim(label) != 2:
            return self._augment(image, np.zeros((0, COLUMNS), "float32"), size, rng)[0], label
        if not self._difficult and label.shape[1] >= COLUMNS:
            label = label[label[:, 5] == 0]
        image, label = self._augment(image, label, size, rng)
        return image, ground_truth(label, size)


class Letterboxed(gluon.data.Dataset):
    """Images scaled to fit, grey around them, to validate and detect on.

    An item of a data set for detection is (image, ground truth, label, size): the first two as in :class:`Augmented`,
    then the label as it was, in the original image's pixels, and that image's (width, height), with which
    :func:`gluonops.data.unletterbox_boxes` takes detections back. Of one for classification it is (image, class).

    Parameters
    ----------
    dataset : gluon.data.Dataset
        What :func:`gluonops.data.detection` or :func:`gluonops.data.classification` returns, or one of gluoncv's.
    size : int or tuple of int
        Input size, or (width, height).
    """

    def __init__(self, dataset: gluon.data.Dataset, size: Size):
        self._dataset, self._size = dataset, _pair(size, "data.Letterboxed")

    def __len__(self):
        return len(self._dataset)

    def __getitem__(self, index):
        image, label = _item(self._dataset, index)
        with about_image(self._dataset, index):
            out = letterbox(image, *self._size)
        if np.ndim(label) != 2:
            return out, label
        moved = letterbox_boxes(label, image.shape[1::-1], self._size)
        return out, ground_truth(moved, self._size), label, np.array(image.shape[1::-1], "int32")


class Batches:
    """A batch sampler that adds epoch and input size to every index; a new size every ten batches.

    Parameters
    ----------
    batches : sampler or sequence
        Yields lists of indices: gluon's BatchSampler, or a list of lists.
    sizes : int or sequence of int, optional
        Input sizes to draw from, multiples of 32; the data set's own if left out.
    seed : int, default 0
        Of the sizes.
    epoch : int, default 0
        The epoch; set the attribute before each pass over the loader.
    first : int, default 0
        Number in its epoch of the first of ``batches``, for a run that is resumed in the middle.
    every : int, default 10
        Batches of one size.

    Attributes
    ----------
    epoch, first : int
    """

    def __init__(self, batches: Iterable, sizes: int | Sequence[int] | None = None, seed: int = 0, epoch: int = 0,
                 first: int = 0, every: int = 10):
        where = "data.Batches"
        self._batches, self.epoch, self.first = batches, epoch, first
        self._seed = Attr("seed", Int(0), 0, "seed").parse(where, seed)
        self._every = Attr("every", Int(1), 10, "batches of one size").parse(where, every)
        self._sizes = None if sizes is None else np.atleast_1d(sizes).tolist()
        if self._sizes is not None and not (self._sizes and all(
                isinstance(size, int) and size > 0 and size % STRIDE == 0 for size in self._sizes)):
            raise OpError(where, f"sizes are {sizes!r}; expected multiples of {STRIDE}", "Pass for instance "
                          "range(320, 609, 32)")

    def __len__(self):
        return len(self._batches)

    def __iter__(self):
        epoch, first = self.epoch, self.first   # a loader reads ahead, and the next pass may be set meanwhile
        for number, batch in enumerate(self._batches, first):
            size = self.size(number, epoch)
            yield [SampleKey(int(index), epoch, size) for index in batch]

    def size(self, number: int, epoch: int | None = None) -> int | None:
        """The input size of batch ``number`` of an epoch, by default the current one."""
        if self._sizes is None:
            return None
        rng = np.random.RandomState([self._seed, self.epoch if epoch is None else epoch, number // self._every])
        return self._sizes[rng.randint(len(self._sizes))]


def ground_truth(label: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Boxes in pixels as (objects, 5) shares of ``size``, (width, height): centre x, centre y, width, height, class."""
    sides = np.array(size, "float32")
    out = np.empty((len(label), 5), "float32")
    out[:, :2] = (label[:, :2] + label[:, 2:4]) / 2 / sides
    out[:, 2:4] = (label[:, 2:4] - label[:, :2]) / sides
    out[:, 4] = label[:, 4]
    return out


def detection_batch(items: Sequence[tuple]) -> tuple:
    """A DataLoader's ``batchify_fn`` for :class:`Augmented`.

    Returns
    -------
    tuple of NDArray
        Images (B, 3, H, W), and ground truths (B, T, 5) padded with 0.
    """
    images, ground_truths = zip(*items)
    return mx.nd.array(np.stack(images)), mx.nd.array(_padded(ground_truths, 0))


def validation_batch(items: Sequence[tuple]) -> tuple:
    """A DataLoader's ``batchify_fn`` for :class:`Letterboxed`.

    Returns
    -------
    tuple of NDArray
        Images (B, 3, H, W); ground truths (B, T, 5) padded with 0; the original labels (B, T, 6) padded with -1 as
        gluoncv's metrics expect it; and the original images' (width, height), int32 (B, 2).
    """
    images, ground_truths, labels, shapes = zip(*items)
    return (mx.nd.array(np.stack(images)), mx.nd.array(_padded(ground_truths, 0)), mx.nd.array(_padded(labels, -1)),
            mx.nd.array(np.stack(shapes), dtype="int32"))


def _padded(rows, value):
    longest = max(1, *(len(row) for row in rows))
    length = math.ceil(longest / BLOCK) * BLOCK
    out = np.full((len(rows), length, rows[0].shape[1]), value, "float32")
    for padded, row in zip(out, rows):
        padded[:len(row)] = row
    return out


def _item(dataset, index):
    """An item whose image is a NumPy array, as ours are; gluoncv's are NDArrays."""
    image, label = dataset[index]
    return image.asnumpy() if isinstance(image, mx.nd.NDArray) else image, label


def _pair(size, where):
    pair = (size, size) if np.ndim(size) == 0 else tuple(size)
    if len(pair) != 2:
        raise OpError(where, f"size is {size!r}; expected a number or (width, height)", "Pass another size")
    return tuple(Attr("size", Int(1), 416, "input size").parse(where, side) for side in pair)
