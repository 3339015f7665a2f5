"""MXNet's operators, stated once."""
from . import layers  # noqa: F401  (the families fill the tables)
from .registry import having, in_torch, onnx, operator_of, shape, torch, traits, traits_of

__all__ = ["having", "in_torch", "onnx", "operator_of", "shape", "torch", "traits", "traits_of"]
