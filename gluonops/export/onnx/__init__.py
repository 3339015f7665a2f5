"""ONNX: a converter for each of MXNet's operators, and the function that writes the file."""
from .write import onnx

__all__ = ["onnx"]
