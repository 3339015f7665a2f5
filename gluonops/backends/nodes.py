"""The nodes of an operator in each backend: the C++ operator, the CustomOp, or MXNet's own operators."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType

import mxnet as mx
import numpy as np

from ..contract import registry
from ..contract.op import Op
from . import backend, native, pins
from .pins import Array


def builder(op: Op, name: str) -> Callable:
    """Return the function that emits. If an operator has no native kernel, ``auto`` takes another backend."""
    chosen = backend.resolve(name)
    if chosen == "native" and not native.has(op):
        if name == "native":
            raise op.error(f"it has no native kernel ({op.unsupported.get('kernel.cc', 'kernel.cc is missing')})",
                           "Choose the backend 'auto', 'custom' or 'builtin'")
        chosen = "custom"
    return {"builtin": builtin_node, "native": native_node, "custom": custom_node}[chosen]


def _inserted(kind: str, **marks: str) -> mx.AttrScope:
    """Return the attributes of inserted nodes. ``kind`` is ``guard``, ``head``, ``copy`` or ``name``.

    Passes recognise the inserted nodes by ``__gluonops_inserted__``.
    """
    return mx.AttrScope(__gluonops_inserted__=kind, **marks)


def native_node(op: Op, space: ModuleType, attrs: tuple, inputs: list[Array], named: dict[str, str]) -> Array | tuple:
    """Emit the C++ operator, with an identity as a guard in front of each input where it needs one.

    What MXNet makes of a library does not pass the request on to an operator: it overwrites a gradient that it should
    add to, for ``grad_req="add"`` or for an input that is used twice. The library repairs that in MXNet's wheels. In
    other builds each input has a guard: the backward of an identity honours the request. Labels have one too, because
    they have a gradient of zeros.
    """
    name = named["name"]
    if not native.honours_requests():
        with _inserted("guard"):
            inputs = [mx.sym.identity(value, name=f"{name}_{arg.name}_guard") for arg, value in zip(op.inputs, inputs)]
    if op.reads_head_gradient:
        return _returned(op, attrs, getattr(space, op.graph_name)(*inputs, **op.strings(attrs), **named))
    # A library's operator always needs a head gradient. Module gives a loss head none, but make_loss does. The mark
    # prevents a hybridized graph from merging two equal heads.
    result = getattr(space, op.graph_name)(*inputs, **op.strings(attrs), name=f"{name}_native")
    with _inserted("head", __gluonops_head__=name):
        return space.identity(space.make_loss(result, name=f"{name}_loss"), **named)


def custom_node(op: Op, space: ModuleType, attrs: tuple, inputs: Iterable[Array],
                named: dict[str, str]) -> Array | tuple:
    """Emit the CustomOp, with copies to a plain layout around it where it needs them."""
    inputs = list(inputs)
    attributes = {"op_type": op.graph_name, **op.strings(attrs)}
    if not needs_plain_layout(space, inputs):
        return _returned(op, attrs, space.Custom(*inputs, **attributes, **named))

    plain = []
    for arg, value in zip(op.inputs, inputs):
        if arg.has_gradient(attrs):
            value = plain_layout(space, value, like=value, **with_suffix(named, f"_{arg.name}_copy"))
        plain.append(value)
    if not op.reads_head_gradient:
        return space.Custom(*plain, **attributes, **named)

    result = _returned(op, attrs, space.Custom(*plain, **attributes, **with_suffix(named, "_custom")))
    like = inputs[0] if op.keeps_shape(attrs) else None
    if isinstance(result, tuple):
        first, *others = result
        return (plain_layout(space, first, like, **named), *others)
    return plain_layout(space, result, like, **named)


def with_suffix(named: dict[str, str], suffix: str) -> dict[str, str]:
    """Return the argument ``name`` of a node, if there is one, with a suffix."""
    return {key: name + suffix for key, name in named.items()}


def needs_plain_layout(space: ModuleType, inputs: Sequence[Array]) -> bool:
    """Return whether the inputs of a CustomOp must be copied to a plain layout.

    On the CPU the output of a convolution, and the gradient of its input, may be in a blocked layout of oneDNN. MXNet
    1.9.1 gives a CustomOp a temporary copy in plain layout. It frees the copy before the CustomOp, which runs in
    another thread, has read it: in imperative calls, and in nets hybridized without ``static_alloc``. There is no
    oneDNN on a GPU. A graph does not know its device. It is assumed to be for the GPU if there is one, as ``auto``
    does.
    """
    if space is mx.sym:
        return not backend.has_gpu()
    data = inputs[0]
    has_elements = data.ndim > 0 and 0 not in data.shape
    return has_elements and data.context.device_type != "gpu"


def plain_layout(space: ModuleType, value: Array, like: Array | None = None, may_be_scalar: bool = False,
                 **named: str) -> Array:
    """Return a copy of a value in plain layout. The gradient is copied as well.

    - ``like``: a value of the same shape. In a graph an identity gives its shape to the copy, because inference does
      not pass a partly known shape through the copy. It works in place.
    - ``may_be_scalar``: whether inference may find no dimension for the value of a graph.
    - ``named``: the ``name`` of the node, in a graph.
    """
    if space is mx.nd:
        return value if value.ndim == 0 else space.squeeze(value, axis=())
    with _inserted("copy"):
        if like is None:
            return _copy(value, may_be_scalar, **named)
        copy = _copy(value, may_be_scalar, **with_suffix(named, "_plain"))
        return space._internal._identity_with_attr_like_rhs(copy, like, **named)


def _copy(value: Array, may_be_scalar: bool, **named: str) -> mx.sym.Symbol:
    """``squeeze`` of no axis: the cheapest of MXNet's operators that copy without oneDNN, in both directions.

    Identity and scalar arithmetic work in place and keep the layout. oneDNN's ``expand_dims`` and ``reshape`` keep
    about 10 kB for each new shape. A scalar gets an axis first, because squeeze must leave one.
    """
    if not mx.util.is_np_shape():
        if not may_be_scalar:
            return mx.sym.squeeze(value, axis=(), **named)
        longer = mx.sym.expand_dims(value, axis=0, **with_suffix(named, "_longer"))
        return mx.sym.squeeze(longer, axis=0, **named)
    longer = mx.sym.npx.reshape(value.as_np_ndarray(), (-4, 1), **with_suffix(named, "_longer"))
    return mx.sym.np.squeeze(longer, axis=-1, **named).as_nd_ndarray()


def builtin_node(op: Op, space: ModuleType, attrs: tuple, inputs: Iterable[Array],
                 named: dict[str, str]) -> Array | tuple:
    """Emit MXNet's own operators, those of the reference."""
    inputs = list(inputs)
    is_widened = op.accumulate_fp32 and known_dtype(inputs[0]) == "float16"
    with mx.name.Prefix(f"{named['name']}_") if named else contextlib.nullcontext():
        if space is mx.sym:
            inputs = pins.pinned(op, attrs, inputs)
        outputs = _of_reference(op, space, attrs, inputs, is_widened)
    if space is mx.nd:   # the reference may have returned an input itself
        outputs = [mx.nd.identity(value) if any(value is tensor for tensor in inputs) else value for value in outputs]
    else:
        outputs = _named_outputs(op, attrs, outputs, named["name"])
    return _returned(op, attrs, outputs)


def _of_reference(op: Op, space: ModuleType, attrs: tuple, inputs: list[Array], is_widened: bool) -> Sequence[Array]:
    """Return the outputs of the reference. With ``is_widened`` it computes float16 data in float32.

    A graph of unknown types computes in float16 instead: MXNet has no operator that casts to the type of another
    tensor.
    """
    def cast(declared: tuple, values: Sequence[Array], dtype: str) -> Sequence[Array]:
        """Return the values, and cast those that have the data's type to another type."""
        if not is_widened:
            return values
        variables = op.type_vars(attrs)
        return [space.cast(value, dtype=dtype) if variables[item.name] == "T" else value
                for item, value in zip(declared, values)]

    result = registry.get(op.name).reference.forward(space, attrs, *cast(op.inputs, inputs, "float32"))
    return cast(op.outputs, result if isinstance(result, tuple) else (result,), "float16")


def _named_outputs(op: Op, attrs: tuple, outputs: Sequence[Array], name: str) -> list[mx.sym.Symbol]:
    """Return the outputs behind identities that bear their names. The first output bears the node's name."""
    values = ", ".join(f"{key}={value}" for key, value in op.strings(attrs).items())
    names = [name, *(f"{name}_{out.name}" for out in op.outputs[1:op.number_returned(attrs)])]
    with _inserted("name", __gluonops_layer__=name, __gluonops_operator__=f"{op.name} {values}"):
        return [mx.sym.identity(value, name=own) for value, own in zip(outputs, names)]


def known_dtype(value: Array) -> str | None:
    """Return the dtype of an NDArray, or of a Symbol if it follows from the types of its variables. Otherwise None."""
    if isinstance(value, mx.nd.NDArray):
        return np.dtype(value.dtype).name
    try:
        _, outputs, _ = value.infer_type_partial()
    except mx.MXNetError:
        return None
    return np.dtype(outputs[0]).name if outputs and outputs[0] is not None else None


def _returned(op: Op, attrs: tuple, outputs: Array | Sequence[Array]) -> Array | tuple:
    """Return the outputs of a node that the user gets: the first one, or a tuple."""
    if len(op.outputs) == 1:
        return outputs[0] if isinstance(outputs, (tuple, list)) else outputs
    count = op.number_returned(attrs)
    return outputs[0] if count == 1 else tuple(outputs[i] for i in range(count))
