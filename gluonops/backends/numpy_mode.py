"""Arrays and symbols of MXNet's NumPy interface as legacy ones and back, without a copy and with their gradients."""
from __future__ import annotations

import contextlib
import re
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
    """Raise an OpError for arrays or symbols of the mode that is not in force."""
    for number, value in enumerate(inputs):
        if is_np_array() and is_legacy(value):
            raise OpError(where, f"input {number} is a legacy array or symbol, and npx.set_np() is in force; expected "
                          "mx.np arrays or NumPy symbols", "Convert it with .as_np_ndarray()")
        if not is_np_array() and is_numpy(value):
            raise OpError(where, f"input {number} is an array or symbol of mx.np, and npx.set_np() is not in force; "
                          "expected legacy ones", "Call npx.set_np() first, or convert it with .as_nd_ndarray()")


def check_parameters(where: str, net: mx.gluon.Block) -> None:
    """Raise an OpError for a net with parameters of the mode that is not in force."""
    check_one_mode(where, net)
    for parameter in net.collect_params().values():
        if parameter._data is not None and is_numpy(parameter._data[0]) != is_np_array():
            kind, state = ("a legacy array", "in force") if is_np_array() else ("an mx.np array", "not in force")
            raise OpError(where, f"its parameter {parameter.name} is {kind}, and npx.set_np() is {state}",
                          f"{_REMEDIES[not is_np_array()]}, or make and initialize the net again")


_REMEDIES = {True: "Call npx.set_np() first", False: "Call npx.reset_np() first"}   # whether NumPy mode is needed


def layer_of_other_mode(error: BaseException | None) -> str | None:
    """The operator of a layer that was made in the other mode, if an error says so; None if it says something else.

    A layer of Gluon, such as Conv2D, chooses the name of its operator when it is made.
    """
    made = re.fullmatch(r"module 'mxnet\.(?:symbol|ndarray)[\w.]*' has no attribute '(\w+)'", str(error))
    is_known = made and any(hasattr(space, made[1]) for space in (mx.sym, mx.sym.npx))
    return made[1] if is_known else None


def called_operator_of_other_mode(error: Exception) -> str | None:
    """Words for the operator of the other mode that an error says was called, such as ``legacy operator relu``."""
    match = re.search(r"is known as `([\w.]+)` in Python\. This is a (legacy|numpy) operator", str(error))
    return f"{match[2]} operator {match[1]}" if match else None


def of_other_mode(where: str, net: mx.gluon.Block, what: str) -> OpError:
    """Return the OpError for a net of which a part belongs to the mode that is not in force.

    ``what`` is what the net does.
    """
    own, call = ("NumPy mode", "after npx.set_np(), with F.np and F.npx") if is_np_array() else (
        "legacy mode", "without npx.set_np(), with operators of F itself")
    return OpError(where, f"{type(net).__name__} is of {own}, and {what}",
                   f"Make, write and initialize the whole net {call}")


def check_initialized(where: str, net: mx.gluon.Block, parameters: Iterable[mx.gluon.Parameter]) -> None:
    """Raise an OpError if a parameter of a net has neither numbers nor a way to get them."""
    for parameter in parameters:
        if parameter._data is None and not parameter._deferred_init:
            raise OpError(where, f"the parameter {parameter.name} of {type(net).__name__} is not initialized",
                          "Call net.initialize() or net.load_parameters(path) first")


def check_call(block: mx.gluon.Block, inputs: Iterable[Any], error: Exception) -> None:
    """Raise the OpError that says why a call of a block has failed, if modes or missing numbers are the reason.

    ``error`` is what MXNet has raised. Nothing is raised if it has another reason.
    """
    where = block.name
    if isinstance(error.__context__, OpError):   # MXNet quotes what fails while it infers the shapes of parameters.
        raise error.__context__
    if isinstance(error, RuntimeError):
        check_initialized(where, block, block.collect_params().values())
        return
    check_inputs(where, inputs)
    check_parameters(where, block)
    layer = layer_of_other_mode(error) or layer_of_other_mode(error.__context__)
    if layer:
        raise of_other_mode(where, block, f"has a layer of {layer} that was made in the other one")
