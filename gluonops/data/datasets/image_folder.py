"""Images with one class each, in folders.

Gluon's ``ImageFolderDataset`` is not used for two reasons. It numbers the classes of each split separately. Its error
for a file that cannot be decoded does not name the file.
"""
from __future__ import annotations

import os

from ...core.errors import OpError
from ..base import ALIASES, Classes, ClassificationDataset, class_names
from ..images import EXTENSIONS
from .darknet import is_data_file, read_data_file

WHERE = "data.folder"


class ImageFolder(ClassificationDataset):
    """A folder of images per class, with the items of :func:`gluonops.data.classification`.

    An OpError if a folder is missing, has no images, or is not a class.

    Parameters
    ----------
    root : str
        Folder with the folders ``train`` and ``val`` (or valid, or test). Each of them has one folder per class. Or one
        of Darknet's ``.data`` files: an image's class is the one whose name is in the image's path.
    split : {"train", "val"}
    classes : sequence of str or str, optional
        Names of the classes' folders in the order of their class ids, or a file with one name per line. The default is
        the folders in ``train``, in alphabetical order.
    """

    def __init__(self, root: str, split: str = "train", classes: Classes = None):
        read = _listed if is_data_file(root) else _in_folders
        names, paths, class_ids = read(root, split, classes)
        super().__init__(WHERE, names, paths, class_ids)


def _in_folders(root, split, classes):
    """(names of the classes, paths of the images, their class ids) of a folder per class."""
    folder = _folder(root, split)
    if classes is None:
        classes = _folders(_folder(root, "train"))
    names = class_names(classes, WHERE)
    present = _folders(folder)
    unknown = sorted(set(present) - set(names))
    if unknown:
        raise OpError(WHERE, f"{folder} has the folder {unknown[0]!r}; expected classes only: {', '.join(names)}",
                      "Rename it, or pass classes")
    found = [(os.path.join(folder, name, file), class_id) for class_id, name in enumerate(names) if name in present
             for file in sorted(os.listdir(os.path.join(folder, name))) if file.lower().endswith(EXTENSIONS)]
    if not found:
        raise OpError(WHERE, f"{folder} has no images ({', '.join(EXTENSIONS)}) in its classes' folders",
                      "Add some, or pass another root")
    return names, *zip(*found)


def _listed(path, split, classes):
    """The same of a ``.data`` file. Its names are compared with the paths as they are, as in Darknet."""
    listed = read_data_file(path)
    names = class_names(listed.classes if classes is None else classes, WHERE)
    paths, class_ids = listed.images(split), []
    for image in paths:
        found = [class_id for class_id, name in enumerate(names) if name in image]
        if len(found) != 1:
            got = " and ".join(names[class_id] for class_id in found) or "no class"
            raise OpError(WHERE, f"{image} has {got} in its path; expected the name of one class",
                          "Move the image, or correct the names")
        class_ids += found
    return names, paths, class_ids


def _folder(root, split):
    """The first existing folder of a split."""
    candidates = [os.path.join(root, name) for name in ALIASES[split]]
    for candidate in candidates:
        if os.path.isdir(candidate):
            return candidate
    raise OpError(WHERE, f"there is no folder {' and no '.join(candidates)}", "Pass the folder that has train and val")


def _folders(root):
    """The names of the folders in ``root``, sorted."""
    folders = sorted(name for name in os.listdir(root) if os.path.isdir(os.path.join(root, name)))
    if not folders:
        raise OpError(WHERE, f"{root} has no folders; expected one per class", "Pass another root")
    return folders
