"""Shows an observer every call that one thread makes to MXNet's C library, while it is inside a ``with`` block.

All of MXNet's Python goes through ``mxnet.base._LIB``, the ctypes library: operators, views, copies from and to NumPy.
While a thread is observed, some functions of that object are replaced by ones that ask who calls. Calls of other
threads pass through. When the last observed thread has left its block, the object is what it was before.
"""
from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import Any

import mxnet as mx

from ...backends import emitter

_LIB = mx.base._LIB
_lock = threading.Lock()
_observers: dict[int, Any] = {}   # the number of a thread -> its observer
_undo: list[Callable[[], None]] = []
ABSENT = object()


@contextlib.contextmanager
def observed(observer: Any) -> Iterator[None]:
    """Let an observer see this thread's calls. It has a method for each event; see :class:`.tape.Tape`.

    While a method runs, the calls that it makes itself are not shown to it.
    """
    thread = threading.get_ident()
    with _lock:
        if not _observers:
            try:
                _install()
            except BaseException:
                _uninstall()
                raise
        before = _observers.get(thread)
        _observers[thread] = observer
    try:
        yield
    finally:
        with _lock:
            if before is None:
                del _observers[thread]
            else:   # A net that is recorded records another one.
                _observers[thread] = before
            if not _observers:
                _uninstall()


def current() -> Any:
    """The observer of this thread, if it has one and that is not at work itself."""
    observer = _observers.get(threading.get_ident())
    return None if observer is None or observer.is_busy else observer


def _install() -> None:
    for name, event in EVENTS.items():
        _replace(_LIB, name, _asking(getattr(_LIB, name), event))
    _replace(_LIB, "MXNDArrayFree", _forgetting(_LIB.MXNDArrayFree))
    _replace(emitter.Prepared, "__call__", _emitting(emitter.Prepared.__call__))
    _replace(mx.gluon.Block, "__call__", _calling(mx.gluon.Block.__call__))
    for name, function in PACKED.items():
        module = mx.nd.numpy._op._api_internal
        _replace(module, name, _instead(getattr(module, name), function))


def _uninstall() -> None:
    while _undo:
        _undo.pop()()


def _replace(owner: Any, name: str, value: Any) -> None:
    """Set an attribute until :func:`_uninstall`. ctypes keeps a function as an attribute once it was asked for."""
    before = vars(owner).get(name, ABSENT)
    setattr(owner, name, value)
    _undo.append(lambda: delattr(owner, name) if before is ABSENT else setattr(owner, name, before))


def _asking(original: Callable, event: Callable) -> Callable:
    """A function of the library that shows its call to the observer of the thread."""
    def call(*arguments: Any) -> int:
        observer = current()
        if observer is None:
            return original(*arguments)
        with _busy(observer):
            return event(observer, original, *arguments)
    return call


@contextlib.contextmanager
def _busy(observer: Any) -> Iterator[None]:
    observer.is_busy = True
    try:
        yield
    finally:
        observer.is_busy = False


def _forgetting(original: Callable) -> Callable:
    """The function that frees an array, in any thread. Its address may be that of another array afterwards."""
    def free(handle: Any) -> int:
        number = _number(handle)
        for observer in list(_observers.values()):
            observer.forget(number)
        return original(handle)
    return free


def _calling(original: Callable) -> Callable:
    """The method that calls a block. The observer knows in which blocks it is."""
    def __call__(block: mx.gluon.Block, *inputs: Any) -> Any:
        observer = current()
        if observer is None:
            return original(block, *inputs)
        observer.enter(block, inputs)
        try:
            return original(block, *inputs)
        finally:
            observer.leave()
    return __call__


def _emitting(original: Callable) -> Callable:
    """The method that runs an operator of gluonops. The observer sees the operator, and not what computes it."""
    def __call__(self: Any, inputs: tuple, name: str | None) -> Any:
        observer = current()
        if observer is None or not all(isinstance(each, mx.nd.NDArray) for each in inputs):
            return original(self, inputs, name)
        with _busy(observer):
            sources = [observer.read(_number(each.handle)) for each in inputs]
            results = original(self, inputs, name)
            made = results if isinstance(results, tuple) else (results,)
            attrs = {"op_type": self._op.graph_name, **self._op.strings(self._attrs)}
            observer.computed("Custom", attrs, sources, [_number(each.handle) for each in made], False)
            return results
    return __call__


def _instead(original: Callable, function: Callable) -> Callable:
    """A function that an observed thread calls in place of another one, which does not go through the C library's."""
    def call(*arguments: Any) -> Any:
        return original(*arguments) if current() is None else function(*arguments)
    return call


def _number(handle: Any) -> int:
    """The address in a handle, which is a number, a ``c_void_p`` or None."""
    return getattr(handle, "value", handle) or 0


def _target(reference: Any) -> Any:
    """What ``ctypes.byref`` refers to."""
    return reference._obj


def _invoke(observer: Any, original: Callable, operator: Any, count: Any, inputs: Any, number: Any, outputs: Any,
            options: Any, keys: Any, values: Any, *rest: Any) -> int:
    """An operator. ``number`` is 0, and ``outputs`` is filled, unless it writes to arrays that exist."""
    handles = [_number(inputs[i]) for i in range(_number(count))]
    is_given = bool(_target(number).value)
    sources = [observer.read(handle) for handle in handles]
    name = operator_name(operator)
    attrs = {keys[i].decode(): values[i].decode() for i in range(_number(options))}
    written = [_number(outputs._obj[i]) for i in range(_target(number).value)] if is_given else []
    observer.writes(written)
    answer = original(operator, count, inputs, number, outputs, options, keys, values, *rest)
    if answer == 0:
        made = [_number(_target(outputs)[i]) for i in range(_target(number).value)]
        observer.computed(name, attrs, sources, made, is_given)
    return answer


def _invoke_graph(observer: Any, original: Callable, graph: Any, count: Any, inputs: Any, number: Any, outputs: Any,
                  *rest: Any) -> int:
    """A CachedOp: the graph of a hybridized block."""
    sources = [observer.read(_number(inputs[i])) for i in range(_number(count))]
    answer = original(graph, count, inputs, number, outputs, *rest)
    if answer == 0:
        made = [_number(_target(outputs)[i]) for i in range(_target(number).value)]
        observer.ran(_number(graph), sources, made)
    return answer


def _create_graph(observer: Any, original: Callable, symbol: Any, *rest: Any) -> int:
    answer = original(symbol, *rest)
    if answer == 0:
        observer.made_graph(_number(_target(rest[-1])), symbol)
    return answer


def _reshape(observer: Any, original: Callable, handle: Any, ndim: int, sizes: Any, reverse: Any, out: Any) -> int:
    source = observer.read(_number(handle))
    answer = original(handle, ndim, sizes, reverse, out)
    if answer == 0:
        observer.reshaped(source, _number(_target(out)))
    return answer


def _slice(observer: Any, original: Callable, handle: Any, begin: Any, end: Any, out: Any) -> int:
    source = observer.read(_number(handle))
    answer = original(handle, begin, end, out)
    if answer == 0:
        observer.sliced(source, _number(_target(out)), _number(begin), _number(end))
    return answer


def _at(observer: Any, original: Callable, handle: Any, index: Any, out: Any) -> int:
    source = observer.read(_number(handle))
    answer = original(handle, index, out)
    if answer == 0:
        observer.sliced(source, _number(_target(out)), _number(index), _number(index) + 1)
    return answer


def _alias(observer: Any, original: Callable, handle: Any, out: Any) -> int:
    source = observer.read(_number(handle))
    answer = original(handle, out)
    if answer == 0:
        observer.aliased(source, _number(_target(out)))
    return answer


def _detach(observer: Any, original: Callable, handle: Any, out: Any) -> int:
    source = observer.read(_number(handle))
    answer = original(handle, out)
    if answer == 0:
        observer.computed("BlockGrad", {}, [source], [_number(_target(out))], False)
    return answer


def _to_numpy(observer: Any, original: Callable, handle: Any, data: Any, size: Any) -> int:
    source = observer.read(_number(handle))
    answer = original(handle, data, size)
    if answer == 0:
        observer.to_numpy(source, _number(handle), data)
    return answer


def _from_outside(observer: Any, original: Callable, handle: Any, *rest: Any) -> int:
    """Numbers of NumPy's, or those of a sparse array, become an array's."""
    observer.writes([_number(handle)])
    answer = original(handle, *rest)
    if answer == 0:
        observer.overwritten(_number(handle))
    return answer


def _refused(what: str) -> Callable:
    def event(observer: Any, original: Callable, *arguments: Any) -> int:
        observer.refuse(what)
        return original(*arguments)
    return event


EVENTS = {
    "MXImperativeInvokeEx": _invoke, "MXImperativeInvoke": _invoke,
    "MXInvokeCachedOpEx": _invoke_graph, "MXInvokeCachedOp": _invoke_graph,
    "MXCreateCachedOpEx": _create_graph, "MXCreateCachedOp": _create_graph,
    "MXNDArrayReshape64": _reshape, "MXNDArraySlice": _slice, "MXNDArraySlice64": _slice,
    "MXNDArrayAt": _at, "MXNDArrayAt64": _at, "MXShallowCopyNDArray": _alias, "MXNDArrayDetach": _detach,
    "MXNDArraySyncCopyToCPU": _to_numpy, "MXNDArraySyncCopyFromCPU": _from_outside,
    "MXNDArraySyncCopyFromNDArray": _from_outside,
    "MXAutogradBackwardEx": _refused("computes gradients"),
    "MXNDArrayToDLPack": _refused("gives an array to another library through DLPack"),
    "MXNDArrayGetSharedMemHandle": _refused("gives an array to another process"),
}


def _zeros(shape: Any, dtype: str | None, context: str) -> Any:
    return mx.nd.numpy._internal.zeros(shape=shape, dtype=dtype or "float32", ctx=context)


def _tensordot(a: Any, b: Any, axes: Any) -> Any:
    if isinstance(axes, int):
        return mx.nd.numpy._internal.tensordot_int_axes(a, b, axes)
    summed = [(one,) if isinstance(one, int) else tuple(one) for one in axes]
    return mx.nd.numpy._internal.tensordot(a, b, *summed)


# What mx.np calls through packed functions, as the operators that they are.
PACKED = {"zeros": _zeros, "tensordot": _tensordot}


def operator_name(operator: Any) -> str:
    """MXNet's own name of an operator, from its handle."""
    name = ctypes.c_char_p()
    mx.base.check_call(_LIB.MXSymbolGetAtomicSymbolName(ctypes.c_void_p(_number(operator)), ctypes.byref(name)))
    return name.value.decode()
