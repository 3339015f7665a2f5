"""Data sets for training and fine-tuning, and the transforms that prepare images for a net.

``detection`` and ``classification`` return data sets by name. :mod:`gluonops.data.formats` lists the formats.
``Augmented`` and ``Letterboxed`` turn their items into the input of a net. ``Batches``, ``detection_batch`` and
``validation_batch`` make batches with Gluon's DataLoader.

An argument out of range, or a package that is missing, is an OpError.
"""
from .anchors import anchors_of, kmeans
from .average_precision import coco_average_precision
from .base import DetectionDataset
from .by_name import classification, detection, recognize
from .datasets.darknet import DataFile, read_data_file
from .datasets.digits import Split, digits
from .datasets.image_folder import ImageFolder
from .datasets.scenes import DigitScenes, ShapeScenes
from .formats import format_names
from .images import image_files
from .transforms.augment import Augment, Crop, Turn
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
           "image_files", "kmeans", "letterbox", "letterbox_boxes", "read_data_file", "recognize", "resize",
           "unletterbox_boxes", "validation_batch"]
