"""Registers operators that are written in Python with MXNet, so that their errors and shapes reach the right place."""
from __future__ import annotations

import ctypes
import functools
import sys
import threading
import types
from collections.abc import Callable, Iterable

import mxnet as mx

from . import errors

# For messages about Custom nodes that share an op_type: op_type -> the nodes' attribute with the name of the operator,
# and the package that must be imported for the nodes to run.
described: dict[str, tuple[str, str]] = {}


def guarded(body: bool) -> Callable:
    """Decorate a callback so that its errors reach the user; see :mod:`gluonops.core.errors`.

    ``body`` is True for ``forward`` and ``backward``, False for callbacks of a CustomOpProp.
    """
    def wrap(method: Callable) -> Callable:
        @functools.wraps(method)
        def callback(self, *args, **kwargs):
            try:
                return method(self, *args, **kwargs)
            except Exception as error:
                errors.remember(self.where, error, body)
                raise
        return callback
    return wrap


# MXNet 1.9.1 keeps the backward dependencies of the last node in one set for the process, and looks up the tensors of
# every node in it. So a tensor that only another node depends on fails with "unknown storage type: -1". Two things
# separate the operators here: the set does not find their dependencies, and they accept an absent tensor.

class _Unlisted(int):
    """An integer that a set does not find, because it equals only itself."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def unlisted(ids: Iterable[int]) -> list[int]:
    """The ids as ``declare_backward_dependency`` of an operator registered here must return them."""
    return [_Unlisted(i) for i in ids]


def _array(handle: ctypes.c_void_p, writable: bool = True, stype: int = 0) -> mx.nd.NDArray:
    return mx.nd.NDArray(handle, writable=writable)


# MXNet's C API has -1 for an unknown number of dimensions. Its Python makes an empty list of it, which is a scalar's
# shape too. So the numbers of dimensions are kept here for ``infer_shape``. In the other direction there is no remedy:
# MXNet takes an empty shape in the answer for a scalar's.
asked = threading.local()
_INFER_SHAPE = (ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int),
                ctypes.POINTER(ctypes.POINTER(mx.base.mx_int)), ctypes.c_void_p)


def _callback_type(*signature: type) -> Callable:
    """``ctypes.CFUNCTYPE``. For the signature of ``infer_shape`` it keeps the numbers of dimensions."""
    make = ctypes.CFUNCTYPE(*signature)
    if signature != _INFER_SHAPE:
        return make

    def with_numbers(entry: Callable) -> Callable:
        def infer_shape(count, ndims, sizes, state):
            asked.ndims = ndims[:count]
            return entry(count, ndims, sizes, state)
        return make(infer_shape)
    return with_numbers


def add(op_type: str, prop: type) -> None:
    """Register a CustomOpProp whose dependencies are :func:`unlisted`."""
    _register(op_type)(prop)


def _print_unless_remembered(text: str) -> None:
    """Print MXNet's traceback of a callback that failed, unless the user gets its OpError as an exception."""
    if not isinstance(sys.exc_info()[1], errors.OpError):
        print(text)


# MXNet's own `register` with other global names, for the operators registered here only.
_register = types.FunctionType(mx.operator.register.__code__, {
    **vars(mx.operator), "_ndarray_cls": _array, "CFUNCTYPE": _callback_type, "print": _print_unless_remembered})
