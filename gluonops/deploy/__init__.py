"""Runs nets from files on images: exported ones, as symbol JSON or ONNX, and Darknet's.

:func:`load` reads what a file says of itself, and returns a :class:`LoadedDetector` or a :class:`LoadedClassifier`.
"""
