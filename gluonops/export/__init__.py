"""Ways out of Gluon: symbol JSON for any backend, and ONNX."""
from .nodes import ExportWarning
from .onnx import onnx
from .picture import picture
from .symbol import rewrite, symbol

__all__ = ["ExportWarning", "onnx", "picture", "rewrite", "symbol"]
