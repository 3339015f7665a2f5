"""Which node an operator emits: ``custom``, ``native``, ``builtin``, or ``auto``; and the emitter."""
from __future__ import annotations

import contextlib
import os
import threading
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType

import mxnet as mx
import numpy as np

from . import labels, native, registry
from .contract import Op
from .errors import OpError

Array = typing.Union[mx.nd.NDArray, mx.sym.Symbol]   # what a function of an operator takes and returns
BACKENDS = ("auto", "custom", "native", "builtin")
_default = os.environ.get("GLUONOPS_BACKEND") or "auto"
_scopes = threading.local()
TRACED = "_gluonops_backend"   # a HybridBlock's attribute: the backend that its graph was traced under


class backend:   # pylint: disable=invalid-name
    """Choose the backend, for the process or for a ``with`` block.

    ``gluonops.backend("builtin")`` sets the process's default; ``with gluonops.backend("builtin"):`` holds for
    the block and the thread that runs it. The choice decides which node a function or block emits. A hybridized
    net that is called or exported under another backend than it was traced under is traced anew. The environment
    variable ``GLUONOPS_BACKEND`` sets the default at start.

    Parameters
    ----------
    name : {'auto', 'custom', 'native', 'builtin'}
        ``custom``: Python CustomOp, CUDA kernels on a GPU. ``native``: the C++ library. ``builtin``: MXNet's own
        operators only. ``auto``: ``native`` where it is loaded and there is no GPU, else ``custom``.

    Raises
    ------
    OpError
        The name is unknown, or the backend is not available.
    """

    def __init__(self, name: str):
        global _default
        self._name, self._previous = _available(name), _default
        _default = name

    def __enter__(self) -> backend:
        global _default
        _default = self._previous
        _stack().append(self._name)
        return self

    def __exit__(self, *_: object) -> None:
        _stack().pop()


def current_backend() -> str:
    """The backend in force here: the innermost ``with`` block's, else the process's default."""
    return _available(requested())


def requested() -> str:
    """The name of the backend in force here, whether it is available or not."""
    stack = _stack()
    return stack[-1] if stack else _default


def _stack() -> list[str]:
    if not hasattr(_scopes, "stack"):
        _scopes.stack = []
    return _scopes.stack


@contextlib.contextmanager
def tracing(block: mx.gluon.HybridBlock) -> Iterator[None]:
    """Meanwhile the emitter notes in ``block``, a HybridBlock, under which backend its graph is made."""
    outer, _scopes.block = getattr(_scopes, "block", None), block
    try:
        yield
    finally:
        _scopes.block = outer


def _available(name: str) -> str:
    if name not in BACKENDS:
        raise OpError("backend", f"got {name!r}; expected 'auto', 'custom', 'native' or 'builtin'",
                      "Choose one of them (also in GLUONOPS_BACKEND)")
    if name == "native" and not native.loaded():
        raise OpError("backend", f"the native backend is not available: {native.reason()}",
                      "Or use 'auto', 'custom' or 'builtin'")
    return name


def resolve(name: str) -> str:
    """What ``auto`` means here: ``native`` where the library is loaded and there is no GPU, else ``custom``."""
    if name != "auto":
        return name
    return "native" if native.loaded() and not has_gpu() else "custom"


def has_gpu() -> bool:
    """Whether MXNet can use a GPU; False if the CUDA query fails."""
    try:
        return mx.context.num_gpus() > 0
    except mx.MXNetError:
        return False


def emit(op: Op, inputs: dict, values: dict, name: str | None = None) -> Array | tuple:
    """Run an operator on NDArrays, or add its node to a graph of Symbols.

    Parameters
    ----------
    op : Op
        The contract.
    inputs : dict of str to NDArray or Symbol
        One for each input of the contract, in its order. In a graph None stands for a variable named after the node.
    values : dict
        The attributes as the user gave them.
    name : str, optional
        The node's name; the outputs are named after it in every backend.

    Returns
    -------
    NDArray or Symbol
        The first output, the others are hidden; a tuple where the contract returns several.
    """
    attrs = op.parse(values)
    build = _builder(op, current_backend())
    if is_symbolic(op.error, inputs):
        _note_backend()
        name = full_name(name, op.name)
        arguments = [mx.sym.var(f"{name}_{key}") if value is None else value for key, value in inputs.items()]
        with mx.name.NameManager():   # the name is complete: no block may put its prefix in front once more
            return build(op, mx.sym, attrs, arguments, {"name": name})
    shapes = op.validate(attrs, tuple(array.shape for array in inputs.values()),
                         tuple(array.dtype for array in inputs.values()))
    if labels.checking():
        labels.check(op, attrs, inputs)
    if build is _builtin and 0 in shapes[op.outputs[0].name]:
        build = _custom   # MXNet's own reshape, sum and max fail on tensors without elements
    return build(op, mx.nd, attrs, inputs.values(), {})


def call(op: Op, arguments: dict) -> Array | tuple:
    """Emit an operator from the arguments of its function: ``return call(OP, locals())``.

    Parameters
    ----------
    op : Op
    arguments : dict
        A value for every input and attribute of the contract, and ``name``; others are left alone.

    Returns
    -------
    NDArray or Symbol
        As :func:`emit` returns it.
    """
    inputs = {arg.name: arguments[arg.name] for arg in op.inputs}
    values = {attr.name: arguments[attr.name] for attr in op.attrs}
    return emit(op, inputs, values, arguments["name"])


def _note_backend() -> None:
    """Note in the HybridBlock that is being traced, if there is one, which backend its nodes are for."""
    block = getattr(_scopes, "block", None)
    if block is not None:
        setattr(block, TRACED, requested())


def _inserted(kind: str, **marks: str) -> mx.AttrScope:
    """Attributes of the nodes that the emitter puts around an operator: ``guard``, ``head``, ``copy`` or ``name``.

    Whoever rewrites a graph tells them from the user's own nodes by ``__gluonops_inserted__``.
    """
    return mx.AttrScope(__gluonops_inserted__=kind, **marks)


def _builder(op: Op, name: str) -> Callable:
    """The function that emits; only ``auto`` falls back where an operator has no native kernel."""
    chosen = resolve(name)
    if chosen == "native" and not native.has(op):
        if name == "native":
            raise op.error(f"it has no native kernel ({op.unsupported.get('kernel.cc', 'kernel.cc is missing')})",
                           "Use 'auto', 'custom' or 'builtin'")
        chosen = "custom"
    return {"builtin": _builtin, "native": _native, "custom": _custom}[chosen]


def full_name(name: str | None, hint: str) -> str:
    """The name that MXNet would give a node here: made from ``hint`` where there is none, with the block's prefix."""
    current = mx.name.NameManager._current
    if not hasattr(current, "value"):
        current.value = mx.name.NameManager()
    return current.value.get(name, hint)


def _native(op: Op, space: ModuleType, attrs: tuple, inputs: Iterable[Array], named: dict[str, str]) -> Array | tuple:
    """The C++ operator behind the identity guard.

    MXNet tells a library's operator nothing of the request, so it overwrites where ``grad_req="add"`` or an input
    used twice asks it to add. The backward of an identity in front of each input honours the request (a label has a
    gradient too, of zeros).
    Inside a hybridized graph it works in place; an imperative call that is not recorded needs none.
    """
    if space is mx.sym:
        inputs = _guards(op, inputs, named["name"])
    elif mx.autograd.is_recording():
        inputs = [space.identity(value) for value in inputs]
    if space is mx.nd or op.reads_head_gradient:
        result = getattr(space, op.graph_name)(*inputs, **op.strings(attrs), **named)
        return _returned(op, attrs, result)
    # A library's operator always asks for a head gradient, and Module gives a loss head none: make_loss does. The
    # mark keeps a hybridized graph from merging two equal heads into one.
    name = named["name"]
    result = getattr(space, op.graph_name)(*inputs, **op.strings(attrs), name=f"{name}_native")
    with _inserted("head", __gluonops_head__=name):
        return space.identity(space.make_loss(result, name=f"{name}_loss"), **named)


def _guards(op: Op, inputs: Iterable[Array], name: str) -> list[mx.sym.Symbol]:
    """An identity in front of each input of a node, named after the node and the input."""
    with _inserted("guard"):
        return [mx.sym.identity(value, name=f"{name}_{arg.name}_guard") for arg, value in zip(op.inputs, inputs)]


def _custom(op: Op, space: ModuleType, attrs: tuple, inputs: Iterable[Array], named: dict[str, str]) -> Array | tuple:
    inputs = list(inputs)
    if not needs_plain_layout(space, inputs):
        return _returned(op, attrs, space.Custom(*inputs, op_type=op.graph_name, **op.strings(attrs), **named))
    plain = [plain_layout(space, value, like=value, **{key: f"{name}_{arg.name}_copy" for key, name in named.items()})
             if arg.has_gradient(attrs) else value for arg, value in zip(op.inputs, inputs)]
    if not op.reads_head_gradient:
        return space.Custom(*plain, op_type=op.graph_name, **op.strings(attrs), **named)
    inner = {key: f"{name}_custom" for key, name in named.items()}
    result = _returned(op, attrs, space.Custom(*plain, op_type=op.graph_name, **op.strings(attrs), **inner))
    like = inputs[0] if op.keeps_shape(attrs) else None
    if isinstance(result, tuple):
        return (plain_layout(space, result[0], like, **named), *result[1:])
    return plain_layout(space, result, like, **named)


def needs_plain_layout(space: ModuleType, inputs: Sequence[Array]) -> bool:
    """Whether a CustomOp has to be kept from oneDNN's blocked layouts.

    On the CPU a convolution's output, or the gradient it sends back, may be in a layout of oneDNN's own. MXNet 1.9.1
    hands a CustomOp a temporary copy in plain layout and frees it before the CustomOp, which runs in another thread,
    has read it: in imperative calls, and in nets hybridized without ``static_alloc``. On a GPU there is no oneDNN.
    A graph does not know its device: it is taken to be for the GPU where there is one, as ``auto`` does.
    """
    if space is mx.nd:
        return inputs[0].context.device_type != "gpu" and inputs[0].ndim > 0 and 0 not in inputs[0].shape
    return not has_gpu()


def plain_layout(space: ModuleType, value: Array, like: Array | None = None, may_be_scalar: bool = False,
                 **named: str) -> Array:
    """A copy in plain layout, and the same for the gradient.

    A shape that is known in part does not pass through the copy in either direction. An identity of MXNet's gives it
    the shape of ``like``, the same value or another one; it works in place. ``may_be_scalar`` is for a graph's value
    whose inference may answer with no dimension.
    """
    if space is mx.nd:
        return value if value.ndim == 0 else space.squeeze(value, axis=())
    with _inserted("copy"):
        if like is None:
            return _copy(value, may_be_scalar, **named)
        copy = _copy(value, may_be_scalar, **{key: f"{name}_plain" for key, name in named.items()})
        return space._internal._identity_with_attr_like_rhs(copy, like, **named)


def _copy(value: Array, may_be_scalar: bool, **named: str) -> mx.sym.Symbol:
    """``squeeze`` of no axis: of MXNet's operators that copy without oneDNN, the cheapest there and back.

    Identity and scalar arithmetic work in place, which keeps the layout. oneDNN's (``expand_dims``, ``reshape``) keep
    some 10 kB for every new shape. A scalar has no dimension that squeeze could leave: it gets one first.
    """
    if not mx.util.is_np_shape():
        if may_be_scalar:
            value = mx.sym.expand_dims(value, axis=0, **{key: f"{name}_longer" for key, name in named.items()})
        return mx.sym.squeeze(value, axis=0 if may_be_scalar else (), **named)
    longer = mx.sym.npx.reshape(value.as_np_ndarray(), (-4, 1),
                                **{key: f"{name}_longer" for key, name in named.items()})
    return mx.sym.np.squeeze(longer, axis=-1, **named).as_nd_ndarray()


def _builtin(op: Op, space: ModuleType, attrs: tuple, inputs: Iterable[Array], named: dict[str, str]) -> Array | tuple:
    scope = mx.name.Prefix(f"{named['name']}_") if named else contextlib.nullcontext()
    inputs = list(inputs)
    with scope:
        if op.accumulate_fp32 and known_dtype(inputs[0]) == "float16":
            result = _widened(op, space, attrs, inputs)
        else:
            result = registry.get(op.name).reference.forward(space, attrs, *inputs)
    result = result if isinstance(result, tuple) else (result,)
    if not named:
        return _returned(op, attrs, [_unless_input(value, inputs) for value in result])
    result = _returned(op, attrs, result)
    with _inserted("name"):
        if not isinstance(result, tuple):
            return space.identity(result, **named)
        return tuple(space.identity(value, name=named["name"] + (f"_{out.name}" if i else ""))
                     for i, (out, value) in enumerate(zip(op.outputs, result)))


def _unless_input(value: Array, inputs: Iterable[Array]) -> mx.nd.NDArray:
    """The value itself, or a copy where a reference hands an input on; in a graph the node's name is on one."""
    return mx.nd.identity(value) if any(value is given for given in inputs) else value


def known_dtype(value: Array) -> str | None:
    """The dtype of an NDArray; of a Symbol where it follows from its variables' types, as of parameters, else None."""
    if isinstance(value, mx.nd.NDArray):
        return np.dtype(value.dtype).name
    try:
        found = value.infer_type_partial()[1]
    except mx.MXNetError:
        return None
    return None if not found or found[0] is None else np.dtype(found[0]).name


def _widened(op: Op, space: ModuleType, attrs: tuple, inputs: list[Array]) -> tuple:
    """The reference on float16 in float32, and what it gives of the data's type in float16 again.

    MXNet has no operator that casts to the type of another tensor: a graph that does not know its types is left as it
    is, and computes in float16.
    """
    variables = op.type_vars(attrs)
    widened = [space.cast(value, dtype="float32") if variables[arg.name] == "T" else value
            for arg, value in zip(op.inputs, inputs)]
    result = registry.get(op.name).reference.forward(space, attrs, *widened)
    result = result if isinstance(result, tuple) else (result,)
    return tuple(space.cast(value, dtype="float16") if variables[out.name] == "T" else value
                 for out, value in zip(op.outputs, result))


def _returned(op: Op, attrs: tuple, outputs: Array | Sequence[Array]) -> Array | tuple:
    """What the user gets of a node's outputs: one of them, or a tuple."""
    if len(op.outputs) == 1:
        return outputs[0] if isinstance(outputs, (tuple, list)) else outputs
    count = op.number_returned(attrs)
    return outputs[0] if count == 1 else tuple(outputs[i] for i in range(count))


def is_symbolic(error: Callable, inputs: dict) -> bool:
    """True for Symbols, of which some may be None; False for NDArrays; raises ``error(what, remedy)`` for others."""
    kinds = {_kind(value) for value in inputs.values()}
    if "Symbol" in kinds:
        kinds.discard("NoneType")
    if kinds in ({"NDArray"}, {"Symbol"}):
        return kinds == {"Symbol"}
    got = ", ".join(f"{key} is {_kind(value)}" for key, value in inputs.items())
    raise error(f"{got}; expected NDArrays or Symbols", next(
        (remedy for kind, remedy in _REMEDIES.items() if kind in kinds),
        "Convert arrays with mx.nd.array, and do not mix NDArrays with Symbols"))


_REMEDIES = {"mxnet.numpy.ndarray": "Convert it with .as_nd_ndarray()",
             "sparse NDArray": "Convert it with .tostype('default')"}


def _kind(value: object) -> str:
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
