"""Turns a data set into the input of a net: items for a DataLoader, and functions that make batches of them.

    train = data.Augmented(data.detection("voc", root), size=416, augment=data.Augment(), seed=0)
    order = gluon.data.BatchSampler(gluon.data.RandomSampler(len(train)), 16, "discard")
    keys = data.Batches(order, sizes=range(320, 609, 32), seed=0)
    loader = gluon.data.DataLoader(train, batch_sampler=keys, batchify_fn=data.detection_batch, num_workers=2,
                                   thread_pool=True)
    for keys.epoch in range(epochs):
        for images, ground_truths in loader:
            ...

The augmentation of an image depends only on (seed, epoch, index). The size of a batch depends only on (seed, epoch,
batch number). Neither depends on the worker, and both are the same after a run is resumed.
"""
from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Sequence
from typing import Union

import mxnet as mx
import numpy as np
from mxnet import gluon

from ...contract.attributes import Attr, Int, parsed
from ...contract.errors import OpError
from ...io.params import as_numpy
from ..base import COLUMNS, about_image
from .augment import Augment, place_boxes
from .letterbox import letterbox, letterbox_boxes, resize

Size = Union[int, tuple[int, int]]
STRIDE = 32     # input sizes for training are multiples of it
ROW_BLOCK = 8   # the rows of ground truth per image are padded to a multiple of it, so that few shapes occur


class SampleKey(collections.namedtuple("SampleKey", "index epoch size")):
    """An index with its epoch and input size. :class:`Batches` yields such keys.

    Parameters
    ----------
    index, epoch : int
        Index into the data set, and the epoch, from 0.
    size : int, tuple of int or None
        Input size, or (width, height). None: the size of the data set.
    """

    __slots__ = ()


class Augmented(gluon.data.Dataset):
    """A data set with random augmentation, for training.

    For detection an item is (image, ground truth). The image is float32 (3, height, width), RGB from 0 to 1. The ground
    truth is float32 (objects, 5), as for ``gops.loss.RegionLoss``: centre x, centre y, width and height from 0 to 1,
    and the class id. For classification an item is (image, class id). The key of an item is an index (in epoch 0) or a
    :class:`SampleKey`.

    Parameters
    ----------
    dataset : gluon.data.Dataset
        A data set of :func:`gluonops.data.detection`, :func:`gluonops.data.classification` or gluoncv.
    size : int or tuple of int
        Input size, or (width, height), in pixels.
    augment : Augment
    seed : int, default 0
        Seed of the augmentation, at least 0.
    difficult : bool, default False
        Whether difficult objects are kept. Darknet leaves them out.
    """

    def __init__(self, dataset: gluon.data.Dataset, size: Size, augment: Augment, seed: int = 0,
                 difficult: bool = False):
        self._dataset, self._augment, self._difficult = dataset, augment, difficult
        self._size = _pair(size, "data.Augmented")
        self._seed = Attr("seed", Int(0), 0).parse("data.Augmented", seed)

    def __len__(self):
        return len(self._dataset)

    def __getitem__(self, key):
        index, epoch, size = key if isinstance(key, SampleKey) else (key, 0, None)
        size = self._size if size is None else _pair(size, "data.Augmented")
        rng = np.random.RandomState([self._seed, epoch, index])
        image, label = self._item(index)
        if np.ndim(label) != 2:
            return self._augment(image, np.zeros((0, COLUMNS), "float32"), size, rng)[0], label
        share = getattr(self._augment, "mosaic_share", 0)
        if share and rng.rand() < share:
            others = [self._item(other) for other in rng.randint(len(self), size=3)]
            image, label = self._augment.mosaic_of([(image, label), *others], size, rng)
        else:
            image, label = self._augment(image, label, size, rng)
        return image, ground_truth(label, size)

    def _item(self, index):
        image, label = self._dataset[int(index)]
        is_labelled_difficult = np.ndim(label) == 2 and label.shape[1] >= COLUMNS
        if is_labelled_difficult and not self._difficult:
            label = label[label[:, 5] == 0]
        return as_numpy(image), label   # gluoncv's data sets return NDArrays


class Letterboxed(gluon.data.Dataset):
    """A data set with letterboxed images, for validation and detection.

    For detection an item is (image, ground truth, label, size). The first two are as in :class:`Augmented`. The label
    is unchanged, in pixels of the original image. The size is the (width, height) of the original image:
    :func:`gluonops.data.unletterbox_boxes` needs it. For classification an item is (image, class id).

    Parameters
    ----------
    dataset, size
        As :class:`gluonops.data.Augmented` takes them.
    """

    _fit, _move = staticmethod(letterbox), staticmethod(letterbox_boxes)

    def __init__(self, dataset: gluon.data.Dataset, size: Size):
        self._dataset, self._size = dataset, _pair(size, "data.Letterboxed")

    def __len__(self):
        return len(self._dataset)

    def __getitem__(self, index):
        image, label = self._dataset[index]
        image = as_numpy(image)
        with about_image(self._dataset, index):
            out = self._fit(image, *self._size)
        if np.ndim(label) != 2:
            return out, label
        moved = self._move(label, image.shape[1::-1], self._size)
        return out, ground_truth(moved, self._size), label, np.array(image.shape[1::-1], "int32")


class Stretched(Letterboxed):
    """As :class:`Letterboxed`, but images are stretched to the size of the input, as AlexeyAB's Darknet does."""

    _fit, _move = staticmethod(resize), staticmethod(place_boxes)


class Batches:
    """A batch sampler that adds the epoch and a random input size to each index. The size changes every ten batches.

    Parameters
    ----------
    batches : sampler or sequence
        Lists of indices: gluon's BatchSampler, or a list of lists.
    sizes : int, sequence of int or sequence of tuple, optional
        Input sizes to draw from, or pairs (width, height), in multiples of 32. The default is the size of the data set.
    seed : int, default 0
        Seed of the sizes, at least 0.
    epoch : int, default 0
        The epoch.
    first : int, default 0
        Number of the first batch in its epoch. It is above 0 in a run that is resumed within an epoch.
    every : int, default 10
        Number of consecutive batches with one size, at least 1.

    Attributes
    ----------
    epoch, first : int
        The parameters of the same name. Set ``epoch`` before each pass over the loader.
    """

    def __init__(self, batches: Iterable, sizes: int | Sequence[int] | None = None, seed: int = 0, epoch: int = 0,
                 first: int = 0, every: int = 10):
        where = "data.Batches"
        self._batches, self.epoch, self.first = batches, epoch, first
        self._seed, self._every = parsed(where, {"seed": Int(0), "every": Int(1)}, seed=seed, every=every).values()
        self._sizes = None if sizes is None else _input_sizes(where, sizes)

    def __len__(self):
        return len(self._batches)

    def __iter__(self):
        epoch, first = self.epoch, self.first   # a loader reads ahead; the attributes may already have new values
        for number, batch in enumerate(self._batches, first):
            size = self.size(number, epoch)
            yield [SampleKey(int(index), epoch, size) for index in batch]

    def size(self, number: int, epoch: int | None = None) -> Size | None:
        """The input size of a batch, or None for the size of the data set.

        Parameters
        ----------
        number : int
            Number of the batch in its epoch.
        epoch : int, optional
            The epoch. The default is the current epoch.
        """
        if self._sizes is None:
            return None
        epoch = self.epoch if epoch is None else epoch
        rng = np.random.RandomState([self._seed, epoch, number // self._every])
        return self._sizes[rng.randint(len(self._sizes))]


def _input_sizes(where, sizes):
    """Numbers and pairs, as Python's own. An OpError is raised unless all are multiples of 32."""
    sides = np.ravel(sizes).tolist()
    if not sides or not all(isinstance(side, int) and side > 0 and side % STRIDE == 0 for side in sides):
        raise OpError(where, f"sizes are {sizes!r}; expected multiples of {STRIDE}", "Pass for instance "
                      "range(320, 609, 32)")
    return [tuple(size) if isinstance(size, list) else size for size in np.atleast_1d(sizes).tolist()]


def ground_truth(label: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Convert boxes to the form that ``gops.loss.RegionLoss`` takes.

    Theirs are xmin, ymin, xmax, ymax, class in pixels.

    The result is float32 (objects, 5): centre x, centre y, width and height as fractions of ``size``, and the class id.
    """
    sides = np.array(size, "float32")
    out = np.empty((len(label), 5), "float32")
    out[:, :2] = (label[:, :2] + label[:, 2:4]) / 2 / sides
    out[:, 2:4] = (label[:, 2:4] - label[:, :2]) / sides
    out[:, 4] = label[:, 4]
    return out


def detection_batch(items: Sequence[tuple]) -> tuple:
    """The ``batchify_fn`` of a DataLoader for :class:`Augmented`.

    Parameters
    ----------
    items : sequence of tuple
        Items of one size.

    Returns
    -------
    tuple of NDArray
        Images (B, 3, H, W), and ground truths (B, T, 5) padded with 0. T is a multiple of 8.
    """
    images, ground_truths = zip(*items)
    return mx.nd.array(np.stack(images)), mx.nd.array(_padded(ground_truths, 0))


def validation_batch(items: Sequence[tuple]) -> tuple:
    """The ``batchify_fn`` of a DataLoader for :class:`Letterboxed`.

    Parameters
    ----------
    items : sequence of tuple
        Items of one data set.

    Returns
    -------
    tuple of NDArray
        Images (B, 3, H, W); ground truths (B, T, 5) padded with 0; the original labels (B, T, 6) padded with -1, as
        gluoncv's metrics expect; (width, height) of the original images, int32 (B, 2).
    """
    images, ground_truths, labels, shapes = zip(*items)
    return (mx.nd.array(np.stack(images)), mx.nd.array(_padded(ground_truths, 0)), mx.nd.array(_padded(labels, -1)),
            mx.nd.array(np.stack(shapes), dtype="int32"))


def _padded(rows, value):
    """Arrays of different lengths as one array, padded with ``value``."""
    longest = max(1, *(len(row) for row in rows))
    length = math.ceil(longest / ROW_BLOCK) * ROW_BLOCK
    out = np.full((len(rows), length, rows[0].shape[1]), value, "float32")
    for padded, row in zip(out, rows):
        padded[:len(row)] = row
    return out


def _pair(size, where):
    """(width, height) from a number or a pair."""
    pair = (size, size) if np.ndim(size) == 0 else tuple(size)
    if len(pair) != 2:
        raise OpError(where, f"size is {size!r}; expected a number or (width, height)",
                      "Pass for instance 416, or (416, 288)")
    return tuple(Attr("size", Int(1), 416).parse(where, side) for side in pair)
