"""Runs an operator on NDArrays, or adds its node to a graph of Symbols, with the backend that is chosen."""
from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Sequence

import mxnet as mx
from mxnet.ndarray import NDArray

from ..contract.attributes import without_mxnet
from ..contract.op import Op
from . import label_checks, native, nodes, numpy_mode
from .backend import available, note_in_traced_block, requested
from .pins import Array


def call(op: Op, arguments: dict) -> Array | tuple:
    """Emit an operator from the arguments of its function: ``return call(OP, locals())``.

    ``arguments`` has a value for each input and attribute of the contract, and ``name``. Others are ignored. The result
    is that of :func:`emit`.
    """
    given, first = op.given_in(arguments), 1 + len(op.inputs)
    values = given[first:]
    item_types = ()
    if op.takes_tuples:
        values = without_mxnet(values)
        item_types = tuple(tuple(map(type, value)) for value in values if isinstance(value, tuple))
    try:
        emitter = _emitter(op, requested(), item_types, *values)
    except TypeError:   # a list or an array has no hash
        emitter = _emitter(op, requested(), (), *_parsed(op, values))
    return emitter.emit(given[1:first], given[0])


def emit(op: Op, inputs: dict, values: dict, name: str | None = None) -> Array | tuple:
    """Run an operator on NDArrays, or add its node to a graph of Symbols.

    In a graph, an input that is None becomes a variable named after the node, as the outputs are with every backend.

    Returns the first output, or a tuple of outputs if the contract returns several.
    """
    return call(op, {**inputs, **op.parse(values)._asdict(), "name": name})


@functools.lru_cache(maxsize=1024, typed=True)
def _emitter(op: Op, name: str, item_types: tuple, *values: typing.Any) -> _Emitter:
    """The emitter for the values of all attributes.

    The types are part of the cache's key, because True equals 1. ``typed`` does not see those of the items of tuples.
    """
    return _Emitter(op, _parsed(op, values), name)


def _parsed(op: Op, values: tuple) -> tuple:
    """Typed attributes from the values of all attributes."""
    return op.parse({attr.name: value for attr, value in zip(op.attrs, values)})


class _Emitter:
    """An operator with its attributes, as one backend emits it.

    ``name``: the backend that is requested. An OpError if it is not available, or does not have the operator.
    """

    def __init__(self, op: Op, attrs: tuple, name: str):
        self._op, self._attrs = op, attrs
        self._names = [arg.name for arg in op.inputs]
        self._build = nodes.builder(op, available(name))
        self._library_call = None
        if self._build is nodes.native_node:
            self._library_call = native.Call(op, attrs)
            self._returned = op.number_returned(attrs)
            self._needs_guards = not native.honours_requests()

    def emit(self, inputs: tuple, name: str | None) -> Array | tuple:
        """Run the operator on NDArrays, or add a node of this name to a graph of Symbols."""
        for value in inputs:
            if type(value) is not NDArray:
                if numpy_mode.are_numpy(inputs):
                    return self._emit_numpy(inputs, name)
                if is_symbolic(self._op.error, self._names, inputs):
                    return self._emit_symbol(inputs, name)
        if self._op.restricts_values and label_checks.checking():
            self._op.validate(self._attrs, inputs)
            label_checks.check(self._op, self._attrs, dict(zip(self._names, inputs)))
        return self._run_build(inputs) if self._library_call is None else self._run_library(inputs)

    def _emit_numpy(self, inputs: tuple, name: str | None) -> Array | tuple:
        """The same for arrays or symbols of the NumPy interface, which the outputs are then, too."""
        with mx.util.np_array(False):
            outputs = self.emit(numpy_mode.to_legacy(inputs), name)
        return numpy_mode.handed_over(outputs)

    def _run_library(self, inputs: Sequence[NDArray]) -> NDArray | tuple:
        """Run the C++ operator. The library validates, in less time: to read a shape takes as long as a small call."""
        if self._needs_guards and mx.autograd.is_recording():   # see nodes.native_node
            inputs = [mx.nd.identity(value) for value in inputs]
        outputs = self._library_call.run(inputs)
        return outputs[0] if self._returned == 1 else tuple(outputs[:self._returned])

    def _run_build(self, inputs: tuple) -> NDArray | tuple:
        """Run the CustomOp, or MXNet's own operators."""
        shapes = self._op.validate(self._attrs, inputs)
        build = self._build
        if build is nodes.builtin_node and any(0 in shape for shape in shapes.values()):
            build = nodes.custom_node   # MXNet's own operators fail on tensors without elements, or end the process
        return build(self._op, mx.nd, self._attrs, inputs, {})

    def _emit_symbol(self, inputs: tuple, name: str | None) -> mx.sym.Symbol | tuple:
        note_in_traced_block()
        name = full_name(name, self._op.name)
        arguments = [mx.sym.var(f"{name}_{key}") if value is None else value
                     for key, value in zip(self._names, inputs)]
        with mx.name.NameManager():   # the name is complete: no block adds its prefix again
            return self._build(self._op, mx.sym, self._attrs, arguments, {"name": name})


def full_name(name: str | None, hint: str) -> str:
    """The name that MXNet would give a node here: with the block's prefix, and from ``hint`` if ``name`` is None."""
    current = mx.name.NameManager._current
    if not hasattr(current, "value"):
        current.value = mx.name.NameManager()
    return current.value.get(name, hint)


def is_symbolic(error: Callable, names: Sequence[str], inputs: Sequence) -> bool:
    """True for Symbols, of which some may be None; False for NDArrays.

    ``error(what, remedy)`` makes the exception for other inputs, whose ``names`` it has.
    """
    kinds = {_kind(value) for value in inputs}
    if "Symbol" in kinds:
        kinds.discard("NoneType")
    if kinds in ({"NDArray"}, {"Symbol"}):
        return kinds == {"Symbol"}
    got = ", ".join(f"{key} is {_kind(value)}" for key, value in zip(names, inputs))
    remedies = [remedy for kind, remedy in _REMEDIES.items() if kind in kinds]
    remedies.append("Convert arrays with mx.nd.array, and do not mix NDArrays with Symbols")
    raise error(f"{got}; expected NDArrays or Symbols", remedies[0])


_REMEDIES = {"mxnet.numpy.ndarray": "Convert it with .as_nd_ndarray()",
             "sparse NDArray": "Convert it with .tostype('default')"}


# The kinds of arrays. The first that fits a value is its kind.
_KINDS = {(mx.np.ndarray, mx.sym.np._Symbol): "mxnet.numpy.ndarray", mx.nd.sparse.BaseSparseNDArray: "sparse NDArray",
          mx.nd.NDArray: "NDArray", mx.sym.Symbol: "Symbol"}


def _kind(value: object) -> str:
    """What a value is, for the text of an error."""
    own = type(value)
    name = own.__name__ if own.__module__ == "builtins" else f"{own.__module__}.{own.__qualname__}"
    return next((words for kind, words in _KINDS.items() if isinstance(value, kind)), name)
