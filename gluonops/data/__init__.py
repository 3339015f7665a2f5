"""Data to try the layers on, data sets to fine-tune on, and what prepares images for a net.

``detection`` and ``classification`` return data sets by name; ``Augmented`` and ``Letterboxed`` turn their items into a
net's input; ``Batches``, ``detection_batch`` and ``validation_batch`` make batches of them with Gluon's DataLoader.
"""
from .anchors import anchors_of, kmeans
from .augment import Augment
from .classification import ImageFolder, classification
from .detection import Detection, detection
from .digits import Split, digits
from .letterbox import Letterbox, Resize, letterbox, letterbox_boxes, resize, unletterbox_boxes
from .pipeline import Augmented, Batches, Letterboxed, Pick, detection_batch, validation_batch
from .scenes import DigitScenes

__all__ = ["Augment", "Augmented", "Batches", "Detection", "DigitScenes", "ImageFolder", "Letterbox", "Letterboxed",
           "Pick", "Resize", "Split", "anchors_of", "classification", "detection", "detection_batch", "digits",
           "kmeans", "letterbox", "letterbox_boxes", "resize", "unletterbox_boxes", "validation_batch"]
