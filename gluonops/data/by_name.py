"""Data sets by name: ``detection("voc", root)``, ``classification("folder", root)``."""
import importlib
import os
from typing import Callable, Optional, Union

from mxnet import gluon

from ..contract.attributes import Attr, Choice
from ..contract.errors import OpError
from . import formats, layouts
from .base import SPLITS, DetectionDataset
from .datasets.data_yaml import is_data_yaml
from .datasets.records import has_boxes
from .formats import format_names
from .repairs import warn_of

Path = Union[str, os.PathLike]


def detection(name: str, root: Optional[Path] = None, split: str = "train", **options) -> DetectionDataset:
    """A data set for detection. All labels are checked before the function returns.

    Labels that do not fit their pictures are repaired where the repair is certain: boxes are clipped, boxes without an
    area and pictures that cannot be read are left out. A RepairWarning counts what was changed, and the data set's
    ``repairs`` has it. docs/fine_tuning.md lists the repairs.

    An OpError is raised if there is no such data set, a folder or file is missing, something is no label at all (the
    message gives its file and line), or a package is not installed.

    Parameters
    ----------
    name : {"digits", "voc", "coco", "yolo", "rec"}
        Name of the format.

        - ``digits``: scenes composed of scikit-learn's digits, see :class:`gluonops.data.DigitScenes`.
        - ``voc``, ``coco``: folders in the layout of these data sets.
        - ``yolo``: a folder in the layout of Darknet or YOLO, with a text file per image.
        - ``rec``: MXNet's RecordIO.

        The modules ``voc``, ``coco``, ``yolo`` and ``records`` of :mod:`gluonops.data.datasets` describe them.
    root : str or os.PathLike
        Folder of the data set; for ``rec`` the folder or the .rec file, for ``yolo`` also a .data file or a data.yaml.
        Not for ``digits``.
    split : {"train", "val"}, default "train"
        Images for training, or held-out images.
    **options
        Options of the data set. For all except ``digits``: ``classes``, a sequence of names, or a file with one name
        per line; ``strict=True``, which makes what would be repaired an OpError; ``hold_out=True``, which holds out a
        fifth of the pictures, the same each time, where the data set has no part for validation. The attribute
        ``held_out`` of the data set has their names, and ``hold_out`` takes names as well. For ``voc`` also ``splits``.
        For ``digits``: ``size``, ``count``, ``objects``, ``seed`` and ``hard``.
    """
    dataset = read("detection", name, root, split, **options)
    warn_of([dataset.repairs])
    return dataset


def classification(name: str, root: Optional[Path] = None, split: str = "train", **options) -> gluon.data.Dataset:
    """A data set for classification. Its items are (image, class id): uint8 (height, width, channels) and int.

    Pass it to :class:`gluonops.data.Augmented` or :class:`gluonops.data.Letterboxed`.

    Parameters
    ----------
    name : {"digits", "mnist", "folder", "rec"}
        Name of the format.

        - ``digits``: scikit-learn's digits.
        - ``mnist``: a folder with the four files of MNIST.
        - ``folder``: a folder of images per class, see :class:`gluonops.data.ImageFolder`.
        - ``rec``: MXNet's RecordIO, see :mod:`gluonops.data.datasets.records`.
    root, split
        As :func:`gluonops.data.detection` takes them.
    **options
        For ``digits`` and ``mnist``: ``size`` and ``seed`` of :func:`gluonops.data.digits`. For ``folder`` and
        ``rec``: ``classes``, ``strict`` and ``hold_out``, as :func:`gluonops.data.detection` takes them.

    Returns
    -------
    gluon.data.Dataset
        Its attribute ``classes`` holds the names. Its attribute ``labels`` holds the class id of each image, int32
        (N,).

    Raises
    ------
    OpError
        There is no such data set, a folder or file is missing or malformed, or a package is not installed.
    """
    dataset = read("classification", name, root, split, **options)
    warn_of([dataset.repairs])
    return dataset


def recognize(path: Optional[Path], task: Optional[str] = None) -> formats.Format:
    """The format of a data set, as the layout of its folder tells it. Its ``name`` is what the other functions take.

    An OpError is raised if there is no such folder, no format has its layout, or the format is for the other task.

    Parameters
    ----------
    path : str or os.PathLike, optional
        The folder; or a .rec file, one of Darknet's .data files, or a data.yaml. None: the digits, which are part of
        scikit-learn.
    task : {"detection", "classification"}, optional
        What the data set shall be for. By default what its labels are for.
    """
    where = "data.recognize"
    candidates = [layout for layout in formats.FORMATS if task in (None, layout.task)]
    if path is None:
        return candidates[0]
    path = os.path.expanduser(os.fspath(path))
    if not os.path.exists(path):
        raise OpError(where, f"there is no file or folder {path}", "Pass the folder of a data set")
    matching = [layout for layout in formats.FORMATS if _has_layout(layout, path)] or _of_classes(path)
    if not matching:
        if os.path.isfile(path):
            endings = dict.fromkeys(ending for layout in formats.FORMATS for ending in layout.endings)
            raise OpError(where, f"{path} is a file; expected a folder, or a file that ends in {', '.join(endings)}",
                          "Pass the folder of the data set")
        raise _unknown(where, path)
    fitting = [layout for layout in matching if layout in candidates] or [
        layout for layout in _of_classes(path) if layout in candidates]
    if not fitting:
        raise OpError(where, f"{path} has the layout {matching[0].name}, which is for {matching[0].task}; expected a "
                      f"layout for {task}", f"Pass a data set for {task}, or run: gluonops train {path}")
    if len(fitting) > 1 and fitting[0].name == fitting[-1].name:   # RecordIO has both kinds of labels
        return fitting[0 if has_boxes(path) else -1]
    return fitting[0]


def _unknown(where: str, path: str) -> OpError:
    """The error for a folder that has no known layout. If a folder inside it has one, the error says so."""
    error = layouts.unknown(where, path, "one of the layouts in docs/fine_tuning.md")
    for name in layouts.files_and_folders(path)[1]:
        inner = os.path.join(path, name)
        layout = next((layout for layout in formats.FORMATS if _has_layout(layout, inner)), None)
        if layout is not None:
            return OpError(where, error.what, f"Pass {inner}, which has the layout {layout.name}")
    return error


def _has_layout(layout: formats.Format, path: str) -> bool:
    if os.path.isfile(path):
        return bool(layout.endings) and path.lower().endswith(layout.endings)
    return any(_is_meant(path_found) for mark in layout.marks for path_found in layouts.matching(path, mark))


def _is_meant(path: str) -> bool:
    """Whether a path that matches a mark really marks the format. A YAML file does so only if it names classes."""
    return is_data_yaml(path) if path.lower().endswith((".yaml", ".yml")) else True


def _of_classes(path: str) -> list[formats.Format]:
    """The format of a folder that has two or more folders of pictures, which are taken as classes."""
    names = layouts.class_folders(path)
    if sum(bool(layouts.pictures_in(os.path.join(path, name))) for name in names) < 2:
        return []
    return [layout for layout in formats.FORMATS if layout.name == "folder"]


def read(task: str, name: str, root: Optional[Path], split: str, **options) -> gluon.data.Dataset:
    """Return what :func:`detection` or :func:`classification` returns, without the warning about repairs."""
    where = f"data.{task}"
    layout = next((layout for layout in formats.FORMATS if (layout.task, layout.name) == (task, name)), None)
    if layout is None:
        raise OpError(where, f"there is no data set {name!r}; there are {', '.join(format_names(task))}",
                      "Choose one of them")
    Attr("split", Choice(*SPLITS), None).parse(where, split)
    if not layout.repairs:   # there is nothing to repair
        options = {key: value for key, value in options.items() if key not in ("strict", "hold_out")}
    if not layout.rooted and root is not None:
        raise OpError(where, f"{name} got root {os.fspath(root)!r}; expected no root, because the digits are part of "
                      "scikit-learn",
                      "Leave root out, or choose another data set")
    if not layout.classes and "classes" in options:
        raise OpError(where, f"{name} got classes; expected none, because its classes are always the ten digits",
                      "Leave classes out")
    if not layout.rooted:
        return _reader(layout)(split=split, **options)
    if root is None:
        raise OpError(where, f"{name} got no root; expected the folder of the data set", "Pass the folder as root")
    return _reader(layout)(os.path.expanduser(os.fspath(root)), split, **options)


def _reader(layout: formats.Format) -> Callable:
    module, name = layout.reader.split(":")
    return getattr(importlib.import_module(f"{__package__}.datasets.{module}"), name)
