"""The table of converters.

The converter of an operator of MXNet's is a function ``convert(model, call)``. It adds ONNX nodes to the
:class:`.model.Model` for the node that the :class:`.model.Call` describes, and returns the tensors of its outputs.
"""
from __future__ import annotations

from collections.abc import Callable

CONVERTERS = {}   # operator -> function


def converts(*names: str) -> Callable:
    """Enter the decorated function for these operators. It returns a tensor, or a list of tensors."""
    def enter(function: Callable) -> Callable:
        CONVERTERS.update(dict.fromkeys(names, function))
        return function
    return enter
