"""The registry of formats: the data sets by name and task, and the class that reads each of them.

:func:`gluonops.data.detection`, :func:`gluonops.data.classification`, and the choices of the command and of the scripts
follow it, and a test compares the tables of the documentation with it. A new format needs a row here and a module in
``datasets``. This file imports nothing from the package, because the command loads it before MXNet.
"""
from typing import NamedTuple


class Format(NamedTuple):
    """A format of data sets."""
    name: str              # Users pass it.
    task: str              # what it is for: "detection" or "classification"
    # ``module:name`` of a callable in ``gluonops.data.datasets``. It takes ``(root, split, **options)`` and returns the
    # data set. If ``rooted`` is False, it takes ``(split=split, **options)``.
    reader: str
    rooted: bool = True    # whether the user passes a root. If not, the data is part of a package.
    classes: bool = True   # whether the option ``classes`` is allowed. If not, the classes are fixed.
    marks: tuple = ()      # what of it tells that a folder has this layout: patterns of paths in the folder
    ending: str = ""       # how the name of a file ends that may be in the place of the folder


RECORDS = ("train.rec", "val.rec", "valid.rec", "test.rec")
FORMATS = (
    Format("digits", "detection", "scenes:DigitScenes", rooted=False, classes=False),
    Format("voc", "detection", "voc:VOC", marks=("ImageSets/Main", "VOC2007/ImageSets/Main", "VOC2012/ImageSets/Main")),
    Format("coco", "detection", "coco:COCO", marks=("annotations/*.json",)),
    Format("yolo", "detection", "darknet:Yolo", marks=("labels", "train/labels", "train.txt", "*.names"),
           ending=".data"),
    Format("rec", "detection", "records:DetectionRecords", marks=RECORDS, ending=".rec"),
    Format("digits", "classification", "digits:DigitImages", rooted=False),
    Format("mnist", "classification", "digits:DigitImages", marks=("train-images-idx3-ubyte*",)),
    Format("folder", "classification", "image_folder:ImageFolder", marks=("train/*/", "val/*/", "valid/*/", "test/*/"),
           ending=".data"),
    Format("rec", "classification", "records:ClassificationRecords", marks=RECORDS, ending=".rec"),
)


def format_names(task: str) -> tuple:
    """The names that :func:`gluonops.data.detection` or ``classification`` takes. The scripts' default is the first.

    Parameters
    ----------
    task : {"detection", "classification"}
        What the data sets are for.
    """
    return tuple(entry.name for entry in FORMATS if entry.task == task)
