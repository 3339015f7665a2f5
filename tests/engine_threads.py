"""A pytest plugin of ``make coverage``: MXNet's threads are traced too, and workers write the counts of the C++.

MXNet runs the Python of custom operators in threads that it makes in C++. Python gives such a thread a new state at
each call, and a state begins without a trace function: neither ``sys.settrace`` nor ``threading.settrace`` reaches it.
So each function that ctypes makes callable from C sets the trace function first. It must be loaded before MXNet.
"""
from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable

_make_type = ctypes.CFUNCTYPE
_tracers = {}   # Threads have them; a state may go while its thread stays.


def traced(function: Callable) -> Callable:
    """The function, which first traces its thread as ``threading.settrace`` asks for it."""

    @functools.wraps(function)
    def call(*arguments):
        if sys.gettrace() is not None:
            return function(*arguments)
        thread = threading.get_ident()
        sys.settrace(_tracers.get(thread) or threading._trace_hook)
        try:
            return function(*arguments)
        finally:
            _tracers[thread] = sys.gettrace()

    return call


@functools.cache
def traced_type(*signature: type, **options: bool) -> type:
    """``ctypes.CFUNCTYPE``, whose functions are traced."""
    plain = _make_type(*signature, **options)

    class Traced(plain):
        _flags_, _restype_, _argtypes_ = plain._flags_, plain._restype_, plain._argtypes_

        def __new__(cls, *arguments):
            if arguments and callable(arguments[0]):
                arguments = traced(arguments[0]), *arguments[1:]
            return super().__new__(cls, *arguments)

    return Traced


ctypes.CFUNCTYPE = traced_type


def pytest_sessionfinish() -> None:
    """A worker of xdist ends without the handlers of C, which would write the counts."""
    ctypes.CDLL(os.environ["GLUONOPS_LIBRARY"]).gluonops_write_counts()
