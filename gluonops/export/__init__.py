"""Exports nets as symbol JSON for any backend, and as ONNX.

An export is a pipeline. An :class:`ExportedModel` is made from a net or from files, the passes in
:mod:`gluonops.export.passes` make other models of it, and the last one is saved as symbol JSON or converted to ONNX.
:func:`symbol`, :func:`rewrite`, :func:`onnx` and :func:`quantize` are such pipelines.
"""
from .model import ExportedModel
from .onnx import onnx
from .picture import picture
from .quantize import Quantized, QuantizedLayer, quantize
from .symbol import rewrite, symbol
from .warning import ExportWarning

__all__ = ["ExportWarning", "ExportedModel", "Quantized", "QuantizedLayer", "onnx", "picture", "quantize", "rewrite",
           "symbol"]
