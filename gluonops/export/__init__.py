"""Exports nets as symbol JSON for any backend, and as ONNX.

An export is a pipeline. An :class:`ExportedModel` is made from a net or from files, the passes in
:mod:`gluonops.export.passes` make other models of it, and the last one is saved as symbol JSON or converted to ONNX.
:func:`symbol`, :func:`rewrite`, :func:`onnx` and :func:`quantize` are such pipelines.
:func:`load` goes the other way: it makes a detector or a classifier of the files, which takes pictures.
"""
import importlib

from ..runtime import importing

if not importing.is_imported():
    importlib.import_module("gluonops.ops")   # it registers the operators

from .torch import torch
from .warning import ExportWarning

if importing.is_imported():   # gluonops.files reads graphs without MXNet
    from ..deploy.load import load
    from ..deploy.nets import Detection, LoadedClassifier, LoadedDetector, Prediction
    from .compare import Difference, compare
    from .model import ExportedModel
    from .onnx import onnx
    from .picture import picture
    from .preprocessing import Preprocessing
    from .quantize import Quantized, QuantizedLayer, quantize
    from .symbol import rewrite, symbol
    from .torch.home import from_port

__all__ = ["Detection", "Difference", "ExportWarning", "ExportedModel", "LoadedClassifier", "LoadedDetector",
           "Prediction", "Preprocessing", "Quantized", "QuantizedLayer", "compare", "from_port", "load", "onnx",
           "picture", "quantize", "rewrite", "symbol", "torch"]

if not importing.is_imported():
    __getattr__ = importing.refuser(__name__, __all__)
    __all__ = ["ExportWarning", "torch"]
