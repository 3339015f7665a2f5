"""The choice of a backend (``custom``, ``native``, ``builtin`` or ``auto``), and the emitter of its nodes."""
from __future__ import annotations

import contextlib
import functools
import os
import threading
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType

import mxnet as mx
import numpy as np
from mxnet.ndarray import NDArray

from . import labels, native, pins, registry
from .attributes import without_mxnet
from .contract import Op, value_types
from .errors import OpError
from .pins import Array

BACKENDS = ("auto", "custom", "native", "builtin")
_default = os.environ.get("GLUONOPS_BACKEND") or "auto"
TRACED = "_gluonops_backend"   # a HybridBlock's attribute: the backend that its graph was traced under


class _Scopes(threading.local):
    """What a thread is inside of.

    Attributes
    ----------
    backends : list of str
        Those of its ``with`` blocks, the innermost last.
    block : HybridBlock, optional
        The one that is being traced.
    """

    def __init__(self):
        super().__init__()
        self.backends = []
        self.block = None


_scopes = _Scopes()


class backend:   # pylint: disable=invalid-name
    """Choose the backend, for the process or for a ``with`` block.

    ``gluonops.backend("builtin")`` sets the default of the process. ``with gluonops.backend("builtin"):`` sets the
    backend of the block's thread inside the block. The backend decides which node a function or a HybridBlock emits. A
    hybridized net is traced again if it is called or exported with another backend. The environment variable
    ``GLUONOPS_BACKEND`` sets the default at start.

    Parameters
    ----------
    name : {'auto', 'custom', 'native', 'builtin'}
        ``custom``: Python CustomOp, CUDA kernels on a GPU. ``native``: the C++ library. ``builtin``: MXNet's own
        operators only. ``auto``: ``native`` if it is loaded and there is no GPU, else ``custom``.

    Raises
    ------
    OpError
        The name is unknown, or the backend is not available.
    """

    def __init__(self, name: str):
        global _default
        self._name = _available(name)
        self._previous = _default
        _default = name

    def __enter__(self) -> backend:
        global _default
        _default = self._previous
        _scopes.backends.append(self._name)
        return self

    def __exit__(self, *_: object) -> None:
        _scopes.backends.pop()


def current_backend() -> str:
    """The current backend: that of the innermost ``with`` block, or the default. An OpError if it is not available."""
    return _available(requested())


def requested() -> str:
    """The name of the current backend, whether it is available or not."""
    backends = _scopes.backends
    return backends[-1] if backends else _default


@contextlib.contextmanager
def tracing(block: mx.gluon.HybridBlock) -> Iterator[None]:
    """Inside the ``with`` block the emitter notes in a HybridBlock the backend of its graph."""
    outer = _scopes.block
    _scopes.block = block
    try:
        yield
    finally:
        _scopes.block = outer


def _available(name: str) -> str:
    """``name``, or an OpError if there is no such backend or it is not available."""
    if name not in BACKENDS:
        raise OpError("backend", f"got {name!r}; expected 'auto', 'custom', 'native' or 'builtin'",
                      "Choose one of them (also in GLUONOPS_BACKEND)")
    if name == "native" and not native.loaded():
        raise OpError("backend", f"the native backend is not available: {native.reason()}",
                      "Or use 'auto', 'custom' or 'builtin'")
    return name


def resolve(name: str) -> str:
    """The backend of ``auto``: ``native`` if the library is loaded and there is no GPU, else ``custom``."""
    if name != "auto":
        return name
    return "native" if native.loaded() and not has_gpu() else "custom"


@functools.cache
def has_gpu() -> bool:
    """Whether MXNet can use a GPU; False if the CUDA query fails. A process has the GPUs that it begins with."""
    try:
        return mx.context.num_gpus() > 0
    except mx.MXNetError:
        return False


def call(op: Op, arguments: dict) -> Array | tuple:
    """Emit an operator from the arguments of its function: ``return call(OP, locals())``.

    Parameters
    ----------
    op : Op
    arguments : dict
        A value for each input and attribute of the contract, and ``name``. Others are ignored.

    Returns
    -------
    NDArray or Symbol
        As :func:`emit` returns it.
    """
    values = op.attributes_of(arguments)
    item_types = ()
    if op.takes_tuples:
        values = without_mxnet(values)
        item_types = value_types(values)
    try:
        emitter = _emitter(op, requested(), item_types, *values)
    except TypeError:   # a list or an array has no hash
        emitter = _emitter(op, requested(), (), *_parsed(op, values))
    return emitter.emit(op.inputs_of(arguments), arguments["name"])


def emit(op: Op, inputs: dict, values: dict, name: str | None = None) -> Array | tuple:
    """Run an operator on NDArrays, or add its node to a graph of Symbols.

    Parameters
    ----------
    op : Op
        The contract.
    inputs : dict of str to NDArray or Symbol
        One for each input of the contract. In a graph, None becomes a variable named after the node.
    values : dict
        The attributes as the user gave them.
    name : str, optional
        Name of the node. With every backend the outputs are named after it.

    Returns
    -------
    NDArray or Symbol
        The first output, or a tuple of outputs if the contract returns several.
    """
    emitter = _emitter(op, requested(), (), *op.parse(values))
    return emitter.emit(op.inputs_of(inputs), name)


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

    Parameters
    ----------
    op : Op
    attrs : Attrs
    name : str
        The backend that is requested; an OpError if it is not available, or does not have the operator.
    """

    def __init__(self, op: Op, attrs: tuple, name: str):
        self._op, self._attrs = op, attrs
        self._names = [arg.name for arg in op.inputs]
        self._build = _builder(op, _available(name))
        self._library_call = None
        if self._build is _native:
            self._library_call = native.Call(op, attrs)
            self._returned = op.number_returned(attrs)
            self._needs_guards = not native.honours_requests()

    def emit(self, inputs: tuple, name: str | None) -> Array | tuple:
        """Run the operator on NDArrays, or add a node of this name to a graph of Symbols."""
        for value in inputs:
            if type(value) is not NDArray and is_symbolic(self._op.error, self._names, inputs):
                return self._emit_symbol(inputs, name)
        if self._op.restricts_values and labels.checking():
            self._validate(inputs)
            labels.check(self._op, self._attrs, dict(zip(self._names, inputs)))
        return self._run_build(inputs) if self._library_call is None else self._run_library(inputs)

    def _run_library(self, inputs: Sequence[NDArray]) -> NDArray | tuple:
        """Run the C++ operator. The library validates, in less time: to read a shape takes as long as a small call."""
        if self._needs_guards and mx.autograd.is_recording():   # see _native
            inputs = [mx.nd.identity(value) for value in inputs]
        outputs = self._library_call.run(inputs)
        return outputs[0] if self._returned == 1 else tuple(outputs[:self._returned])

    def _run_build(self, inputs: tuple) -> NDArray | tuple:
        """Run the CustomOp, or MXNet's own operators."""
        shapes = self._validate(inputs)
        build = self._build
        if build is _builtin and any(0 in shape for shape in shapes.values()):
            build = _custom   # MXNet's own operators fail on tensors without elements, or end the process
        return build(self._op, mx.nd, self._attrs, inputs, {})

    def _validate(self, inputs: tuple) -> dict[str, tuple]:
        """The shape of every tensor. An OpError if the inputs are not valid."""
        return self._op.validate(self._attrs, tuple(array.shape for array in inputs),
                                 tuple(array.dtype for array in inputs))

    def _emit_symbol(self, inputs: tuple, name: str | None) -> mx.sym.Symbol | tuple:
        _note_backend()
        name = full_name(name, self._op.name)
        arguments = [mx.sym.var(f"{name}_{key}") if value is None else value
                     for key, value in zip(self._names, inputs)]
        with mx.name.NameManager():   # the name is complete: no block adds its prefix again
            return self._build(self._op, mx.sym, self._attrs, arguments, {"name": name})


def _note_backend() -> None:
    """Note the backend in the HybridBlock that is being traced, if there is one."""
    if _scopes.block is not None:
        setattr(_scopes.block, TRACED, requested())


def _inserted(kind: str, **marks: str) -> mx.AttrScope:
    """The attributes of inserted nodes. ``kind`` is ``guard``, ``head``, ``copy`` or ``name``.

    Passes recognise the inserted nodes by ``__gluonops_inserted__``.
    """
    return mx.AttrScope(__gluonops_inserted__=kind, **marks)


def _builder(op: Op, name: str) -> Callable:
    """The function that emits. If an operator has no native kernel, ``auto`` takes another backend."""
    chosen = resolve(name)
    if chosen == "native" and not native.has(op):
        if name == "native":
            raise op.error(f"it has no native kernel ({op.unsupported.get('kernel.cc', 'kernel.cc is missing')})",
                           "Use 'auto', 'custom' or 'builtin'")
        chosen = "custom"
    return {"builtin": _builtin, "native": _native, "custom": _custom}[chosen]


def full_name(name: str | None, hint: str) -> str:
    """The name that MXNet would give a node here: with the block's prefix, and from ``hint`` if ``name`` is None."""
    current = mx.name.NameManager._current
    if not hasattr(current, "value"):
        current.value = mx.name.NameManager()
    return current.value.get(name, hint)


def _native(op: Op, space: ModuleType, attrs: tuple, inputs: list[Array], named: dict[str, str]) -> Array | tuple:
    """Emit the C++ operator, with an identity as a guard in front of each input where it needs one.

    What MXNet makes of a library does not pass the request on to an operator: it overwrites a gradient that it should
    add to, for ``grad_req="add"`` or for an input that is used twice. The library repairs that in MXNet's wheels. In
    other builds each input has a guard: the backward of an identity honours the request. Labels have one too, because
    they have a gradient of zeros.
    """
    if not native.honours_requests():
        inputs = _guards(op, inputs, named["name"])
    if op.reads_head_gradient:
        return _returned(op, attrs, getattr(space, op.graph_name)(*inputs, **op.strings(attrs), **named))
    # A library's operator always needs a head gradient. Module gives a loss head none, but make_loss does. The mark
    # prevents a hybridized graph from merging two equal heads.
    name = named["name"]
    result = getattr(space, op.graph_name)(*inputs, **op.strings(attrs), name=f"{name}_native")
    with _inserted("head", __gluonops_head__=name):
        return space.identity(space.make_loss(result, name=f"{name}_loss"), **named)


def _guards(op: Op, inputs: Iterable[Array], name: str) -> list[mx.sym.Symbol]:
    """An identity in front of each input of a node, named after the node and the input."""
    with _inserted("guard"):
        return [mx.sym.identity(value, name=f"{name}_{arg.name}_guard") for arg, value in zip(op.inputs, inputs)]


def _custom(op: Op, space: ModuleType, attrs: tuple, inputs: Iterable[Array], named: dict[str, str]) -> Array | tuple:
    """Emit the CustomOp, with copies to a plain layout around it where it needs them."""
    inputs = list(inputs)
    attributes = {"op_type": op.graph_name, **op.strings(attrs)}
    if not needs_plain_layout(space, inputs):
        return _returned(op, attrs, space.Custom(*inputs, **attributes, **named))

    plain = []
    for arg, value in zip(op.inputs, inputs):
        if arg.has_gradient(attrs):
            value = plain_layout(space, value, like=value, **_with_suffix(named, f"_{arg.name}_copy"))
        plain.append(value)
    if not op.reads_head_gradient:
        return space.Custom(*plain, **attributes, **named)

    result = _returned(op, attrs, space.Custom(*plain, **attributes, **_with_suffix(named, "_custom")))
    like = inputs[0] if op.keeps_shape(attrs) else None
    if isinstance(result, tuple):
        first, *others = result
        return (plain_layout(space, first, like, **named), *others)
    return plain_layout(space, result, like, **named)


def _with_suffix(named: dict[str, str], suffix: str) -> dict[str, str]:
    """The argument ``name`` of a node, if there is one, with a suffix."""
    return {key: name + suffix for key, name in named.items()}


def needs_plain_layout(space: ModuleType, inputs: Sequence[Array]) -> bool:
    """Whether the inputs of a CustomOp must be copied to a plain layout.

    On the CPU the output of a convolution, and the gradient of its input, may be in a blocked layout of oneDNN. MXNet
    1.9.1 gives a CustomOp a temporary copy in plain layout. It frees the copy before the CustomOp, which runs in
    another thread, has read it: in imperative calls, and in nets hybridized without ``static_alloc``. There is no
    oneDNN on a GPU. A graph does not know its device. It is assumed to be for the GPU if there is one, as ``auto``
    does.
    """
    if space is mx.sym:
        return not has_gpu()
    data = inputs[0]
    has_elements = data.ndim > 0 and 0 not in data.shape
    return has_elements and data.context.device_type != "gpu"


def plain_layout(space: ModuleType, value: Array, like: Array | None = None, may_be_scalar: bool = False,
                 **named: str) -> Array:
    """A copy of a value in plain layout. The gradient is copied as well.

    Parameters
    ----------
    space : mx.nd or mx.sym
    value : NDArray or Symbol
    like : NDArray or Symbol, optional
        A value of the same shape. In a graph an identity gives its shape to the copy, because inference does not pass
        a partly known shape through the copy. It works in place.
    may_be_scalar : bool, default False
        Whether inference may find no dimension for the value of a graph.
    **named : str
        ``name`` of the node, in a graph.
    """
    if space is mx.nd:
        return value if value.ndim == 0 else space.squeeze(value, axis=())
    with _inserted("copy"):
        if like is None:
            return _copy(value, may_be_scalar, **named)
        copy = _copy(value, may_be_scalar, **_with_suffix(named, "_plain"))
        return space._internal._identity_with_attr_like_rhs(copy, like, **named)


def _copy(value: Array, may_be_scalar: bool, **named: str) -> mx.sym.Symbol:
    """``squeeze`` of no axis: the cheapest of MXNet's operators that copy without oneDNN, in both directions.

    Identity and scalar arithmetic work in place and keep the layout. oneDNN's ``expand_dims`` and ``reshape`` keep
    about 10 kB for each new shape. A scalar gets an axis first, because squeeze must leave one.
    """
    if not mx.util.is_np_shape():
        if not may_be_scalar:
            return mx.sym.squeeze(value, axis=(), **named)
        longer = mx.sym.expand_dims(value, axis=0, **_with_suffix(named, "_longer"))
        return mx.sym.squeeze(longer, axis=0, **named)
    longer = mx.sym.npx.reshape(value.as_np_ndarray(), (-4, 1), **_with_suffix(named, "_longer"))
    return mx.sym.np.squeeze(longer, axis=-1, **named).as_nd_ndarray()


def _builtin(op: Op, space: ModuleType, attrs: tuple, inputs: Iterable[Array], named: dict[str, str]) -> Array | tuple:
    """Emit MXNet's own operators, those of the reference."""
    inputs = list(inputs)
    is_widened = op.accumulate_fp32 and known_dtype(inputs[0]) == "float16"
    scope = mx.name.Prefix(f"{named['name']}_") if named else contextlib.nullcontext()
    with scope:
        if space is mx.sym:
            inputs = pins.pinned(op, attrs, inputs)
        if is_widened:
            outputs = _widened(op, space, attrs, inputs)
        else:
            outputs = _as_tuple(registry.get(op.name).reference.forward(space, attrs, *inputs))
    if space is mx.nd:
        return _returned(op, attrs, [_unless_input(value, inputs) for value in outputs])
    return _named_outputs(op, attrs, _returned(op, attrs, outputs), named["name"])


def _named_outputs(op: Op, attrs: tuple, result: Array | tuple, name: str) -> Array | tuple:
    """What an operator returns, behind identities that have the names of its outputs."""
    values = ", ".join(f"{key}={value}" for key, value in op.strings(attrs).items())
    with _inserted("name", __gluonops_layer__=name, __gluonops_operator__=f"{op.name} {values}"):
        if not isinstance(result, tuple):
            return mx.sym.identity(result, name=name)
        first, *others = result
        values = [mx.sym.identity(first, name=name)]
        for out, value in zip(op.outputs[1:], others):
            values.append(mx.sym.identity(value, name=f"{name}_{out.name}"))
        return tuple(values)


def _as_tuple(result: Array | tuple) -> tuple:
    return result if isinstance(result, tuple) else (result,)


def _unless_input(value: Array, inputs: Iterable[Array]) -> mx.nd.NDArray:
    """A value, or its copy if the reference has returned an input itself."""
    return mx.nd.identity(value) if any(value is given for given in inputs) else value


def known_dtype(value: Array) -> str | None:
    """The dtype of an NDArray, or of a Symbol if it follows from the types of its variables, else None."""
    if isinstance(value, mx.nd.NDArray):
        return np.dtype(value.dtype).name
    try:
        _, outputs, _ = value.infer_type_partial()
    except mx.MXNetError:
        return None
    if not outputs or outputs[0] is None:
        return None
    return np.dtype(outputs[0]).name


def _widened(op: Op, space: ModuleType, attrs: tuple, inputs: list[Array]) -> tuple:
    """The outputs of the reference for float16 data, computed in float32.

    A graph of unknown types computes in float16 instead: MXNet has no operator that casts to the type of another
    tensor.
    """
    variables = op.type_vars(attrs)

    def cast(declared: tuple, values: Iterable[Array], dtype: str) -> list[Array]:
        """The values, those with the data's type in another type."""
        return [space.cast(value, dtype=dtype) if variables[item.name] == "T" else value
                for item, value in zip(declared, values)]

    result = registry.get(op.name).reference.forward(space, attrs, *cast(op.inputs, inputs, "float32"))
    return tuple(cast(op.outputs, _as_tuple(result), "float16"))


def _returned(op: Op, attrs: tuple, outputs: Array | Sequence[Array]) -> Array | tuple:
    """The outputs of a node that the user gets: the first one, or a tuple."""
    if len(op.outputs) == 1:
        return outputs[0] if isinstance(outputs, (tuple, list)) else outputs
    count = op.number_returned(attrs)
    return outputs[0] if count == 1 else tuple(outputs[i] for i in range(count))


def is_symbolic(error: Callable, names: Sequence[str], inputs: Sequence) -> bool:
    """True for Symbols, of which some may be None; False for NDArrays.

    Parameters
    ----------
    error : callable
        ``error(what, remedy)`` makes the exception for other inputs.
    names : sequence of str
        Names of the inputs.
    inputs : sequence of NDArray or Symbol
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


def _kind(value: object) -> str:
    """What a value is, for the text of an error."""
    if isinstance(value, (mx.np.ndarray, mx.sym.np._Symbol)):
        return "mxnet.numpy.ndarray"
    if isinstance(value, mx.nd.sparse.BaseSparseNDArray):
        return "sparse NDArray"
    if isinstance(value, mx.nd.NDArray):
        return "NDArray"
    if isinstance(value, mx.sym.Symbol):
        return "Symbol"
    if type(value).__module__ == "builtins":
        return type(value).__name__
    return f"{type(value).__module__}.{type(value).__qualname__}"
