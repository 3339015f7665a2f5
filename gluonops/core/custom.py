"""Contract -> ``mx.operator.CustomOpProp`` and ``CustomOp``. Write, add and null requests are handled here, once."""
from __future__ import annotations

import ctypes
import functools
import sys
import threading
import types
from collections.abc import Callable, Iterable

import mxnet as mx
import numpy as np

from . import errors, labels, native, rtc
from .contract import Op
from .dims import UNKNOWN
from .registry import Entry

Arrays = list[mx.nd.NDArray]
Targets = dict[str, tuple[str, mx.nd.NDArray]]   # name -> request, array


def guarded(body: bool) -> Callable:
    """Remember what a callback raises, so that it reaches the user (see :mod:`gluonops.core.errors`)."""
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


class Operator(mx.operator.CustomOp):
    """Runs one node: the CUDA kernel on a GPU, the native one on a CPU, the reference in ``mx.nd`` where neither is."""

    def __init__(self, entry: Entry, attrs: tuple):
        super().__init__()
        self.op, self.reference, self.attrs = entry.op, entry.reference, attrs

    @property
    def where(self) -> str:
        """Who complains in an OpError."""
        return self.op.name

    @guarded(body=True)
    def forward(self, is_train: bool, req: list[str], in_data: Arrays, out_data: Arrays, aux: Arrays) -> None:
        in_data, out_data = _vectors(in_data), _vectors(out_data)
        op, inputs = self.op, _named(self.op.inputs, in_data)
        if labels.checking():
            labels.check(op, self.attrs, inputs)
        if _empty(out_data):
            return
        targets = {out.name: (request, array) for out, request, array in zip(op.outputs, req, out_data)}
        if rtc.usable(in_data[0].context):
            shapes = {name: array.shape for name, array in inputs.items()}
            if rtc.launch(op, "forward", self.attrs, shapes, inputs, targets):
                return
        if native.has(op) and in_data[0].context.device_type != "gpu":
            self._run_native(native.forward(op), in_data, targets)
            return
        results = self.reference.forward(mx.nd, self.attrs, *self._widened(inputs).values())
        results = results if isinstance(results, tuple) else (results,)
        self._store(targets, _named(op.outputs, results))

    @guarded(body=True)
    def backward(self, req: list[str], out_grad: Arrays, in_data: Arrays, out_data: Arrays, in_grad: Arrays,
                 aux: Arrays) -> None:
        out_grad, in_data, out_data, in_grad = map(_vectors, (out_grad, in_data, out_data, in_grad))
        op, targets = self.op, {}
        for arg, request, grad in zip(op.inputs, req, in_grad):
            if arg.has_gradient(self.attrs):
                targets[arg.name] = request, grad
            elif request in ("write", "inplace"):
                grad[:] = 0
        wanted = {name: grad for name, (request, grad) in targets.items() if request != "null"}
        if not wanted:
            return
        available = {**_named(op.inputs, in_data), **_named(op.outputs, out_data),
                     **{f"{out.name}_grad": grad for out, grad in zip(op.outputs, out_grad)}}
        tensors = {name: available[name] for name in op.backward}
        if _empty([*tensors.values(), *wanted.values()]):   # a sum over nothing
            for request, grad in targets.values():
                if request in ("write", "inplace"):
                    grad[:] = 0
            return
        shapes = op.infer_shape(self.attrs, {name.replace("_grad", ""): array.shape
                                             for name, array in {**tensors, **wanted}.items()})
        context = next(iter(wanted.values())).context
        if rtc.usable(context):
            if rtc.launch(op, "backward", self.attrs, shapes, tensors, targets):
                return
        if native.has(op) and context.device_type != "gpu":
            self._backward_native(shapes, tensors, targets, context)
            return
        self._store(targets, self.reference.backward(mx.nd, self.attrs, shapes, **self._widened(tensors)))

    def _run_native(self, function: Callable, arguments: Arrays, targets: Targets) -> None:
        """Call a function of the library; where every target is to be written, straight into it."""
        strings = self.op.strings(self.attrs)
        if all(request in ("write", "inplace") for request, _ in targets.values()):
            function(*arguments, out=[array for _, array in targets.values()], **strings)
            return
        results = function(*arguments, **strings)
        self._store(targets, dict(zip(targets, results if isinstance(results, list) else [results])))

    def _backward_native(self, shapes: dict[str, tuple], tensors: dict[str, mx.nd.NDArray], targets: Targets,
                         context: mx.Context) -> None:
        """The native gradient takes every tensor and gives every gradient.

        Placeholders replace missing tensors.
        """
        op, variables = self.op, self.op.type_vars(self.attrs)
        dtypes = {variables[name]: array.dtype for name, array in tensors.items()}
        dtypes.update((variables[name], array.dtype) for name, (request, array) in targets.items() if request != "null")

        def placeholder(name: str, shape: tuple) -> mx.nd.NDArray:   # never read; unknown sizes are arbitrary
            known = [1 if size == UNKNOWN else size for size in shape]
            return mx.nd.empty(known, context, dtypes.get(variables[name], dtypes["T"]))

        names = [f"{out.name}_grad" for out in op.outputs] + [t.name for t in op.tensors]
        arguments = [tensors[name] if name in tensors else placeholder(name, shapes[name.replace("_grad", "")])
                     for name in names]
        # MXNet takes every gradient of a library's operator to be of the first tensor's type.
        everything = {arg.name: targets[arg.name] if arg.name in targets and targets[arg.name][0] != "null"
                      else ("write", placeholder("data", shapes[arg.name])) for arg in op.inputs}
        self._run_native(native.backward(op), arguments, everything)

    def _widened(self, tensors: dict[str, mx.nd.NDArray]) -> dict[str, mx.nd.NDArray]:
        """float16 data as float32, where the contract asks for it."""
        if not self.op.accumulate_fp32:
            return tensors
        variables = self.op.type_vars(self.attrs)
        return {name: array.astype("float32") if variables[name] == "T" and array.dtype == np.float16 else array
                for name, array in tensors.items()}

    @staticmethod
    def _store(targets: Targets, values: dict[str, mx.nd.NDArray]) -> None:
        for name, (request, target) in targets.items():
            if request == "add":
                target[:] = target.astype(values[name].dtype) + values[name]
            elif request != "null":
                target[:] = values[name]


def _named(declared: tuple, arrays: Arrays) -> dict[str, mx.nd.NDArray]:
    return {item.name: array for item, array in zip(declared, arrays)}


def _vectors(arrays: Arrays) -> Arrays:
    """Scalars as vectors of one element, in the same memory: the thread that runs a CustomOp takes their shape to be
    unknown."""
    if all(array.shape for array in arrays):
        return arrays
    with mx.util.np_shape(True):   # where an absent array has the shape None
        return [array.reshape((1,)) if array.shape == () else array for array in arrays]


def _empty(arrays: Arrays) -> bool:
    return any(0 in array.shape for array in arrays)


class Properties(mx.operator.CustomOpProp):
    """What MXNet asks about a node before it runs; the contract answers."""

    entry = None   # set by the subclass that `register` makes

    def __init__(self, **kwargs: str):
        super().__init__(need_top_grad=self.op.reads_head_gradient)
        self._error = None
        try:
            self.attrs = self.op.parse(kwargs)
        except errors.OpError as error:
            # MXNet 1.9.1 dies of an exception in a constructor: raise from the next question instead.
            self._error = error

    @property
    def op(self) -> Op:
        """The contract."""
        return self.entry.op

    @property
    def where(self) -> str:
        """Who complains in an OpError."""
        return self.op.name

    @guarded(body=False)
    def list_arguments(self) -> list[str]:
        if self._error:
            raise self._error
        return [arg.name for arg in self.op.inputs]

    def list_outputs(self) -> list[str]:
        return [out.name for out in self.op.outputs]

    @guarded(body=False)
    def infer_shape(self, in_shape: list[list[int]]) -> tuple[list, list, list]:
        known = {arg.name: tuple(shape) for arg, shape, ndim in zip(self.op.inputs, in_shape, _asked.ndims)
                 if ndim != UNKNOWN}
        shapes = self.op.infer_shape(self.attrs, known)
        return ([list(shapes.get(arg.name, ())) for arg in self.op.inputs],
                [list(shapes.get(out.name, ())) for out in self.op.outputs], [])

    @guarded(body=False)
    def infer_type(self, in_type: list) -> tuple[list, list, list]:
        dtypes = self.op.infer_type(self.attrs, {arg.name: dtype for arg, dtype in zip(self.op.inputs, in_type)})
        as_type = [dtypes[t.name] and np.dtype(dtypes[t.name]).type for t in self.op.tensors]
        return as_type[:len(self.op.inputs)], as_type[len(self.op.inputs):], []

    def declare_backward_dependency(self, out_grad: list[int], in_data: list[int], out_data: list[int]) -> list[int]:
        ids = dict(zip((arg.name for arg in self.op.inputs), in_data))
        ids.update(zip((out.name for out in self.op.outputs), out_data))
        ids.update((f"{out.name}_grad", i) for out, i in zip(self.op.outputs, out_grad))
        return unlisted(ids[name] for name in self.op.backward)

    @guarded(body=False)
    def create_operator(self, ctx: str, in_shapes: list, in_dtypes: list) -> Operator:
        return Operator(self.entry, self.attrs)


# MXNet 1.9.1 keeps one process-wide set of backward dependencies, the last node's, and looks up every node's tensors
# in it: a tensor that one node did not ask for and another one did is "unknown storage type: -1". Two things keep
# operators apart: what ours ask for cannot be found in that set, and ours take an absent tensor as it is.

class _Unlisted(int):
    """An integer that no set finds."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def unlisted(ids: Iterable[int]) -> list[int]:
    """What ``declare_backward_dependency`` of an operator registered here has to return."""
    return [_Unlisted(i) for i in ids]


def _array(handle: ctypes.c_void_p, writable: bool = True, stype: int = 0) -> mx.nd.NDArray:
    return mx.nd.NDArray(handle, writable=writable)


# MXNet says that a tensor's number of dimensions is unknown with -1, and the Python it puts in between makes an empty
# list of it, as of a scalar's shape. So the numbers themselves are kept for ``infer_shape``. It has no way to answer
# that it does not know: what it returns of such a tensor is taken to be a scalar's shape.
_asked = threading.local()
_INFER_SHAPE = (ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int),
                ctypes.POINTER(ctypes.POINTER(mx.base.mx_int)), ctypes.c_void_p)


def _callback_type(*signature: type) -> Callable:
    """``ctypes.CFUNCTYPE``, which for the signature of ``infer_shape`` keeps the numbers of dimensions."""
    make = ctypes.CFUNCTYPE(*signature)
    if signature != _INFER_SHAPE:
        return make

    def with_numbers(entry: Callable) -> Callable:
        def infer_shape(count, ndims, sizes, state):
            _asked.ndims = ndims[:count]
            return entry(count, ndims, sizes, state)
        return make(infer_shape)
    return with_numbers


def register(entry: Entry) -> None:
    """Register an operator with MXNet as ``Custom(op_type="gluonops_<name>")``."""
    add(entry.op.graph_name, type(f"{entry.op.name.title().replace('_', '')}Properties", (Properties,),
                                  {"entry": entry}))


def add(op_type: str, prop: type) -> None:
    """Register a CustomOpProp whose dependencies are :func:`unlisted`."""
    _register(op_type)(prop)


def _print_unless_remembered(text: str) -> None:
    """Print MXNet's traceback of a callback that failed, unless the user gets its OpError as an exception."""
    if not isinstance(sys.exc_info()[1], errors.OpError):
        print(text)


# MXNet's own `register` with three of its global names replaced, for the operators registered here and no others.
_register = types.FunctionType(mx.operator.register.__code__, {
    **vars(mx.operator), "_ndarray_cls": _array, "CFUNCTYPE": _callback_type, "print": _print_unless_remembered})
