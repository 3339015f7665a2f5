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
    # Patterns of paths in a folder. If one of them matches, the folder has this layout. Case does not count. A pattern
    # that ends in a slash means folders that can be classes.
    marks: tuple = ()
    endings: tuple = ()    # how the name of a file ends that may be in the place of the folder
    repairs: bool = True   # whether the options ``strict`` and ``hold_out`` are allowed: the files may be imperfect


RECORDS = ("*.rec",)
XML = ("Annotations", "annots", "annotation", "xmls", "xml", "labels")   # folders of VOC's labels
FORMATS = (
    Format("digits", "detection", "scenes:DigitScenes", rooted=False, classes=False, repairs=False),
    Format("voc", "detection", "voc:VOC", marks=(
        "ImageSets/Main", "VOC*/ImageSets/Main", "VOCdevkit/VOC*/ImageSets/Main", *(f"{name}/*.xml" for name in XML),
        "annotations/xmls/*.xml", *(f"{name}/{split}*/*.xml" for name in XML for split in ("train", "val")),
        *(f"{split}*/{name}/*.xml" for name in XML for split in ("train", "val")), "train*/*.xml", "val*/*.xml",
        "VOC*/Annotations/*.xml", "VOCdevkit/VOC*/Annotations/*.xml")),
    Format("coco", "detection", "coco:COCO", marks=(
        "annotations/*.json", "*.coco.json", "train*/*.json", "val*/*.json", "test*/*.json", "*train*.json",
        "*val*.json", "instances_*.json", "annotations.json", "labels.json", "coco.json", "result.json")),
    Format("yolo", "detection", "yolo:Yolo", marks=(
        "*.yaml", "*.yml", "labels", "train*/labels", "val*/labels", "test*/labels", "train.txt", "train*/*.txt",
        "*.data", "*.names", "classes.txt"), endings=(".data", ".yaml", ".yml")),
    Format("rec", "detection", "records:DetectionRecords", marks=RECORDS, endings=(".rec",)),
    Format("digits", "classification", "digits:DigitImages", rooted=False, repairs=False),
    Format("mnist", "classification", "digits:DigitImages", marks=("train-images-idx3-ubyte*",), repairs=False),
    Format("folder", "classification", "image_folder:ImageFolder",
           marks=("train*/*/", "val*/*/", "test*/*/"), endings=(".data",)),
    Format("rec", "classification", "records:ClassificationRecords", marks=RECORDS, endings=(".rec",)),
)


def format_names(task: str) -> tuple:
    """The names that :func:`gluonops.data.detection` or ``classification`` takes. The scripts' default is the first.

    Parameters
    ----------
    task : {"detection", "classification"}
        What the data sets are for.
    """
    return tuple(layout.name for layout in FORMATS if layout.task == task)
