"""Images with one class each, in folders.

Gluon's ``ImageFolderDataset`` is not used for two reasons. It numbers the classes of each split separately. Its error
for a file that cannot be decoded does not name the file.
"""
from __future__ import annotations

import os
from collections.abc import Sequence

from ...contract.errors import OpError
from .. import layouts
from ..base import Classes, ClassificationDataset, class_names
from ..images import ENDINGS, headers
from ..labels import readable
from ..repairs import Repairs
from .darknet import is_data_file, read_data_file

WHERE = "data.folder"
LAYOUT = "a folder of pictures for each class, perhaps in folders train and val"


class ImageFolder(ClassificationDataset):
    """A folder of images per class, with the items of :func:`gluonops.data.classification`.

    An OpError is raised if a folder is missing, has no images, or is not a class.

    Parameters
    ----------
    root : str
        Folder with the folders ``train`` and ``val`` (or valid, or test). Each of them has one folder per class.
        Without ``val``, or if the classes' folders are in ``root`` itself, a fifth of each class is held out. Or one of
        Darknet's ``.data`` files: an image's class is the one whose name is in the image's path.
    split : {"train", "val"}
    classes : sequence of str or str, optional
        Names of the classes' folders in the order of their class ids, or a file with one name per line. The default is
        the folders in ``train``, in alphabetical order.
    strict : bool, default False
        Whether an image that cannot be read is an error. By default it is left out and counted.
    hold_out : bool or sequence of str, default False
        Where there is no part for validation: True holds out a fifth of each class, and names hold out these pictures.
    """

    def __init__(self, root: str, split: str = "train", classes: Classes = None, strict: bool = False,
                 hold_out: bool | Sequence[str] = False):
        read = _listed if is_data_file(root) else _in_folders
        names, paths, class_ids, has_split = read(root, split, classes)
        repairs, image_headers = Repairs(WHERE, strict), headers(paths, WHERE, f"checking {split}")
        kept = readable(image_headers, repairs)
        super().__init__(WHERE, names, [paths[i] for i in kept], [class_ids[i] for i in kept],
                         [image_headers[i].size for i in kept], repairs)
        if not has_split:
            self._hold_out(split, os.path.dirname(root) if os.path.isfile(root) else root, hold_out)


def _in_folders(root, split, classes):
    """(names of the classes, paths of the images, their class ids, whether there is a part for each split)"""
    training, held_out = layouts.split_folder(root, "train"), layouts.split_folder(root, "val")
    if training is None and held_out is None:
        training = _root_of_classes(root)
    folder = held_out if held_out and split == "val" else training
    if folder is None:
        raise OpError(WHERE, f"{root} has no folder train; expected {LAYOUT}", "Pass the folder that has train and val")
    if classes is None:
        classes = _folders(training or folder)
    names = class_names(classes, WHERE)
    present = _folders(folder)
    unknown = sorted(set(present) - set(names))
    if unknown:
        raise OpError(WHERE, f"{folder} has the folder {unknown[0]!r}; expected classes only: {', '.join(names)}",
                      "Rename the folder, or pass its name among classes")
    pictures = [(path, class_id) for class_id, name in enumerate(names) if name in present
             for path in layouts.pictures_in(os.path.join(folder, name))]
    if not pictures:
        raise OpError(WHERE, f"{folder} has no images ({ENDINGS}) in its classes' folders",
                      "Add images, or pass another root")
    return names, *zip(*pictures), held_out is not None


def _root_of_classes(root):
    """``root``, if it has a folder of pictures for each class."""
    if not any(layouts.pictures_in(os.path.join(root, name)) for name in layouts.class_folders(root)):
        if not os.path.isdir(root):
            raise OpError(WHERE, f"there is no folder {root}", "Pass the folder that has train and val")
        raise layouts.unknown(WHERE, root, LAYOUT)
    return root


def _listed(path, split, classes):
    """As :func:`_in_folders`, for a ``.data`` file.

    As in Darknet, an image's class is the one whose name is in its path.
    """
    listed = read_data_file(path)
    names = class_names(listed.classes if classes is None else classes, WHERE)
    has_split = listed.valid is not None
    paths, class_ids = listed.images_or_errors(split if has_split else "train"), []
    for image in paths:
        if isinstance(image, OpError):   # it is left out
            class_ids.append(0)
            continue
        classes_in_path = [class_id for class_id, name in enumerate(names) if name in image]
        if len(classes_in_path) != 1:
            got = " and ".join(names[class_id] for class_id in classes_in_path) or "no class"
            raise OpError(WHERE, f"{image} has {got} in its path; expected the name of one class",
                          "Move the image, or correct the names")
        class_ids += classes_in_path
    return names, paths, class_ids, has_split


def _folders(root):
    """The names of the folders in ``root``, sorted."""
    _, folders = layouts.files_and_folders(root)
    if not folders:
        raise OpError(WHERE, f"{root} has no folders; expected a folder for each class", "Pass another root")
    return folders
