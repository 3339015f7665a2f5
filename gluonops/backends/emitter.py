"""Runs an operator on NDArrays, or adds its node to a graph of Symbols, with the backend that is chosen.

An attribute keeps its name from the user's call to the kernel. ``smoothing`` of ``softmax_cross_entropy``, for example,
passes these stations:

1. ``ops/softmax_cross_entropy/__init__.py``: the function's argument ``smoothing``, which it hands to :func:`call`.
2. :func:`call`: a keyword, and part of the key under which the prepared call is kept.
3. :meth:`gluonops.contract.op.Op.parse`, only at the first call with these values: the field ``smoothing`` of the
   named tuple ``op.Attrs``. ``Attr("smoothing", ...)`` in ``contract.py`` declares its kind, range and default.
4. ``reference.py`` reads ``attrs.smoothing``. In CUDA it becomes a parameter of the kernel and the member
   ``args.smoothing``, see :mod:`gluonops.cuda.record`. The C++ library gets ``op.strings(attrs)`` once, when the call
   is prepared, and parses it into ``SoftmaxCrossEntropyAttrs::smoothing``.
5. ``kernel.cc`` and ``kernel.cu`` read ``args.smoothing``, and ``derived`` in the contract makes ``label_weight`` and
   ``uniform`` of it.

The keywords are handed on as ``**attributes`` because the dict is the fastest key of the cache: a named tuple that each
function makes in its place was measured, and costs a call 1 microsecond of about 15.
"""
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


def call(op: Op, *inputs: Array | None, name: str | None = None, **attributes: typing.Any) -> Array | tuple:
    """Run an operator on NDArrays, or add its node to a graph of Symbols.

    The function of an operator names every attribute: ``return call(OP, data, axis=axis, eps=eps, name=name)``.

    Parameters
    ----------
    op : Op
    *inputs : NDArray or Symbol
        The inputs of the contract, in its order. In a graph, one that is None becomes a variable named after the node,
        as the outputs are with every backend.
    name : str, optional
        Name of the node in a graph.
    **attributes
        The attributes of the contract. One that is left out has its default.

    Returns
    -------
    NDArray, Symbol or tuple
        The first output, or a tuple of outputs if the contract returns several.
    """
    item_types = ()
    if op.takes_tuples:
        attributes = without_mxnet(attributes)
        item_types = tuple(tuple(map(type, value)) for value in attributes.values() if isinstance(value, tuple))
    try:
        prepared = _prepared_for(op, requested(), item_types, **attributes)
    except TypeError:   # a list or an array has no hash
        prepared = _prepared(op, requested(), op.parse(attributes))
    return prepared(inputs, name)


def emit(op: Op, inputs: dict, values: dict, name: str | None = None) -> Array | tuple:
    """Do the same as :func:`call` with the inputs and the attributes in dicts.

    The values of the attributes may also be the strings that a graph has for them.
    """
    return _prepared(op, requested(), op.parse(values))([inputs[arg.name] for arg in op.inputs], name)


@functools.lru_cache(maxsize=1024, typed=True)
def _prepared_for(op: Op, backend: str, item_types: tuple, **attributes: typing.Any) -> Prepared:
    """Return the prepared call for these values of attributes, which are parsed only at the first call with them.

    The types of the values are part of the cache's key, because True equals 1. ``typed`` does not see the types of the
    items in a tuple, so ``item_types`` has them.
    """
    return _prepared(op, backend, op.parse(attributes))


@functools.lru_cache(maxsize=1024)
def _prepared(op: Op, backend: str, attrs: tuple) -> Prepared:
    """Return the prepared call for parsed attributes, of which equal ones also have equal types."""
    return Prepared(op, attrs, backend)


class Prepared:
    """A prepared call: an operator with its parsed attributes, as one backend runs it.

    This is the one place where an operator's inputs are taken and its outputs are handed back, for NDArrays and for
    Symbols.

    Parameters
    ----------
    op : Op
    attrs : tuple
        The parsed attributes, ``op.Attrs``.
    backend : str
        The backend that is requested. An OpError if it is not available, or does not have the operator.
    """

    def __init__(self, op: Op, attrs: tuple, backend: str):
        self._op, self._attrs = op, attrs
        self._names = [arg.name for arg in op.inputs]
        self._node = nodes.builder(op, available(backend))
        self._library_call = native.LibraryCall(op, attrs) if self._node is nodes.native_node else None

    def __call__(self, inputs: Sequence[Array | None], name: str | None) -> Array | tuple:
        """Run the operator on NDArrays, or add a node of this name to a graph of Symbols."""
        for value in inputs:
            if type(value) is not NDArray:
                if numpy_mode.are_numpy(inputs):
                    return self._in_numpy_mode(inputs, name)
                if is_symbolic(self._op.error, self._names, inputs):
                    return self._add_node(inputs, name)
        if self._op.restricts_values and label_checks.checking():
            self._op.validate(self._attrs, inputs)
            label_checks.check(self._op, self._attrs, dict(zip(self._names, inputs)))
        if self._library_call is not None:   # It validates in less time than Python needs to read a shape.
            return self._library_call(inputs)
        shapes, node = self._op.validate(self._attrs, inputs), self._node
        if node is nodes.builtin_node and any(0 in shape for shape in shapes.values()):
            node = nodes.custom_node   # MXNet's own operators fail on tensors without elements, or end the process
        return node(self._op, mx.nd, self._attrs, inputs, {})

    def _in_numpy_mode(self, inputs: Sequence, name: str | None) -> Array | tuple:
        """Run the operator on arrays or symbols of the NumPy interface. The outputs belong to it as well."""
        with mx.util.np_array(False):
            outputs = self(numpy_mode.to_legacy(inputs), name)
        return numpy_mode.handed_over(outputs)

    def _add_node(self, inputs: Sequence, name: str | None) -> mx.sym.Symbol | tuple:
        note_in_traced_block()
        name = full_name(name, self._op.name)
        arguments = [mx.sym.var(f"{name}_{key}") if value is None else value
                     for key, value in zip(self._names, inputs)]
        with mx.name.NameManager():   # the name is complete: no block adds its prefix again
            return self._node(self._op, mx.sym, self._attrs, arguments, {"name": name})


def full_name(name: str | None, hint: str) -> str:
    """Return the name that MXNet would give a node here, with the prefix of the block that is being traced.

    If ``name`` is None, MXNet makes a name from ``hint``, such as ``reorg0``.
    """
    current = mx.name.NameManager._current
    if not hasattr(current, "value"):
        current.value = mx.name.NameManager()
    return current.value.get(name, hint)


def is_symbolic(error: Callable, names: Sequence[str], inputs: Sequence) -> bool:
    """Return True if the inputs are Symbols, some of which may be None, and False if they are NDArrays.

    ``error(what, remedy)`` makes the exception that is raised for other inputs. Its text has the ``names``.
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


_REMEDIES = {"mxnet.numpy.ndarray": "Convert it with .as_nd_ndarray(), or the others with .as_np_ndarray()",
             "sparse NDArray": "Convert it with .tostype('default')"}


# The kinds of arrays. The first that fits a value is its kind.
_KINDS = {(mx.np.ndarray, mx.sym.np._Symbol): "mxnet.numpy.ndarray", mx.nd.sparse.BaseSparseNDArray: "sparse NDArray",
          mx.nd.NDArray: "NDArray", mx.sym.Symbol: "Symbol"}


def _kind(value: object) -> str:
    """Return the words that an error has for the kind of a value, such as ``sparse NDArray``."""
    own = type(value)
    name = own.__name__ if own.__module__ == "builtins" else f"{own.__module__}.{own.__qualname__}"
    return next((words for kind, words in _KINDS.items() if isinstance(value, kind)), name)
