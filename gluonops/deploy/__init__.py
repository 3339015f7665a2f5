"""Runs nets from files on images: nets that were exported as symbol JSON or ONNX, and Darknet's.

:func:`load` reads a net and the metadata in its file, and returns a :class:`LoadedDetector` or a
:class:`LoadedClassifier`.
"""
