"""Shapes and types of inputs, and whether a graph takes them."""
from __future__ import annotations

from collections.abc import Callable
from typing import Union

import numpy as np

from ..core.errors import OpError
from ..runtime import importing
from . import rules
from .graph import Graph

if importing.is_imported():
    import mxnet as mx

Arrays = dict[str, "mx.nd.NDArray"]   # NumPy's where MXNet is not installed
Shapes = dict[str, tuple[int, ...]]
DataShape = Union[tuple, dict]   # the only input's shape, or every input's by name


def type_name(where: str, dtype: str | type | np.dtype) -> str:
    """NumPy's name of a type. An OpError if there is no such type."""
    try:
        return np.dtype(dtype).name
    except TypeError as error:
        raise OpError(where, f"dtype is {dtype!r}; expected a type such as 'float32'", "Use NumPy's names") from error


def input_shapes(where: str, data_shape: DataShape) -> dict[str, tuple[int, ...]]:
    """The shape of every input by name; a single shape is that of ``data``. An OpError for anything else."""
    shapes = data_shape if isinstance(data_shape, dict) else {"data": data_shape}
    for name, shape in shapes.items():
        is_sequence = isinstance(shape, (tuple, list)) and len(shape) > 0
        if not is_sequence or not all(isinstance(size, int) and size > 0 for size in shape):
            raise OpError(where, f"the shape of {name} is {shape!r}; expected a tuple of sizes of at least 1, batch "
                          "included", "Pass for instance (1, 3, 224, 224), or for several inputs a dict such as "
                          "{'left': (1, 3, 32, 32), 'right': (1, 9)}")
    return {name: tuple(shape) for name, shape in shapes.items()}


def mismatch_reason(graph: Graph, shapes: dict) -> str | None:
    """Why variables cannot have these shapes; None if they can."""
    if not importing.is_imported():
        return _misfit(rules.infer_shapes, graph, shapes)
    symbol = graph.symbol()
    try:
        arguments, _, states = symbol.infer_shape_partial(**shapes)
    except OpError:
        raise
    except Exception as error:   # MXNetError; and Exception itself, for a tensor of 2^31 elements and more
        return last_line(error)
    names = symbol.list_arguments() + symbol.list_auxiliary_states()
    for name, shape in zip(names, arguments + states):   # MXNet silently overwrites shapes of a batch norm's parameters
        if name in shapes and tuple(shape) != shapes[name]:
            return f"{name} is {shapes[name]}; expected {tuple(shape)}"
    return None


def type_mismatch(graph: Graph, dtypes: dict) -> str | None:
    """Why variables cannot have these types; None if they can."""
    if not importing.is_imported():
        return _misfit(rules.infer_types, graph, dtypes)
    try:
        graph.symbol().infer_type_partial(**dtypes)
    except mx.MXNetError as error:
        return last_line(error)
    return None


def _misfit(infer: Callable, graph: Graph, known: dict) -> str | None:
    """Why the rules cannot infer what follows; None if they can."""
    try:
        infer(graph, known)
    except rules.Misfit as misfit:
        return str(misfit)
    return None


def refused(where: str, shapes: Shapes, reason: str | Exception) -> OpError:
    """The OpError for shapes of inputs that a graph does not take."""
    given = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "its parameters"
    return OpError(where, f"the net refuses the shape of {given}: {reason}",
                   "Pass a shape that it takes, the batch size first, in data_shape, or --data-shape")


def last_line(error: Exception) -> str:
    """The message of MXNet's error without its C++ traceback."""
    return str(error).strip().splitlines()[-1]
