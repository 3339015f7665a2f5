"""Runs nets from files on images: exported ones, as symbol JSON or ONNX, and Darknet's.

:func:`load` reads what a file says of itself, and returns a :class:`LoadedDetector` or a :class:`LoadedClassifier`.
"""
from .load import load
from .nets import LoadedClassifier, LoadedDetector
from .results import Detection, Prediction

__all__ = ["Detection", "LoadedClassifier", "LoadedDetector", "Prediction", "load"]
