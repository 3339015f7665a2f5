"""Data sets for training and fine-tuning, and the transforms that prepare images for a net.

``detection`` and ``classification`` return data sets by name. :mod:`gluonops.data.formats` lists the formats.
``Augmented`` and ``Letterboxed`` turn their items into the input of a net. ``Batches``, ``detection_batch`` and
``validation_batch`` make batches with Gluon's DataLoader.
"""
from . import moved
from .anchors import anchors_of, kmeans
from .average_precision import coco_average_precision
from .base import DetectionDataset
from .datasets.data_file import DataFile, read_data_file
from .datasets.digits import Split, digits
from .datasets.image_folder import ImageFolder
from .datasets.scenes import DigitScenes
from .datasets.shapes import ShapeScenes
from .load import classification, detection, format_names
from .transforms.augment import Augment
from .transforms.cropping import Crop, Turn
from .transforms.letterbox import Letterbox, Resize, letterbox, letterbox_boxes, resize, unletterbox_boxes
from .transforms.pipeline import (
    Augmented,
    Batches,
    Letterboxed,
    SampleKey,
    Stretched,
    detection_batch,
    validation_batch,
)

__all__ = ["Augment", "Augmented", "Batches", "Crop", "DataFile", "DetectionDataset", "DigitScenes", "ImageFolder",
           "Letterbox", "Letterboxed", "Resize", "SampleKey", "ShapeScenes", "Split", "Stretched", "Turn", "anchors_of",
           "classification", "coco_average_precision", "detection", "detection_batch", "digits", "format_names",
           "kmeans", "letterbox", "letterbox_boxes", "read_data_file", "resize", "unletterbox_boxes",
           "validation_batch"]

_BASE = {"Detection": "DetectionDataset", "LEAST": "MIN_BOX_SIZE", "named": "about_image", "names_of": "class_names"}
moved.install(__name__, {
    "detection": (f"{__name__}.base", _BASE),
    "classification": (f"{__name__}.datasets.image_folder", {}),
    "coco": (f"{__name__}.datasets.coco", {}),
    "digits": (f"{__name__}.datasets.digits", {}),
    "idx": (f"{__name__}.datasets.idx", {}),
    "records": (f"{__name__}.datasets.records", {}),
    "scenes": (f"{__name__}.datasets.scenes", {}),
    "voc": (f"{__name__}.datasets.voc", {}),
    "yolo": (f"{__name__}.datasets.yolo", {}),
    "augment": (f"{__name__}.transforms.augment", {}),
    "letterbox": (f"{__name__}.transforms.letterbox", {}),
    "pipeline": (f"{__name__}.transforms.pipeline", {"Pick": "SampleKey", "truth_of": "ground_truth"}),
})


_RENAMED = {"Detection": DetectionDataset, "Pick": SampleKey}


def __getattr__(name: str):
    if name in _RENAMED:
        moved.deprecated(f"{__name__}.{name}", f"{__name__}.{_RENAMED[name].__name__}")
        return _RENAMED[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
