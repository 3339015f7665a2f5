"""Images with one class each, in memory or in folders.

Gluon's ``ImageFolderDataset`` is not used for two reasons. It numbers the classes of each split separately. Its error
for a file that cannot be decoded does not name the file.
"""
from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from mxnet import gluon

from ...core.errors import OpError
from ..base import Classes, class_names, described
from ..images import EXTENSIONS, image_size, read_image
from .data_file import is_data_file, read_data_file

__all__ = ["ImageArray", "ImageFolder"]

LISTS = {"train": ("train",), "val": ("val", "valid", "test")}


class ImageArray(gluon.data.Dataset):
    """Images in memory, with the items of :func:`gluonops.data.classification`.

    - ``images``: uint8, (N, height, width, channels).
    - ``labels``: class ids, int, (N,).
    - ``classes``: names of the classes.
    """

    def __init__(self, images: np.ndarray, labels: np.ndarray, classes: Sequence[str]):
        self._images, self.labels, self.classes = images, np.asarray(labels, "int32"), tuple(classes)

    def __len__(self):
        return len(self.labels)

    def __repr__(self) -> str:
        return described(self)

    def __getitem__(self, index):
        return self._images[index], int(self.labels[index])


class ImageFolder(gluon.data.Dataset):
    """A folder of images per class, with the items of :func:`gluonops.data.classification`.

    Parameters
    ----------
    root : str
        Folder with the folders ``train`` and ``val`` (or valid, or test). Each of them has one folder per class. Or one
        of Darknet's ``.data`` files: an image's class is the one whose name is in the image's path.
    split : {"train", "val"}
        The split.
    classes : sequence of str or str, optional
        Names of the classes' folders in the order of their class ids, or a file with one name per line. The default is
        the folders in ``train``, in alphabetical order.

    Raises
    ------
    OpError
        A folder is missing, has no images, or is not a class.
    """

    def __init__(self, root: str, split: str = "train", classes: Classes = None):
        self._where = "data.folder"
        if is_data_file(root):
            self.classes, self._paths, class_ids = _listed(root, split, classes, self._where)
        else:
            self.classes, self._paths, class_ids = _in_folders(root, split, classes, self._where)
        self.labels = np.array(class_ids, "int32")

    def __len__(self):
        return len(self.labels)

    def __repr__(self) -> str:
        return described(self)

    def __getitem__(self, index):
        return read_image(self._paths[index], self._where), int(self.labels[index])

    def size(self, index: int) -> tuple[int, int]:
        """(width, height) of the image. Only the header of its file is decoded."""
        return image_size(self._paths[index], self._where)

    def name(self, index: int) -> str:
        """The name of the image in errors."""
        return self._paths[index]


def _in_folders(root, split, classes, where):
    """(names of the classes, paths of the images, their class ids) of a folder per class."""
    folder = _folder(root, split, where)
    if classes is None:
        classes = _folders(_folder(root, "train", where), where)
    names = class_names(classes, where)
    present = _folders(folder, where)
    unknown = sorted(set(present) - set(names))
    if unknown:
        raise OpError(where, f"{folder} has the folder {unknown[0]!r}; expected classes only: {', '.join(names)}",
                      "Rename it, or pass classes")
    paths, class_ids = [], []
    for class_id, name in enumerate(names):
        if name not in present:
            continue
        files = sorted(os.listdir(os.path.join(folder, name)))
        of_class = [os.path.join(folder, name, file) for file in files if file.lower().endswith(EXTENSIONS)]
        paths += of_class
        class_ids += [class_id] * len(of_class)
    if not paths:
        raise OpError(where, f"{folder} has no images ({', '.join(EXTENSIONS)}) in its classes' folders",
                      "Add some, or pass another root")
    return names, paths, class_ids


def _listed(path, split, classes, where):
    """The same of a ``.data`` file. Its names are compared with the paths as they are, as in Darknet."""
    listed = read_data_file(path)
    names = class_names(listed.classes if classes is None else classes, where)
    paths, class_ids = listed.images(split), []
    for image in paths:
        found = [class_id for class_id, name in enumerate(names) if name in image]
        if len(found) != 1:
            got = " and ".join(names[class_id] for class_id in found) or "no class"
            raise OpError(where, f"{image} has {got} in its path; expected the name of one class",
                          "Move the image, or correct the names")
        class_ids += found
    return names, paths, class_ids


def _folder(root, split, where):
    """The first existing folder of a split."""
    candidates = [os.path.join(root, name) for name in LISTS[split]]
    for candidate in candidates:
        if os.path.isdir(candidate):
            return candidate
    raise OpError(where, f"there is no folder {' and no '.join(candidates)}", "Pass the folder that has train and val")


def _folders(root, where):
    """The names of the folders in ``root``, sorted."""
    folders = sorted(name for name in os.listdir(root) if os.path.isdir(os.path.join(root, name)))
    if not folders:
        raise OpError(where, f"{root} has no folders; expected one per class", "Pass another root")
    return folders
