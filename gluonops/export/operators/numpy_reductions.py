"""MXNet's NumPy operators that reduce axes: sums, means, norms, and where the largest number is.

A result may be a number, of shape ``()``, where a legacy operator makes a vector of one element.
"""
from __future__ import annotations

import math

import numpy as np

from ..values import NodeValues
from .numpy_arithmetic import BOOL, FLOAT32, INT64, first, promoted, refuse, truth
from .numpy_arrays import axes_of, one_text
from .rule_registry import OnnxCall, Tensor, TorchCall, onnx, shape, torch, traits, types
from .shape_rules import Call, Shape

REDUCTIONS = {"_np_sum": "Sum", "_npi_mean": "Mean", "_np_prod": "Prod", "_np_max": "Max", "_np_min": "Min"}
SPREADS = ("_npi_var", "_npi_std")
TESTS = {"_np_any": "Max", "_np_all": "Min"}

traits("_npi_argmax", "_npi_argmin", jumps=True, ranks=True, makes_indices=True)


types("_np_max", "_np_min")(first)
types("_npi_average")(promoted)
types(*TESTS)(truth)


@types("_np_sum", "_np_prod")
def _(call: NodeValues, data: np.dtype, *, dtype) -> np.dtype | str:
    return dtype or (INT64 if data == BOOL else data)


@types("_npi_mean")
def _(call: NodeValues, data: np.dtype, *, dtype) -> np.dtype | str:
    return dtype or (data if data.kind == "f" else FLOAT32)


@types(*SPREADS)
def _(call: NodeValues, data: np.dtype, *, dtype) -> np.dtype | str:
    return dtype or data


@types("_npi_argmax", "_npi_argmin")
def _(call: NodeValues, data: np.dtype) -> np.dtype:
    return INT64


@shape(*REDUCTIONS, *SPREADS, *TESTS, "_npi_norm")
def _(call: Call, data: Shape, *, axis, keepdims) -> Shape:
    gone = axes_of(call, axis)
    return tuple(1 if place in gone else size for place, size in enumerate(data) if keepdims or place not in gone)


def _check_start(call: OnnxCall | TorchCall) -> None:
    """Raise an OpError for a start, which MXNet does not support."""
    if call.attributes.get("initial") is not None:
        refuse(call, "has an initial value, which MXNet does not support")


def _prepared(call: OnnxCall, data: Tensor) -> Tensor:
    """The data in the type of the result; truth values, which ONNX does not reduce, as int32."""
    dtype = np.dtype("int32") if call.dtype == BOOL or (call.dtype.itemsize == 1) else call.dtype
    return data if data.dtype == dtype else data.cast(dtype)


@onnx("_np_sum", op="ReduceSum")
@onnx("_npi_mean", op="ReduceMean")
@onnx("_np_prod", op="ReduceProd")
@onnx("_np_max", op="ReduceMax")
@onnx("_np_min", op="ReduceMin")
def _(call: OnnxCall, data: Tensor, *, axis, keepdims, op) -> Tensor:
    _check_start(call)
    gone, data = axes_of(call, axis), _prepared(call, data)
    result = data.reduce(op, gone, keepdims) if gone else data
    return result if result.dtype == call.dtype else result.cast(call.dtype)


@onnx("_np_any", op="ReduceMax")
@onnx("_np_all", op="ReduceMin")
def _(call: OnnxCall, data: Tensor, *, axis, keepdims, op) -> Tensor:
    gone, data = axes_of(call, axis), data.cast(bool).cast(np.int32)
    return (data.reduce(op, gone, keepdims) if gone else data).cast(bool)


@onnx("_npi_var", "_npi_std")
def _(call: OnnxCall, data: Tensor, *, axis, ddof, keepdims) -> Tensor:
    if call.dtype.kind != "f":
        raise call.refuse(f"computes in {call.dtype}, where it loses fractions; cast its input to float32 in the net")
    gone, data = axes_of(call, axis), _prepared(call, data)
    count = math.prod(call.shapes[0][place] for place in gone) if ddof else 0
    if not isinstance(count, int):
        raise call.refuse("has ddof and reduces the batch axis; expected other axes")
    middle = data.reduce("ReduceMean", gone, True) if gone else data
    distance = data - middle
    square = distance * distance
    result = square.reduce("ReduceMean", gone, keepdims) if gone else square
    result = result * (count / (count - ddof)) if ddof else result
    return result.apply("Sqrt") if call.node.op == "_npi_std" else result


@torch("_np_sum", name="sum")
@torch("_npi_mean", name="mean")
@torch("_np_prod", name="prod")
@torch("_np_max", name="amax")
@torch("_np_min", name="amin")
@torch("_np_any", name="any")
@torch("_np_all", name="all")
def _(call: TorchCall, *, axis, keepdims, name) -> str:
    _check_start(call)
    gone, data = axes_of(call, axis), "{0}"
    if name in ("any", "all"):
        data = "({0} != 0)"
    elif call.dtype != call.dtypes[0]:
        data = f"{{0}}.to(torch.{call.dtype})"
    if not gone:
        return data
    text = _reduced(data, name, gone, keepdims, call.ndim)
    if name in ("amax", "amin") and call.dtype.kind == "f":   # torch shares the gradient among equal numbers
        sign = "" if name == "amax" else "-"
        text = sign + call.snippet("largest", list(gone), inputs=sign + "{0}", keepdim=keepdims)
    return f"{text}.to(torch.{call.dtype})" if name in ("sum", "prod") and call.dtype.kind in "iu" else text


def _reduced(data: str, name: str, gone: list[int], keeps: bool, rank: int) -> str:
    """What reduces axes in torch. Its prod, any and all take one axis."""
    if len(gone) == rank and not keeps:
        return f"{data}.{name}()"
    keep = ", keepdim=True" if keeps else ""
    groups = [str(each) for each in reversed(gone)] if name in ("prod", "any", "all") else [one_text(gone)]
    return data + "".join(f".{name}({group}{keep})" for group in groups)


@torch("_npi_var", name="var")
@torch("_npi_std", name="std")
def _(call: TorchCall, *, axis, ddof, keepdims, name) -> str:
    call.refuse_if(call.dtype.kind != "f", f"computes in {call.dtype}, where it loses fractions; cast its input to "
                   "float32 in the net")
    gone, keep = axes_of(call, axis), ", keepdim=True" if keepdims else ""
    data = "{0}" if call.dtype == call.dtypes[0] else f"{{0}}.to(torch.{call.dtype})"
    return f"{data}.{name}({one_text(gone) if gone else '()'}, correction={ddof}{keep})"


@shape("_npi_average")
def _(call: Call, data: Shape, *weights: Shape, axis) -> Shape:
    """Weights are of all elements, or of an axis."""
    gone = axes_of(call, axis)
    if weights:
        of_axes = tuple(data[place] for place in gone)
        call.check(weights[0] in (data, of_axes), 1, f"{data} or {of_axes}")
    return tuple(size for place, size in enumerate(data) if place not in gone)


def _shape_of_weights(call: OnnxCall | TorchCall, axis: tuple[int, ...] | None, returned: bool) -> list[int]:
    """The shape in which weights broadcast along their axis; no sizes if they are of all elements.

    An OpError for an average that is not converted.
    """
    if call.dtype.kind != "f":
        refuse(call, f"computes in {call.dtype}, where it loses fractions; cast its inputs to float32 in the net")
    if returned:
        refuse(call, "returns the sum of the weights as well; expected the average alone")
    if len(call.shapes) == 1 or call.shapes[1] == call.shapes[0]:
        return []
    gone = axes_of(call, axis)
    return [-1 if place in gone else 1 for place in range(len(call.shapes[0]))]


@onnx("_npi_average")
def _(call: OnnxCall, data: Tensor, *weights: Tensor, axis, returned) -> Tensor:
    shape, gone, data = _shape_of_weights(call, axis, returned), axes_of(call, axis), _prepared(call, data)
    if not weights:
        return data.reduce("ReduceMean", gone, False)
    weight = _prepared(call, weights[0])
    weight = weight.reshape(shape) if shape else weight
    return (data * weight).reduce("ReduceSum", gone, False) / weight.reduce("ReduceSum", gone, False)


@torch("_npi_average")
def _(call: TorchCall, *, axis, returned) -> str:
    shape, gone = _shape_of_weights(call, axis, returned), one_text(axes_of(call, axis))
    if len(call.shapes) == 1:
        return f"{{0}}.mean({gone})"
    weights = f"{{1}}.reshape({tuple(shape)})" if shape else "{1}"
    return f"({{0}} * {weights}).sum({gone}) / {weights}.sum({gone})"


@onnx("_npi_norm")
def _(call: OnnxCall, data: Tensor, *, axis, ord, flag, keepdims) -> Tensor:
    kind = _norm_of(call, ord, flag, axis)
    return data.reduce(f"ReduceL{kind}", axes_of(call, axis), keepdims)


@torch("_npi_norm")
def _(call: TorchCall, *, axis, ord, flag, keepdims) -> str:
    kind = _norm_of(call, ord, flag, axis)
    return f"torch.linalg.vector_norm({{0}}, {kind}, {tuple(axes_of(call, axis))}, keepdim={keepdims})"


def _norm_of(call: OnnxCall | TorchCall, order: float, flag: int, axis: tuple[int, ...] | None) -> int:
    """1 or 2, the order of a norm of vectors. ``flag`` is 1 or -2 for the root of all squares."""
    if flag in (1, -2):
        return 2
    if order in (1, 2) and axis is not None and len(axis) == 1:
        return int(order)
    refuse(call, f"computes a norm of order {order} along {axis}; expected 1 or 2 of vectors")


@shape("_npi_argmax", "_npi_argmin")
def _(call: Call, data: Shape, *, axis, keepdims) -> Shape:
    gone = axes_of(call, None if axis is None else (axis,))
    return tuple(1 if place in gone else size for place, size in enumerate(data) if keepdims or place not in gone)


@onnx("_npi_argmax", op="ArgMax")
@onnx("_npi_argmin", op="ArgMin")
def _(call: OnnxCall, data: Tensor, *, axis, keepdims, op) -> Tensor:
    """Without an axis it is of all elements."""
    data = data.cast(np.int32) if data.dtype == BOOL else data
    if axis is not None:
        return data.apply(op, axis=axis, keepdims=int(keepdims))
    return data.reshape((-1,)).apply(op, axis=0, keepdims=0).reshape(call.shape)


@torch("_npi_argmax", name="argmax")
@torch("_npi_argmin", name="argmin")
def _(call: TorchCall, *, axis, keepdims, name) -> str:
    keep = ", keepdim=True" if keepdims else ""
    if axis is None:
        return f"{{0}}.{name}()" + (f".reshape({(1,) * call.ndim})" if keepdims else "")
    return f"{{0}}.{name}({axis}{keep})"
