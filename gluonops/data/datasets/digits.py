"""Handwritten digits: the 1,797 digits of scikit-learn, or MNIST from a folder. Nothing is downloaded.

MNIST's files are in idx format: two bytes 0, a byte for the type, a byte for the number of dimensions, the sizes as
big-endian uint32, and the values. Gluon's MNIST data set reads it as well, but downloads files whose checksum differs.

Sources: Alpaydin and Kaynak, "Optical Recognition of Handwritten Digits" (UCI, 1998), 8x8 pixels in 17 levels of grey,
from ``sklearn.datasets.load_digits``; LeCun, Cortes and Burges, "The MNIST database of handwritten digits", 28x28
pixels in 256 levels of grey.
"""
from __future__ import annotations

import collections
import functools
import gzip
import importlib.util
import math
import operator
import os
import sys
import zlib
from collections.abc import Sequence

import mxnet as mx
import numpy as np

from ...contract.attributes import Float, Int, parsed
from ...contract.errors import OpError
from ...io.optional import require
from ..base import SPLITS, ClassificationDataset
from ..images import check_size, max_bytes

WHERE = "data.digits"
UINT8 = 8   # code of the type
OPTIONS = {"size": Int(1), "seed": Int(0), "held_out": Float(above=0, below=1)}
MNIST = {"train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
         "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")}


class Split(collections.namedtuple("Split", "images labels")):
    """Images with their labels. It can be unpacked: ``gluon.data.ArrayDataset(*split)``, ``mx.io.NDArrayIter(*split)``.

    Parameters
    ----------
    images, labels : numpy.ndarray
        float32 from 0 (background) to 1, (N, 1, size, size); and int32, (N,).
    """


def digits(data_dir: str | None = None, size: int = 28, seed: int = 0, held_out: float = 0.2,
           classes: Sequence[int] | None = None) -> tuple[Split, Split]:
    """Handwritten digits, as training images and held-out images.

    Parameters
    ----------
    data_dir : str or os.PathLike, optional
        Folder with MNIST's four files in idx format, gzipped or not. The default is the digits of scikit-learn.
    size : int, default 28
        Height and width of the images. The original size is 8 for scikit-learn and 28 for MNIST. Other sizes are
        resized bilinearly.
    seed : int, default 0
        Selects the held-out digits and the order of scikit-learn's digits. It has no influence on MNIST.
    held_out : float, default 0.2
        Fraction of scikit-learn's digits that is held out, above 0 and below 1, the same for each class.
    classes : sequence of int, optional
        Keep these digits only. The position of a digit in this sequence is its label: with ``classes=(5, 6)`` a six
        has label 1. ``classes`` does not change which images are held out.

    Returns
    -------
    tuple of Split
        Training images, and held-out images.

    Raises
    ------
    OpError
        A file is missing or is not a file of MNIST, an argument is out of range, or scikit-learn is not installed.
    """
    size, seed, held_out = parsed(WHERE, OPTIONS, size=size, seed=seed, held_out=held_out).values()
    splits = _scikit_learn(seed, held_out) if data_dir is None else _mnist(os.fspath(data_dir))
    chosen = range(10) if classes is None else _checked(classes)
    return tuple(_prepare(*split, chosen, size) for split in splits)


class DigitImages(ClassificationDataset):
    """A split of MNIST's digits in a folder, or of scikit-learn's digits.

    ``options`` are those of :func:`digits`. The items are those of :func:`gluonops.data.classification`.
    """

    def __init__(self, root: str | None = None, split: str = "train", **options):
        images, labels = digits(root, **options)[SPLITS.index(split)]
        super().__init__(WHERE, map(str, range(10)), labels=labels)
        self._images = (images.transpose(0, 2, 3, 1) * 255 + 0.5).astype("uint8")

    def image(self, index: int) -> np.ndarray:
        """The image without its label, uint8 (height, width, 1)."""
        return self._images[index]

    def size(self, index: int) -> tuple[int, int]:
        """(width, height) of the image."""
        return self._images.shape[2:0:-1]


def _checked(classes):
    try:
        chosen = [operator.index(label) for label in classes]
    except TypeError:
        chosen = []
    if not chosen or len(set(chosen)) != len(chosen) or not set(chosen) <= set(range(10)):
        raise OpError(WHERE, f"classes is {classes!r}; expected different digits from 0 to 9",
                      "Pass a sequence such as range(5)")
    return chosen


def _prepare(images, labels, white, chosen, size):
    """Keep the chosen classes, renumber them, scale the values so that ``white`` becomes 1, and resize."""
    selected = np.isin(labels, chosen)
    position = np.zeros(10, "int32")
    position[chosen] = np.arange(len(chosen))
    images = images[selected, None].astype("float32")
    images /= white
    if len(images) and images.shape[2:] != (size, size):
        images = mx.nd.contrib.BilinearResize2D(mx.nd.array(images), height=size, width=size).asnumpy()
    return Split(images, position[labels[selected]])


def _scikit_learn(seed, held_out):
    """(images, labels, white value) of the training digits, then of the held-out digits."""
    images, labels = _load_digits()
    rng = np.random.RandomState(seed)
    is_held_out = np.zeros(len(labels), bool)
    for label in range(10):
        indices = rng.permutation(np.flatnonzero(labels == label))
        count = np.clip(round(len(indices) * held_out), 1, len(indices) - 1)
        is_held_out[indices[:count]] = True

    order = rng.permutation(len(is_held_out))
    for indices in (order[~is_held_out[order]], order[is_held_out[order]]):
        yield images[indices], labels[indices], 16


def _load_digits():
    """(images, labels) that ``sklearn.datasets.load_digits`` returns.

    They are read from scikit-learn's file without scikit-learn, whose import takes a second and 1,000 modules.
    """
    path = _scikit_learns_file()
    if path is None or "sklearn.datasets" in sys.modules:
        remedy = "Run: pip install 'gluonops[examples]'; or pass data_dir, a folder with MNIST's files"
        source = require("sklearn.datasets", WHERE, remedy).load_digits()
        return source.images, source.target
    return _in_file(path)


@functools.cache
def _in_file(path):
    """(images, labels) of scikit-learn's file, of which the caller takes copies."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        table = np.loadtxt(file, delimiter=",")
    return table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(int)


def _scikit_learns_file():
    """The path of the file with the digits in scikit-learn's package, or None if there is none."""
    package = importlib.util.find_spec("sklearn")
    folders = (package and package.submodule_search_locations) or ()
    paths = (os.path.join(folder, "datasets", "data", "digits.csv.gz") for folder in folders)
    return next(filter(os.path.isfile, paths), None)


def _mnist(folder):
    """(images, labels, white value) of the training digits, then of the held-out digits."""
    paths = {name: _find(folder, name) for names in MNIST.values() for name in names}
    missing = [name for name, path in paths.items() if path is None]
    if missing:
        problem = f"has no {', no '.join(missing)} (nor with .gz)" if os.path.isdir(folder) else "does not exist"
        raise OpError(WHERE, f"the folder {folder} {problem}",
                      f"Put MNIST's files there ({', '.join(paths)}), or leave data_dir out")
    for images, labels in MNIST.values():
        yield (*_read(paths[images], paths[labels]), 255)


def _find(folder, name):
    """The path of the file of this name, gzipped or not, or None if there is none."""
    return next(filter(os.path.isfile, (os.path.join(folder, name + ending) for ending in ("", ".gz"))), None)


def _read(images_path, labels_path):
    images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
    if len(images) != len(labels):
        raise OpError(WHERE, f"{images_path} has {len(images)} images; expected {len(labels)}, the number of "
                      f"labels in {labels_path}", "Download both files again, from one source")
    if not len(labels) or labels.max() > 9:
        raise _bad(labels_path, f"the label {labels.max()}" if len(labels) else "no labels", "digits from 0 to 9")
    if 0 in images.shape:
        raise _bad(images_path, f"images of {images.shape[1]} x {images.shape[2]}", "some pixels")
    return images, labels


def read_idx(path: str, ndim: int) -> np.ndarray:
    """Read an idx file of unsigned bytes with so many dimensions. It is gzipped if its name ends in ``.gz``.

    The result is uint8, read-only. An OpError is raised if the file cannot be read, is not gzip although its name ends
    in .gz, has another type or number of dimensions, or a length that does not match its header, or would take more
    memory than ``GLUONOPS_MAX_DECODED_MIB``.
    """
    content = _content(path)
    header = 4 + 4 * ndim
    magic = bytes((0, 0, UINT8, ndim))
    if len(content) < header or content[:4] != magic:
        dimensions = "1 dimension" if ndim == 1 else f"{ndim} dimensions"
        raise _bad(path, f"{len(content)} bytes that start with {content[:4].hex() or 'nothing'}",
                   f"at least {header} bytes that start with {magic.hex()} (unsigned bytes, {dimensions})")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", ndim, offset=4))
    if len(content) != header + math.prod(shape):
        raise _bad(path, f"{len(content)} bytes", f"{header + math.prod(shape)} for the shape {shape} in its header")
    try:
        return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
    except ValueError as error:   # a size of 0 beside others whose product is beyond NumPy
        raise _bad(path, f"the shape {shape} in its header", "a shape that an array can have") from error


def _content(path):
    open_file = gzip.open if path.endswith(".gz") else open
    try:
        check_size(WHERE, path, os.path.getsize(path))
        with open_file(path, "rb") as file:
            content = file.read(max_bytes() + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _bad(path, f"something that does not unpack ({error})", "a whole gzip file") from error
    except OSError as error:
        raise OpError(WHERE, f"{path} cannot be read: {error.strerror}", "Pass another folder") from error
    check_size(WHERE, path, len(content))
    return content


def _bad(path, got, expected):
    return OpError(WHERE, f"{path} has {got}; expected {expected}", "Download the file again")
