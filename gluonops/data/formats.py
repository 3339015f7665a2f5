"""The registry of formats: the data sets by name and task, and the class that reads each of them.

:func:`gluonops.data.detection`, :func:`gluonops.data.classification`, the choices of the command and of the scripts,
and the tables of the documentation use it. A new format needs a row here and a module in ``datasets``. This file
imports nothing from the package, because the command loads it before MXNet.
"""
from typing import NamedTuple

__all__ = ["FORMATS", "Format", "find", "names", "table"]


class Format(NamedTuple):
    """A format of data sets.

    - ``name``: name that users pass.
    - ``task``: "detection" or "classification"; what the data set is for.
    - ``reader``: ``module:name`` of a callable in ``gluonops.data.datasets``. It takes ``(root, split, **options)`` and
      returns the data set. If ``rooted`` is False, it takes ``(split=split, **options)``.
    - ``root``: description of the root, for the documentation.
    - ``rooted``: whether the user passes a root. If not, the data is part of a package.
    - ``classes``: whether the option ``classes`` is allowed. If not, the classes are fixed.
    - ``options``: names of further options.
    - ``marks``: what of it tells that a folder has this layout: patterns of paths in the folder.
    - ``ending``: how the name of a file ends that may be in the place of the folder.
    """
    name: str
    task: str
    reader: str
    root: str
    rooted: bool = True
    classes: bool = True
    options: tuple = ()
    marks: tuple = ()
    ending: str = ""


RECORD_FILES = "a folder with `train.rec` and `val.rec` in MXNet's RecordIO format, or one `.rec` file"
RECORDS = ("train.rec", "val.rec", "valid.rec", "test.rec")
FORMATS = (
    Format("digits", "detection", "scenes:DigitScenes", "not used: the scenes are composed of scikit-learn's digits",
           rooted=False, classes=False, options=("size", "count", "objects", "seed")),
    Format("voc", "detection", "voc:VOC", "a folder in the layout of Pascal VOC", options=("splits",),
           marks=("ImageSets/Main", "VOC2007/ImageSets/Main", "VOC2012/ImageSets/Main")),
    Format("coco", "detection", "coco:COCO", "a folder in the layout of COCO, with `annotations/`",
           marks=("annotations/*.json",)),
    Format("yolo", "detection", "yolo:Yolo", "a folder in the layout of Darknet: per image one `.txt` file, with a "
           "line `class x y w h` per object", marks=("labels", "train/labels", "train.txt", "*.names"), ending=".data"),
    Format("rec", "detection", "records:DetectionRecords", RECORD_FILES, marks=RECORDS, ending=".rec"),
    Format("digits", "classification", "digits:digit_images", "not used: the digits are part of scikit-learn",
           rooted=False, options=("size", "seed")),
    Format("mnist", "classification", "digits:mnist_images", "a folder with the four files of MNIST",
           options=("size", "seed"), marks=("train-images-idx3-ubyte*",)),
    Format("folder", "classification", "image_folder:ImageFolder", "a folder with `train` and `val`, which have one "
           "folder of images per class", marks=("train/*/", "val/*/", "valid/*/", "test/*/"), ending=".data"),
    Format("rec", "classification", "records:ClassificationRecords", RECORD_FILES, marks=RECORDS, ending=".rec"),
)


def names(task: str) -> tuple:
    """The names of a task's formats. The first is the default."""
    return tuple(entry.name for entry in FORMATS if entry.task == task)


def find(task: str, name: str) -> Format:
    """The format with a name. KeyError if the task has no such format."""
    for entry in FORMATS:
        if (entry.task, entry.name) == (task, name):
            return entry
    raise KeyError(name)


def table(task: str) -> str:
    """The formats of a task as a Markdown table, for the documentation."""
    lines = ["| `--dataset` | `--data` |", "|---|---|"]
    entries = [entry for entry in FORMATS if entry.task == task]
    for entry in entries:
        default = " (default)" if entry is entries[0] else ""
        lines.append(f"| `{entry.name}`{default} | {entry.root} |")
    return "\n".join(lines)
