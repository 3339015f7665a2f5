"""The table of converters.

The converter of an operator of MXNet's is a function ``convert(model, call)``. It adds ONNX nodes to the
:class:`.model.Model` for the node that the :class:`.model.Call` describes, and returns the tensors of its outputs.
"""
from __future__ import annotations

from collections.abc import Callable

CONVERTERS = {}   # operator -> function
OPSETS = {}       # operator -> the first version of ONNX's operators that has what it needs, if not all have


def converts(*names: str, opset: int | None = None) -> Callable:
    """Enter the decorated function for these operators. It returns a tensor, or a list of tensors.

    ``opset``: the first version of ONNX's operators that has what they need.
    """
    def enter(function: Callable) -> Callable:
        CONVERTERS.update(dict.fromkeys(names, function))
        if opset is not None:
            OPSETS.update(dict.fromkeys(names, opset))
        return function
    return enter
