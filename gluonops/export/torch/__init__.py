"""PyTorch: a converter for each operator, and the function that writes a net's source, weights and test."""
from .write import torch

__all__ = ["torch"]
