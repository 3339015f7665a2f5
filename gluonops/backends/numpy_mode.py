"""Arrays and symbols of MXNet's NumPy interface as legacy ones and back, without a copy and with their gradients."""
from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import mxnet as mx
from mxnet.util import is_np_array, np_array, np_shape

from ..contract.errors import OpError

NUMPY = (mx.np.ndarray, mx.sym.np._Symbol)
LEGACY = (mx.nd.NDArray, mx.sym.Symbol)   # the classes of NUMPY derive from them


def is_numpy(value: Any) -> bool:
    """Return whether a value is an array or a symbol of the NumPy interface."""
    return isinstance(value, NUMPY)


def is_legacy(value: Any) -> bool:
    """Return whether a value is a legacy array or symbol."""
    return isinstance(value, LEGACY) and not isinstance(value, NUMPY)


def to_legacy(value: Any) -> Any:
    """Return the value with each NumPy array or symbol as a legacy one, also in tuples, lists and dictionaries."""
    if isinstance(value, mx.np.ndarray):
        return value.as_nd_ndarray()
    if isinstance(value, mx.sym.np._Symbol):
        return value.as_nd_ndarray()
    return _of_items(to_legacy, value)


def to_numpy(value: Any) -> Any:
    """Return the value with each legacy array or symbol as one of the NumPy interface."""
    if is_legacy(value):
        return value.as_np_ndarray()
    return _of_items(to_numpy, value)


def _of_items(convert: Any, value: Any) -> Any:
    """Return the value itself, or a collection of its converted items if it is a collection."""
    if isinstance(value, Mapping):
        return {key: convert(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(convert, value))
    return value


def are_numpy(values: Iterable[Any]) -> bool:
    """Return whether some values belong to the NumPy interface, and none to the legacy one."""
    values = list(values)
    return any(map(is_numpy, values)) and not any(map(is_legacy, values))


def handed_over(value: Any) -> Any:
    """Return fresh legacy outputs as NumPy ones, which own the memory from now on.

    Nobody may use the legacy outputs afterwards.

    ``as_np_ndarray`` makes a second handle, which takes longer than a small operator.
    """
    if isinstance(value, tuple):
        return tuple(map(handed_over, value))
    if not isinstance(value, mx.nd.NDArray):
        return value.as_np_ndarray()
    result = mx.np.ndarray(handle=value.handle)
    value.handle = None   # MXNet frees nothing for it
    return result


def is_numpy_net(net: mx.gluon.Block) -> bool:
    """Return whether a net was made for NumPy mode.

    The arrays of its parameters decide. A net without values belongs to the mode in force.
    """
    for parameter in net.collect_params().values():
        if parameter._data is not None:
            return is_numpy(parameter._data[0])
    return is_np_array()


def check_one_mode(where: str, net: mx.gluon.Block) -> None:
    """Raise an OpError for a net in which some parameters are arrays of the NumPy interface, and others legacy ones."""
    first = {}
    for parameter in net.collect_params().values():
        if parameter._data is not None:
            first.setdefault(is_numpy(parameter._data[0]), parameter.name)
    if len(first) > 1:
        raise OpError(where, f"{type(net).__name__} is half in each mode: its parameter {first[True]} is an mx.np "
                      f"array, and {first[False]} a legacy one", "Make and initialize the whole net either after "
                      "npx.set_np() or without it, and load its parameters then")


@contextlib.contextmanager
def mode(active: bool) -> Iterator[None]:
    """Switch NumPy mode on, or off, inside the ``with`` block, whatever is in force outside.

    MXNet refuses NumPy's arrays without NumPy's shapes, so the arrays are switched on last, and off first.
    """
    with np_array(False), np_shape(active), np_array(active):
        yield


@contextlib.contextmanager
def fresh_variables(net: mx.gluon.Block) -> Iterator[None]:
    """Let each parameter of a net make a new variable inside the ``with`` block: one of the mode in force.

    Otherwise a parameter keeps the variable that it has made first, which belongs to the mode of that time.
    """
    parameters = list(net.collect_params().values())
    kept = [parameter._var for parameter in parameters]
    for parameter in parameters:
        parameter._var = None
    try:
        yield
    finally:
        for parameter, variable in zip(parameters, kept):
            parameter._var = variable


def array(values: Any, dtype: Any) -> mx.nd.NDArray:
    """Return an array of the mode in force, as a parameter's ``set_data`` takes it."""
    return (mx.np.array if is_np_array() else mx.nd.array)(values, dtype=dtype)


def check_inputs(where: str, inputs: Iterable[Any]) -> None:
    """Raise an OpError for legacy arrays or symbols in NumPy mode."""
    for number, value in enumerate(inputs):
        if is_legacy(value):
            raise OpError(where, f"input {number} is a legacy array or symbol, and npx.set_np() is in force; expected "
                          "mx.np arrays or NumPy symbols", "Convert it with .as_np_ndarray()")
