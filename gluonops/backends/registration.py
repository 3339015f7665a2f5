"""Registers operators that are written in Python with MXNet, so that their errors and shapes reach the right place.

Classes of users are guarded, too: MXNet 1.9.1 ends the process if the constructor of a CustomOpProp raises an error.
"""
from __future__ import annotations

import ctypes
import functools
import inspect
import sys
import threading
import types
from collections.abc import Callable

import mxnet as mx

from ..contract import errors

# For each op_type that several kinds of nodes share: the attribute that has the name of the operator, and the package
# that must be imported for the nodes to run. Messages about such nodes need both.
described: dict[str, tuple[str, str]] = {}


# MXNet 1.9.1 keeps the backward dependencies of the last node in one set for the process, and looks up the tensors of
# every node in it. So a tensor that only another node depends on fails with "unknown storage type: -1". Two things
# separate the operators here: their dependencies are not kept, and they accept an absent tensor.

class _Empty(set):
    """A set that keeps nothing."""

    def add(self, item: int) -> None:
        pass


def _array(handle: ctypes.c_void_p, writable: bool = True, stype: int = 0) -> mx.nd.NDArray:
    return mx.nd.NDArray(handle, writable=writable)


# MXNet's C API has -1 for an unknown number of dimensions. Its Python makes an empty list of it, which is also the
# shape of a scalar. So the numbers of dimensions are kept here for ``infer_shape``. In the other direction there is no
# remedy: MXNet takes an empty shape in the answer for that of a scalar.
asked = threading.local()
_INFER_SHAPE = (ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int),
                ctypes.POINTER(ctypes.POINTER(mx.base.mx_int)), ctypes.c_void_p)


def _callback_type(*signature: type) -> Callable:
    """Return ``ctypes.CFUNCTYPE(...)``, which for ``infer_shape`` also keeps the numbers of dimensions."""
    make = ctypes.CFUNCTYPE(*signature)
    if signature != _INFER_SHAPE:
        return make

    def with_numbers(callback: Callable) -> Callable:
        def infer_shape(count, ndims, sizes, state):
            asked.ndims = ndims[:count]
            return callback(count, ndims, sizes, state)
        return make(infer_shape)
    return with_numbers


def _remember(text: str) -> None:
    """Keep the error of a callback for the user, whom it reaches as an OpError; see :mod:`gluonops.contract.errors`.

    MXNet calls it, as ``print``, with the traceback, which is printed only if the error is no OpError.
    """
    _, error, trace = sys.exc_info()
    if not isinstance(error, errors.OpError):
        print(text)
    names = trace.tb_frame.f_locals   # the variables of MXNet's function around the callback
    operator = names.get("op") or names.get("op_prop")
    if operator:
        errors.remember(operator.where, error, body=text.startswith("Error in CustomOp."))


def add(op_type: str, prop: type) -> None:
    """Register a CustomOpProp. It and its operators have ``where``, the name for their errors."""
    _register(op_type)(prop)


# MXNet's own `register` with other global names, for the operators registered here only.
_register = types.FunctionType(inspect.unwrap(mx.operator.register).__code__, {
    **vars(mx.operator), "_ndarray_cls": _array, "CFUNCTYPE": _callback_type, "print": _remember, "set": _Empty})


def install() -> None:
    """Let ``mx.operator.register`` guard the constructors of the classes that are registered from now on."""
    original = mx.operator.register
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def register(reg_name: str) -> Callable:
        def register_class(prop: type) -> type:
            original(reg_name)(_guarded(reg_name, prop))
            return prop
        return register_class

    mx.operator.register = register


def _guarded(op_type: str, prop: type) -> Callable:
    """Return the function that MXNet calls in place of the class.

    If the constructor fails, the first method that MXNet calls afterwards raises its error.

    MXNet passes every attribute of a node to the constructor. One such as ``__ctx_group__``, which an ``mx.AttrScope``
    has set, is no argument of the operator, and is left out where the constructor does not take it.
    """
    def make(**attributes: str) -> mx.operator.CustomOpProp:
        try:
            taken = inspect.signature(prop).parameters
            takes_any = any(one.kind is one.VAR_KEYWORD for one in taken.values())
            return prop(**{name: value for name, value in attributes.items()
                           if takes_any or name in taken or not (name.startswith("__") and name.endswith("__"))})
        except Exception as error:
            failure = errors.OpError(f"operator.{op_type}",
                                     f"the constructor of {prop.__name__} raised {type(error).__name__}: {error}",
                                     "Correct the class, or the arguments that are stored in the node")
            failure.__cause__ = error
            return _Failed(failure)

    return make


class _Failed(mx.operator.CustomOpProp):
    """Stands for an instance that could not be made, and raises its error when MXNet asks for the arguments."""

    def __init__(self, failure: errors.OpError):
        super().__init__()
        self._failure = failure

    def list_arguments(self) -> list[str]:
        errors.remember(self._failure.where, self._failure, body=False)
        raise self._failure
