"""The one registry of formats: the data sets by name and task, and the class that reads each.

Functions (:func:`gluonops.data.detection`, :func:`gluonops.data.classification`), the choices of the command and of the
scripts, and the tables of the documentation follow from it. A new format is a row here and a module in ``datasets``.
This file imports nothing of the package, because the command loads it before MXNet.
"""
from typing import NamedTuple

__all__ = ["FORMATS", "Format", "find", "names", "table"]


class Format(NamedTuple):
    """A format of data sets.

    Attributes
    ----------
    name : str
        As users write it.
    task : {"detection", "classification"}
    reader : str
        ``module:name`` in ``gluonops.data.datasets``, a callable ``(root, split, **options)`` that returns the data
        set; ``(split=split, **options)`` where ``rooted`` is False.
    root : str
        A description of the root.
    rooted : bool
        Whether it has a root; the others are part of a package.
    classes : bool
        Whether it takes the option ``classes``; the others have fixed classes.
    options : tuple of str
        Further options.
    """
    name: str
    task: str
    reader: str
    root: str
    rooted: bool = True
    classes: bool = True
    options: tuple = ()


RECORD_FILES = "MXNet's RecordIO: a folder with train.rec and val.rec, or a `.rec` file"
FORMATS = (
    Format("digits", "detection", "scenes:DigitScenes", "none: scenes composed of scikit-learn's real digits",
           rooted=False, classes=False, options=("size", "count", "objects", "seed")),
    Format("voc", "detection", "voc:VOC", "a folder in VOC's layout", options=("splits",)),
    Format("coco", "detection", "coco:COCO", "COCO's, with `annotations/`"),
    Format("yolo", "detection", "yolo:Yolo", "Darknet's: images with a `.txt` of `class x y w h` beside each"),
    Format("rec", "detection", "records:DetectionRecords", RECORD_FILES),
    Format("digits", "classification", "digits:digit_images", "none: scikit-learn's digits", rooted=False,
           options=("size", "seed")),
    Format("mnist", "classification", "digits:mnist_images", "a folder with MNIST's four files",
           options=("size", "seed")),
    Format("folder", "classification", "image_folder:ImageFolder", "a folder with `train` and `val`, and in each a "
           "folder per class"),
    Format("rec", "classification", "records:ClassificationRecords", RECORD_FILES),
)


def names(task: str) -> tuple:
    """The names of a task's formats, the default first."""
    return tuple(entry.name for entry in FORMATS if entry.task == task)


def find(task: str, name: str) -> Format:
    """The format of a name; KeyError if the task has none of this name."""
    for entry in FORMATS:
        if (entry.task, entry.name) == (task, name):
            return entry
    raise KeyError(name)


def table(task: str) -> str:
    """The formats of a task in Markdown, as the documentation has them."""
    lines = ["| `--dataset` | `--root` |", "|---|---|"]
    entries = [entry for entry in FORMATS if entry.task == task]
    for entry in entries:
        default = " (default)" if entry is entries[0] else ""
        lines.append(f"| `{entry.name}`{default} | {entry.root} |")
    return "\n".join(lines)
