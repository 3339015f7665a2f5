"""Shapes and types of inputs: as users give them, and whether a graph takes them."""
from __future__ import annotations

from typing import Union

import mxnet as mx
import numpy as np

from ..core.errors import OpError

Arrays = dict[str, mx.nd.NDArray]
Shapes = dict[str, tuple[int, ...]]
DataShape = Union[tuple, dict]   # of the only input, or of every input by name


def type_name(where: str, dtype: str | type | np.dtype) -> str:
    """NumPy's name of a type."""
    try:
        return np.dtype(dtype).name
    except TypeError as error:
        raise OpError(where, f"dtype is {dtype!r}; expected a type such as 'float32'", "Use NumPy's names") from error


def input_shapes(where: str, data_shape: DataShape) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every input."""
    shapes = data_shape if isinstance(data_shape, dict) else {"data": data_shape}
    for name, shape in shapes.items():
        if not isinstance(shape, (tuple, list)) or not all(isinstance(n, int) and n > 0 for n in shape) or not shape:
            raise OpError(where, f"the shape of {name} is {shape!r}; expected a tuple of sizes of at least 1, batch "
                          "included", "Pass for instance (1, 3, 224, 224)")
    return {name: tuple(shape) for name, shape in shapes.items()}


def mismatch_reason(symbol: mx.sym.Symbol, shapes: dict, dtypes: dict | None = None) -> str | None:
    """Why variables cannot have these shapes and types; None where they can."""
    try:
        found, _, states = symbol.infer_shape_partial(**shapes)
        if dtypes:
            symbol.infer_type_partial(**dtypes)
    except mx.MXNetError as error:
        return last_line(error)
    names = symbol.list_arguments() + symbol.list_auxiliary_states()
    for name, shape in zip(names, found + states):   # what a batch norm is given MXNet overwrites, and says nothing
        if name in shapes and tuple(shape) != shapes[name]:
            return f"{name} is {shapes[name]}; expected {tuple(shape)}"
    return None


def last_line(error: Exception) -> str:
    """What is left of MXNet's error without its traceback."""
    return str(error).strip().splitlines()[-1]
