"""Images with one class each: in memory, and in folders.

Gluon's own ``ImageFolderDataset`` numbers the classes of each part by itself, and its error for a file that does not
decode does not name the file.
"""
from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from mxnet import gluon

from ...core.errors import OpError
from ..base import Classes, class_names
from ..images import EXTENSIONS, image_size, read_image

__all__ = ["ImageArray", "ImageFolder"]

LISTS = {"train": ("train",), "val": ("val", "valid", "test")}


class ImageArray(gluon.data.Dataset):
    """Images in memory; items as :func:`gluonops.data.classification` says.

    Parameters
    ----------
    images : numpy.ndarray
        uint8, (N, height, width, channels).
    labels : numpy.ndarray
        int, (N,).
    classes : sequence of str
        Names of the classes.
    """

    def __init__(self, images: np.ndarray, labels: np.ndarray, classes: Sequence[str]):
        self._images, self.labels, self.classes = images, np.asarray(labels, "int32"), tuple(classes)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self._images[index], int(self.labels[index])


class ImageFolder(gluon.data.Dataset):
    """A folder per class with images in it; items as :func:`gluonops.data.classification` says.

    Parameters
    ----------
    root : str
        With a folder ``train`` and ``val`` (or valid, test), and in each a folder per class.
    split : {"train", "val"}
    classes : sequence of str or str, optional
        The classes' folders, or a file with one per line; those of ``train`` in alphabetical order if left out.
    """

    def __init__(self, root: str, split: str = "train", classes: Classes = None):
        where = "data.folder"
        folder = _folder(root, split, where)
        if classes is None:
            classes = _folders(_folder(root, "train", where), where)
        self.classes = class_names(classes, where)
        present = _folders(folder, where)
        unknown = sorted(set(present) - set(self.classes))
        if unknown:
            raise OpError(where, f"{folder} has the folder {unknown[0]!r}; expected classes only: "
                          f"{', '.join(self.classes)}", "Rename it, or pass classes")
        self._paths, class_ids = [], []
        for class_id, name in enumerate(self.classes):
            if name not in present:
                continue
            files = sorted(os.listdir(os.path.join(folder, name)))
            paths = [os.path.join(folder, name, file) for file in files if file.lower().endswith(EXTENSIONS)]
            self._paths += paths
            class_ids += [class_id] * len(paths)
        if not self._paths:
            raise OpError(where, f"{folder} has no images ({', '.join(EXTENSIONS)}) in its classes' folders",
                          "Add some, or pass another root")
        self.labels = np.array(class_ids, "int32")
        self._where = where

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return read_image(self._paths[index], self._where), int(self.labels[index])

    def size(self, index: int) -> tuple[int, int]:
        """(width, height) of the image; only the header of its file is decoded."""
        return image_size(self._paths[index], self._where)

    def name(self, index: int) -> str:
        """The name of the image in errors."""
        return self._paths[index]


def _folder(root, split, where):
    places = [os.path.join(root, name) for name in LISTS[split]]
    for place in places:
        if os.path.isdir(place):
            return place
    raise OpError(where, f"there is no folder {' and no '.join(places)}", "Pass the folder that has train and val")


def _folders(root, where):
    folders = sorted(name for name in os.listdir(root) if os.path.isdir(os.path.join(root, name)))
    if not folders:
        raise OpError(where, f"{root} has no folders; expected one per class", "Pass another root")
    return folders
