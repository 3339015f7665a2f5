"""The registry of formats: the data sets by name and task, and the class that reads each of them.

:func:`gluonops.data.detection`, :func:`gluonops.data.classification`, and the choices of the command and of the scripts
follow it, and a test compares the tables of the documentation with it. A new format needs a row here and a module in
``datasets``. This file imports nothing from the package, because the command loads it before MXNet.
"""
from typing import NamedTuple


class Format(NamedTuple):
    """A format of data sets."""
    name: str              # that users pass
    task: str              # what it is for: "detection" or "classification"
    # ``module:name`` of a callable in ``gluonops.data.datasets``. It takes ``(root, split, **options)`` and returns the
    # data set. If ``rooted`` is False, it takes ``(split=split, **options)``.
    reader: str
    root: str              # description of the root, for the documentation
    rooted: bool = True    # whether the user passes a root. If not, the data is part of a package.
    classes: bool = True   # whether the option ``classes`` is allowed. If not, the classes are fixed.
    marks: tuple = ()      # what of it tells that a folder has this layout: patterns of paths in the folder
    ending: str = ""       # how the name of a file ends that may be in the place of the folder


RECORD_FILES = "a folder with `train.rec` and `val.rec` in MXNet's RecordIO format, or one `.rec` file"
RECORDS = ("train.rec", "val.rec", "valid.rec", "test.rec")
FORMATS = (
    Format("digits", "detection", "scenes:DigitScenes", "not used: the scenes are composed of scikit-learn's digits",
           rooted=False, classes=False),
    Format("voc", "detection", "voc:VOC", "a folder in the layout of Pascal VOC",
           marks=("ImageSets/Main", "VOC2007/ImageSets/Main", "VOC2012/ImageSets/Main")),
    Format("coco", "detection", "coco:COCO", "a folder in the layout of COCO, with `annotations/`",
           marks=("annotations/*.json",)),
    Format("yolo", "detection", "yolo:Yolo", "a folder in the layout of Darknet: per image one `.txt` file, with a "
           "line `class x y w h` per object", marks=("labels", "train/labels", "train.txt", "*.names"), ending=".data"),
    Format("rec", "detection", "records:DetectionRecords", RECORD_FILES, marks=RECORDS, ending=".rec"),
    Format("digits", "classification", "digits:DigitImages", "not used: the digits are part of scikit-learn",
           rooted=False),
    Format("mnist", "classification", "digits:DigitImages", "a folder with the four files of MNIST",
           marks=("train-images-idx3-ubyte*",)),
    Format("folder", "classification", "image_folder:ImageFolder", "a folder with `train` and `val`, which have one "
           "folder of images per class", marks=("train/*/", "val/*/", "valid/*/", "test/*/"), ending=".data"),
    Format("rec", "classification", "records:ClassificationRecords", RECORD_FILES, marks=RECORDS, ending=".rec"),
)


def format_names(task: str) -> tuple:
    """The names that :func:`gluonops.data.detection` or ``classification`` takes. The scripts' default is the first.

    Parameters
    ----------
    task : {"detection", "classification"}
        What the data sets are for.
    """
    return tuple(entry.name for entry in FORMATS if entry.task == task)
