"""The kinds of sections of a cfg: a function for each, which makes its layer.

Importing the modules fills ``SECTIONS``.
"""
from . import combining, detecting, plain, pooling, weighted
from .registry import SECTIONS, Kind, Layer, Shape

__all__ = ["SECTIONS", "Kind", "Layer", "Shape", "combining", "detecting", "plain", "pooling", "weighted"]
