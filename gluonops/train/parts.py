"""Reads and checks the parts of a data set: images to train on, images to choose an epoch by, and held-out images."""
from __future__ import annotations

import argparse
import collections
import os
import pathlib
from collections.abc import Sequence

import numpy as np
from mxnet import gluon

from .. import data
from ..contract.errors import OpError, plural
from ..data.anchors import box_sizes
from ..data.base import about_image, class_names
from ..data.by_name import read
from ..data.datasets.darknet import is_data_file
from ..data.datasets.data_yaml import is_data_yaml
from ..data.datasets.yolo import has_names
from ..data.images import progress
from ..data.repairs import merged, warn_of
from ..io.files import read_lines
from ..io.progress import say
from .image_sets import OF_DIGITS, Cached, ClassSubset, DetectionSubset, check_classes
from .run_files import make_folder, write

__all__ = ["Classification", "classification_parts", "data_arguments", "data_notes", "detection_parts"]

HELD_OUT = "held_out.txt"


class Classification(collections.namedtuple("Classification", "training validation held_out classes")):
    """The parts of a data set for classification, and the names of its classes.

    There are images to train on, images that choose the best epoch, and images that are held out until the end.
    """


def classification_parts(name: str, root: str | os.PathLike | None = None, classes: Sequence[str] | None = None,
                         size: int = 28, seed: int = 0, strict: bool = False,
                         hold_out: bool | Sequence[str] = True) -> Classification:
    """A data set for classification, in three parts.

    A tenth of the training images chooses the epoch. The held-out images are those of the data set's own part for
    validation, or else a fifth of each class. The headers of all files are checked here, so that a faulty file is known
    at once and not after an epoch. One RepairWarning counts what had to be left out.

    Parameters
    ----------
    name, root
        As :func:`gluonops.data.classification` takes them.
    classes : sequence of str, optional
        The classes to train on, in order; all of them if left out.
    size : int, default 28
        Height and width of the net's input.
    seed : int, default 0
        Seed of the choice of the tenth.
    strict, hold_out
        As :func:`gluonops.data.detection` takes them.

    Returns
    -------
    Classification
        Its data sets have items (uint8 (H, W, C), label).

    Raises
    ------
    OpError
        A class is unknown, a part has too few images, or a file does not fit.
    """
    where = "train.classification_parts"
    check_root(root, where)
    options = {"size": size, "seed": seed} if name in OF_DIGITS else {"strict": strict}
    train = read("classification", name, root, "train", **options, hold_out=hold_out)
    if name not in OF_DIGITS:   # the same class ids as in training
        options["classes"] = train.classes
    val = train.rest or read("classification", name, root, "val", **options)
    warn_of([train.repairs, val.repairs])
    names = list(class_names(classes or train.classes, where))
    check_classes(names, train.classes, where)
    training, held_out = ClassSubset(train, names), ClassSubset(val, names)
    for part, minimum, kind in ((training, 2, "to train on"), (held_out, 1, "held out")):
        if len(part) < minimum:   # one of two training images is for validation
            raise OpError(where, f"of the classes {', '.join(names)}, the data set has {plural(len(part), 'image')} "
                          f"{kind}; expected at least {minimum}", "Add images, or choose other --classes")
    for_choice = np.zeros(len(training), bool)
    for_choice[np.random.RandomState(seed).permutation(len(training))[::10]] = True
    parts = Classification(ClassSubset(train, names, ~for_choice), ClassSubset(train, names, for_choice), held_out,
                           names)
    if name not in OF_DIGITS:
        _check_sizes(parts.validation, size)
        _check_sizes(held_out, size)
    return parts


def detection_parts(name: str, root: str | os.PathLike | None = None, classes: Sequence[str] | None = None,
                    size: int = 416, seed: int = 0, count: tuple[int, int] | None = None,
                    hard: bool = False, strict: bool = False, hold_out: bool | Sequence[str] = True,
                    ) -> tuple[data.DetectionDataset, data.DetectionDataset]:
    """Two data sets for detection with the same classes: (training, validation). Their files are checked here.

    If the data set has no part for validation, a fifth is held out. One RepairWarning counts the repairs of both. An
    OpError is raised if a file is missing or malformed, or if the classes do not fit the data set.

    Parameters
    ----------
    name, root
        As :func:`gluonops.data.detection` takes them.
    classes : sequence of str, optional
        The classes to train on, in order. By default these are all classes. If the data set does not name its classes,
        these are their names. Scenes of digits do not take this argument.
    size : int, default 416
        Height and width of the net's input.
    seed, count, hard
        For scenes of digits: their seed, the numbers of scenes to train on and to validate on, and whether they are
        hard to read.
    strict, hold_out
        As :func:`gluonops.data.detection` takes them.
    """
    where = "train.detection_parts"
    check_root(root, where)
    if name == "digits":
        if classes:
            raise OpError(where, f"--classes is {' '.join(classes)}; scenes of digits always have all ten",
                          "Leave --classes out, or name another --dataset")
        training, validation = (
            data.detection(name, root, split, count=number, seed=seed, size=size, hard=hard)
            for split, number in zip(("train", "val"), count or (None, None)))
        return Cached(training), validation   # painting a scene costs more than keeping it
    training = _detection_split(name, root, "train", classes, strict=strict, hold_out=hold_out)
    whole = training.dataset if isinstance(training, DetectionSubset) else training
    # Numbers mean what they mean in training, whatever order the held-out labels name their classes in.
    validation = whole.rest or read("detection", name, root, "val", classes=whole.classes, strict=strict)
    warn_of([whole.repairs, validation.repairs])
    if whole is not training:
        validation = DetectionSubset(validation, training.classes)
    if not any(len(training.label(i)) for i in range(len(training))):
        raise OpError(where, f"{root} has no object to train on; expected one or more in the labels",
                      "Label the pictures, or choose other --classes")
    box_sizes(validation, size)   # refuses what does not fit
    return training, validation


def detection_split(name: str, root: str | os.PathLike, split: str, classes: Sequence[str] | None = None,
                    strict: bool = False) -> data.DetectionDataset | DetectionSubset:
    """A part of a data set for detection. ``classes`` and ``strict`` are as in :func:`detection_parts`."""
    dataset = _detection_split(name, root, split, classes, strict=strict, hold_out=True)
    warn_of([dataset.repairs])
    return dataset


def _detection_split(name, root, split, classes, **options):
    if not classes:
        return read("detection", name, root, split, **options)
    if name in ("voc", "coco") or name == "yolo" and has_names(root):
        return DetectionSubset(read("detection", name, root, split, **options), classes)
    return read("detection", name, root, split, classes=classes, **options)


def data_notes(training: gluon.data.Dataset, held_out: gluon.data.Dataset,
               out: str | os.PathLike | None) -> dict[str, object]:
    """Say which pictures are held out, if the data set has no part for validation, and write their list.

    The list is ``held_out.txt`` in ``out``, with a name in each line, and ``--held-out`` takes it.

    Parameters
    ----------
    training, held_out : gluon.data.Dataset
        The parts of a data set.
    out : str, os.PathLike or None
        Folder for the list. With None, as all workers but the first have it, nothing is said or written.

    Returns
    -------
    dict
        What the results say about it. ``repairs`` has, for each reason, the number of repairs and the first places.
        ``held_out`` has the names of the pictures, or is None.
    """
    names = getattr(training, "held_out", None)
    if names is not None and out is not None:
        path = make_folder(out) / HELD_OUT
        write(path, lambda name: pathlib.Path(name).write_text("".join(f"{line}\n" for line in names), "utf-8"))
        say(f"The data set has no part for validation: {len(names)} pictures are held out.\n"
            f"{path} lists them, and --held-out takes the list.")
    total = merged(part.repairs for part in (training, held_out) if hasattr(part, "repairs"))
    return {"repairs": total.summary(), "held_out": names}


def data_arguments(args: argparse.Namespace) -> dict[str, object]:
    """The options of :meth:`Options.add_data`, as arguments of the functions that read data sets.

    An OpError is raised if the list of ``--held-out`` cannot be read, or is empty.
    """
    if args.held_out is None:
        return {"strict": args.strict, "hold_out": True}
    where = "train.data_arguments"
    names = [line for line in read_lines(where, args.held_out, "Pass the held_out.txt of a run") if line.strip()]
    if not names:
        raise OpError(where, f"{args.held_out} has no names; expected one in each line",
                      "Pass the held_out.txt of a run")
    return {"strict": args.strict, "hold_out": names}


def check_root(root: str | os.PathLike | None, where: str) -> None:
    """Raise an OpError if the root is a file, unless the file names both parts, as ``.data`` and YAML files do."""
    if root is not None and os.path.isfile(root) and not is_data_file(root) and not is_data_yaml(os.fspath(root)):
        raise OpError(where, f"--data {root} is a file; expected the folder that has the images to train on and those "
                      "held out", "Name its folder")


def _check_sizes(part, size):
    """Raise an OpError if an image is so narrow that it would have no pixel in a letterbox."""
    for index in progress(range(len(part)), "checking sizes"):
        image_size = part.size(index)
        with about_image(part, index):
            data.letterbox_boxes(np.zeros((0, 4)), image_size, (size, size))
