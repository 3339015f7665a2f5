"""Finds the C++ library, checks its version and loads it at the first use. If that fails, :func:`reason` says why."""
from __future__ import annotations

import ctypes
import functools
import os
import pathlib
import re
import weakref
from collections.abc import Mapping, Sequence
from ctypes import c_void_p
from typing import Any, Callable

import mxnet as mx
from mxnet._ctypes.ndarray import _imperative_invoke
from mxnet.ndarray import NDArray
from mxnet.ndarray.register import _make_ndarray_function
from mxnet.symbol.register import _make_symbol_function

from ..contract import errors
from ..contract.op import Op
from ..version import __version__
from . import stamp

LIBRARY = pathlib.Path(__file__).resolve().parents[1] / "native" / "libgluonops.so"
BUILD = "python -m gluonops.native.build"
TARGET = "GLUONOPS_NATIVE_TARGET"   # limits the instruction set of the kernels
TARGETS = ("base", "avx2", "avx512")

# What Python calls in the library, with the types of the results. A library of older sources may lack some.
FUNCTIONS = {"gluonops_build_info": ctypes.c_char_p, "gluonops_install_operators": None,
             "gluonops_prepare_call": c_void_p, "gluonops_forget_call": None, "gluonops_call": ctypes.c_int,
             "gluonops_call_error": ctypes.c_char_p, "gluonops_target": ctypes.c_char_p,
             "gluonops_threads": ctypes.c_int, "gluonops_set_threads": None,
             "gluonops_keep_blocks": ctypes.c_int, "gluonops_kept_bytes": ctypes.c_int64, "gluonops_place": None,
             "gluonops_honours_requests": ctypes.c_bool}

COMPUTED, NOT_NOW, REFUSED = range(3)   # the answers of gluonops_call; see direct.cc


def library_path() -> str:
    """Return where the library is expected: ``GLUONOPS_LIBRARY``, or beside the package's C++ sources.

    A process without gluonops can load the file by itself: ``mx.library.load(path)``.
    """
    return os.path.abspath(os.environ.get("GLUONOPS_LIBRARY") or LIBRARY)


def loaded() -> bool:
    """Return whether MXNet has the operators ``gluonops_<op>``."""
    return reason() is None


def has(op: Op) -> bool:
    """Return whether the library is loaded and has this operator."""
    return loaded() and hasattr(mx.nd, op.graph_name)


def function(name: str) -> Callable:
    """Return a function of the loaded library, one of ``FUNCTIONS``. Other threads of Python run meanwhile."""
    return getattr(_library()[0], name)


@functools.cache
def _opened(path: str) -> ctypes.CDLL:
    """Open a file as the library.

    Raise an OSError if it is not a library, and an AttributeError if it lacks a function.
    """
    library = ctypes.CDLL(path)   # MXNet gets the same copy
    for name, result in FUNCTIONS.items():
        getattr(library, name).restype = result
    return library


def honours_requests() -> bool:
    """Return whether the operators add to a gradient if MXNet requests it. With MXNet 1.9.1 they do."""
    return function("gluonops_honours_requests")()


class LibraryCall:
    """An operator of the library with its attributes, as a function of NDArrays.

    The library parses the attributes once. The calling thread computes a small call whose inputs are ready. MXNet's
    engine computes the others.
    """

    def __init__(self, op: Op, attrs: tuple):
        strings = op.strings(attrs)
        self._attributes = len(strings), mx.base.c_str_array(strings), mx.base.c_str_array(strings.values())
        self._prepared = c_void_p(function("gluonops_prepare_call")(op.graph_name.encode(), *self._attributes))
        if not self._prepared:
            raise _error_of_call()
        forget = weakref.finalize(self, function("gluonops_forget_call"), self._prepared)
        forget.atexit = False   # another thread may be in a call when the process ends
        self._compute, self._operator = function("gluonops_call"), c_void_p(operator_handle(op.graph_name))
        self._inputs, self._outputs = len(op.inputs), range(len(op.inputs), len(op.tensors))
        self._tensors = c_void_p * len(op.tensors)
        self._returned = op.number_returned(attrs)
        self._needs_guards = not honours_requests()

    def __call__(self, inputs: Sequence[NDArray]) -> NDArray | tuple:
        """Return the outputs that the user gets.

        Raise an OpError if the shapes or the dtypes of the inputs are not valid.
        """
        if self._needs_guards and mx.autograd.is_recording():   # see nodes.native_node
            inputs = [mx.nd.identity(value) for value in inputs]
        tensors = self._tensors()   # the handles of the inputs, and behind them those of the outputs
        for i, array in enumerate(inputs):
            tensors[i] = array.handle
        answer = self._compute(self._prepared, tensors)
        if answer == REFUSED:
            raise _error_of_call()
        if answer == NOT_NOW:
            self._run_in_engine(tensors)
        outputs = [NDArray(c_void_p(tensors[i])) for i in self._outputs]
        return outputs[0] if self._returned == 1 else tuple(outputs[:self._returned])

    def _run_in_engine(self, tensors: ctypes.Array) -> None:
        """Let the engine compute the outputs, as MXNet's own Python function does, which makes the strings anew.

        ``tensors`` has the handles of the inputs. Those of the outputs are written behind them.
        """
        number, outputs = ctypes.c_int(0), ctypes.POINTER(c_void_p)()
        mx.base.check_call(mx.base._LIB.MXImperativeInvoke(
            self._operator, self._inputs, tensors, ctypes.byref(number), ctypes.byref(outputs), *self._attributes))
        tensors[self._inputs:] = outputs[:number.value]


def _error_of_call() -> Exception:
    """Return why the library has refused a call."""
    text = function("gluonops_call_error")().decode()
    return errors.from_library(text) or mx.MXNetError(text)


def invoke(name: str, inputs: list[mx.nd.NDArray], options: Mapping[str, Any],
           out: list[mx.nd.NDArray] | None = None) -> mx.nd.NDArray | list[mx.nd.NDArray]:
    """Run an operator of MXNet or of the library by name, also one whose Python function takes no arrays.

    The gradient ``_backward_gluonops_<op>`` takes head gradients, inputs and outputs, and returns gradients of the
    inputs.
    """
    return _imperative_invoke(operator_handle(name), inputs, list(options), list(options.values()), out, False, False)


@functools.cache
def operator_handle(name: str) -> int:
    """MXNet's handle of an operator by name."""
    handle = mx.base.OpHandle()
    mx.base.check_call(mx.base._LIB.NNGetOpHandle(name.encode(), ctypes.byref(handle)))
    return handle.value


@functools.cache
def operator_name(name: str) -> str:
    """MXNet's own name of an operator, of which ``name`` may be an alias: ``elemwise_add`` for ``_Plus``.

    It is ``name`` itself if MXNet has no such operator.
    """
    try:
        handle = mx.base.OpHandle(operator_handle(name))
    except mx.MXNetError:
        return name
    own_name = ctypes.c_char_p()
    mx.base.check_call(mx.base._LIB.MXSymbolGetAtomicSymbolName(handle, ctypes.byref(own_name)))
    return own_name.value.decode()


def reason() -> str | None:
    """Return why the library is not loaded, and what to do about it, or None if it is loaded."""
    return _library()[1]


@functools.cache
def _library() -> tuple[ctypes.CDLL | None, str | None]:
    """Return the library and None, or None and the reason why it is not loaded.

    The library is loaded into MXNet once per process, and MXNet prints nothing about it.

    ``GLUONOPS_NATIVE=0`` switches it off. Raise an OpError if ``GLUONOPS_NATIVE_TARGET`` names no instruction set.
    """
    target = os.environ.get(TARGET)
    if target and target not in TARGETS:
        raise errors.OpError("native", f"{TARGET} is {target!r}; expected {', '.join(TARGETS)}",
                             "Set it to one of these, or unset it")
    path = library_path()
    mismatch = mismatch_reason(path)
    if mismatch:
        return None, mismatch
    try:
        _register(path)
    except mx.MXNetError as error:
        return None, f"MXNet refused {path}: {str(error).strip().splitlines()[-1]}"
    library = _opened(path)
    library.gluonops_install_operators()
    return library, None


def _register(path: str) -> None:
    """Register the library's operators as ``mx.library.load`` does.

    That function also makes the functions of all of MXNet's own operators a second time, which takes a sixth of the
    time of ``import gluonops``.
    """
    before = set(_operator_names())
    mx.base.check_call(mx.base._LIB.MXLoadLib(path.encode(), ctypes.c_uint(0)))
    added = [name for name in _operator_names() if name not in before]
    for package, make in ((mx.nd, _make_ndarray_function), (mx.sym, _make_symbol_function)):
        for name in added:
            function = make(mx.base.OpHandle(operator_handle(name)), name, name)
            function.__module__ = package.__name__.rpartition(".")[2]
            homes = [package._internal] if name.startswith("_") else [package.op, package]
            for home in homes:
                setattr(home, name, function)


def _operator_names() -> list[str]:
    count, names = ctypes.c_uint(), ctypes.POINTER(ctypes.c_char_p)()
    mx.base.check_call(mx.base._LIB.MXListAllOpNames(ctypes.byref(count), ctypes.byref(names)))
    return [name.decode() for name in names[:count.value]]


def mismatch_reason(path: str) -> str | None:
    """Return why the file at ``path`` cannot be loaded by this gluonops and this MXNet, or None if it can."""
    if os.environ.get("GLUONOPS_NATIVE") == "0":
        return "GLUONOPS_NATIVE=0 switches it off"
    if not os.path.isfile(path):
        return f"the C++ library is not built, {path} is missing; run: {BUILD}"
    try:
        damaged = stamp.damage(path)
        if damaged:
            return f"{path} is damaged: {damaged}; run: {BUILD}"
        info = _opened(path).gluonops_build_info().decode()
    except (OSError, AttributeError) as error:
        return f"{path} is not a library of this gluonops: {error}; run: {BUILD}"
    built = dict(re.findall(r"(\w+)=(\S+)", info))
    for name, ours in (("gluonops", __version__), ("mxnet", mx.__version__)):
        if built.get(name) != ours:
            return f"{path} was built for {name} {built.get(name)}, and this is {name} {ours}; run: {BUILD}"
    return None


def instruction_set() -> str | None:
    """Return the instruction set that the kernels use, one of ``TARGETS``, or None if the library is not loaded."""
    return function("gluonops_target")().decode() if loaded() else None


def threads() -> int | None:
    """Return how many threads an operator of the library uses at most, or None if the library is not loaded."""
    return function("gluonops_threads")() if loaded() else None


def set_threads(count: int) -> None:
    """Set how many threads an operator of the library uses at most. Nothing happens if the library is not loaded."""
    if loaded():
        function("gluonops_set_threads")(count)


def keep_blocks(most: int) -> bool:
    """Keep at most so many bytes of the large blocks that MXNet frees. Return whether that is possible here."""
    inside_mxnet = ctypes.cast(mx.base._LIB.MXGetVersion, c_void_p)
    return loaded() and bool(function("gluonops_keep_blocks")(inside_mxnet, ctypes.c_int64(most)))


def kept_bytes() -> int:
    """Return how many bytes of freed blocks are kept now."""
    return function("gluonops_kept_bytes")() if loaded() else 0
