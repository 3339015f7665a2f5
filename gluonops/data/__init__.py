"""Data to try the layers on, and Darknet's preprocessing."""
from .digits import Split, digits
from .letterbox import Letterbox, Resize, letterbox, letterbox_boxes, resize, unletterbox_boxes

__all__ = ["Letterbox", "Resize", "Split", "digits", "letterbox", "letterbox_boxes", "resize", "unletterbox_boxes"]
