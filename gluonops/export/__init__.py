"""Ways out of Gluon: symbol JSON for any backend, and ONNX."""
from .nodes import ExportWarning
from .onnx import onnx
from .symbol import rewrite, symbol

__all__ = ["ExportWarning", "onnx", "rewrite", "symbol"]
