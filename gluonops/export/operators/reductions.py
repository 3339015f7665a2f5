"""Reductions and cumulative sums, products of matrices, and what chooses between two arrays."""
from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from .forms import Form, number, one
from .rule_registry import OnnxCall, Tensor, TorchCall, onnx, shape, torch, traits, types
from .shape_rules import Call, Shape

traits("mean", "norm", is_of_floats=True)
traits("mean", "sum", adds_up=True)
traits("argmax", "argmax_channel", "argmin", jumps=True, ranks=True, makes_indices=True)
traits("where", is_elementwise=True, jumps=True)


# -- reductions -------------------------------------------------------------------------------------------------------
def _axes(call: Call, named: Iterable[int] | None, exclude: bool = False) -> tuple[int, ...]:
    """The axes along which a reduction runs, from 0: the named ones, or all others; all if none is named."""
    every = range(len(call.shapes[0]))
    axes = {axis % len(every) for axis in named or ()}
    if exclude:
        return tuple(axis for axis in every if axis not in axes)
    return tuple(sorted(axes) or every)


@shape("max", "mean", "min", "nanprod", "nansum", "prod", "sum")
@shape("norm", exclude=False)
def _(call: Call, *, axis, exclude, keepdims) -> Shape:
    return call.reduced(_axes(call, axis, exclude), keepdims)


@onnx("max", op="ReduceMax")
@onnx("mean", op="ReduceMean")
@onnx("min", op="ReduceMin")
@onnx("prod", op="ReduceProd")
@onnx("sum", op="ReduceSum")
def _(call: OnnxCall, data: Tensor, *, axis, exclude, keepdims, op) -> Tensor:
    if op == "ReduceMean" and call.dtype.itemsize == 1:   # MXNet's sum overflows
        call.refuse_integers()
    return _reduced(call, data, op, _axes(call, axis, exclude), keepdims)


def _reduced(call: OnnxCall, data: Tensor, op: str, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """The result of a reduction. MXNet returns a vector of one element if no axis is left."""
    result = call.widened(lambda value: value.reduce(op, axes, keepdims), data)
    no_axis_left = len(axes) == len(call.shapes[0]) and not keepdims
    return result.reshape(call.shape) if no_axis_left else result


@torch("max", op="max")
@torch("min", op="min")
def _(call: TorchCall, *, axis, exclude, keepdims, op) -> str:
    axes = _axes(call, axis, exclude)
    if not axes:
        return "{0}"
    sign = "" if op == "max" else "-"
    text = sign + call.snippet("largest", list(axes), inputs=sign + "{0}", keepdim=keepdims)
    if call.dtype.kind in "iu":   # They have no gradient, and the negative of the least may be none of the type.
        text = f"{{0}}.a{op}({axes}, {keepdims})"
    return _in_own_type(call, f"{text}.reshape(1)" if _is_vector(call, axes, keepdims) else text)


@torch("mean", op="mean")
@torch("nansum", op="nansum")
@torch("prod", op="prod")
@torch("sum", op="sum")
def _(call: TorchCall, *, axis, exclude, keepdims, op) -> str:
    axes = _axes(call, axis, exclude)
    if not axes:   # torch would reduce all of them
        return "{0}"
    if _is_vector(call, axes, keepdims):
        return _in_own_type(call, f"{{0}}.{op}().reshape(1)")
    keep = ", keepdim=True" if keepdims else ""
    groups = reversed(axes) if op == "prod" else [one(axes)]   # torch's prod takes one axis
    return _in_own_type(call, "{0}" + "".join(f".{op}({group}{keep})" for group in groups))


def _is_vector(call: TorchCall, axes: tuple[int, ...], keepdims: bool) -> bool:
    """Whether no axis is left, where MXNet returns a vector of one element."""
    return len(axes) == call.ndim and not keepdims


def _in_own_type(call: TorchCall, text: str) -> str:
    """Sums of integers are int64 in torch."""
    return f"{text}.to({{0}}.dtype)" if call.dtype.kind in "iu" else text


@onnx("norm")
def _(call: OnnxCall, data: Tensor, *, ord, axis, keepdims) -> Tensor:
    call.refuse_integers()
    if ord not in (1, 2):
        raise call.refuse(f"has ord={ord}; expected 1 or 2")
    return _reduced(call, data, f"ReduceL{ord}", _axes(call, axis), keepdims)


@torch("norm")
def _(call: TorchCall, *, ord, axis, keepdims) -> str:
    axes = _axes(call, axis)
    text = f"torch.linalg.vector_norm({{0}}, {ord}, {axes}, keepdim={keepdims})"
    return f"{text}.reshape(1)" if _is_vector(call, axes, keepdims) else text


@shape("moments")
def _(call: Call, *, axes, keepdims) -> list[Shape]:
    call.check(bool(axes), 0, "the attribute axes, without which MXNet refuses the node")
    return [call.reduced(_axes(call, axes), keepdims)] * 2


@torch("moments")
def _(call: TorchCall, *, axes, keepdims) -> Form:
    axes = _axes(call, axes)
    call.refuse_if(_is_vector(call, axes, keepdims), "reduces all axes; expected at least one that is left")
    options = f"{one(axes)}, keepdim={keepdims}"
    return Form(f"{{0}}.mean({options}), {{0}}.var({options}, correction=0)", outputs=2)


@types("norm")
def _(call: Call, data: np.dtype, *, out_dtype) -> np.dtype | str:
    return out_dtype or data


@shape("argmax", "argmin")
def _(call: Call, *, axis, keepdims) -> Shape:
    return call.reduced(_axes(call, None if axis is None else [axis]), keepdims)


@onnx("argmax", op="ArgMax")
@onnx("argmin", op="ArgMin")
def _(call: OnnxCall, data: Tensor, *, axis, keepdims, op) -> Tensor:
    if axis is not None:
        return data.apply(op, axis=axis, keepdims=int(keepdims)).cast(call.dtype)
    if not all(isinstance(size, int) for size in call.shapes[0]):
        raise call.refuse("runs over the whole batch; expected an axis")
    flat = data.reshape((int(np.prod(call.shapes[0])),))
    return flat.apply(op, axis=0, keepdims=int(keepdims)).cast(call.dtype).reshape(call.shape)


@torch("argmax", op="argmax")
@torch("argmin", op="argmin")
def _(call: TorchCall, *, axis, keepdims, op) -> str:
    keep = ", keepdim=True" if keepdims else ""
    return f"{{0}}.{op}({call.from_front(axis)}{keep}).to({{0}}.dtype)"


@shape("_np_cumsum")
def _(call: Call, data: Shape, *, axis) -> Shape:
    return (math.prod(data),) if axis is None else data


@types("_np_cumsum")
def _(call: Call, data: np.dtype, *, dtype) -> np.dtype | str:
    return dtype or data


@onnx("_np_cumsum")
def _(call: OnnxCall, data: Tensor, *, axis) -> Tensor:
    value = data.reshape(call.shape) if axis is None else data
    return value.apply("CumSum", call.model.scalar(axis or 0, np.int64))


@torch("_np_cumsum")
def _(call: TorchCall, *, axis) -> str:
    text = "{0}.flatten().cumsum(0" if axis is None else f"{{0}}.cumsum({axis}"
    return text + (", dtype={0}.dtype)" if call.dtype.kind in "iu" else ")")


# -- products of matrices ---------------------------------------------------------------------------------------------
@shape("_linalg_gemm2")
@shape("batch_dot", axis=-2)
def _(call: Call, left: Shape, right: Shape, *, transpose_a, transpose_b, axis) -> Shape:
    call.check(axis in (-2, len(left) - 2), 0, "its rows along the last axis but one")
    rows, inner = left[:-3:-1] if transpose_a else left[-2:]
    others, columns = right[:-3:-1] if transpose_b else right[-2:]
    call.check(inner == others and left[:-2] == right[:-2], 1, f"{inner} rows")
    return (*left[:-2], rows, columns)


@shape("dot")
def _(call: Call, left: Shape, right: Shape, *, transpose_a, transpose_b) -> Shape:
    left = left[1:] + left[:1] if transpose_a else left
    right = right[-1:] + right[:-1] if transpose_b else right
    call.check(left[-1] == right[0], 1, f"{left[-1]} rows")
    return (*left[:-1], *right[1:]) or (1,)


def _product(call: OnnxCall, left: Tensor, right: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    """The product of matrices, of which the flags exchange the last two axes."""
    if transpose_a:
        left = left.swapped(len(call.shapes[0]), -2, -1)
    if transpose_b:
        right = right.swapped(len(call.shapes[1]), -2, -1)
    return left.apply("MatMul", right)


@onnx("_linalg_gemm2")
@onnx("batch_dot", alpha=1.0)
def _(call: OnnxCall, left: Tensor, right: Tensor, *, transpose_a, transpose_b, alpha) -> Tensor:
    product = _product(call, left, right, transpose_a, transpose_b)
    return product if alpha == 1 else product * alpha


@onnx("dot")
def _(call: OnnxCall, left: Tensor, right: Tensor, *, transpose_a, transpose_b) -> Tensor:
    if len(call.shapes[1]) > 2 or (len(call.shapes[0]) > 2 and transpose_a):
        raise call.refuse("multiplies tensors of more than two dimensions; expected matrices or vectors")
    product = _product(call, left, right, transpose_a, transpose_b)
    of_vectors = call.shape == (1,) and len(call.shapes[0]) <= 1
    return product.reshape((1,)) if of_vectors else product


def _product_text(transpose_a: bool, transpose_b: bool) -> str:
    """``mT`` would be shorter, and torch.onnx.export does not know it."""
    return "{0}" + ".transpose(-2, -1)" * transpose_a + " @ {1}" + ".transpose(-2, -1)" * transpose_b


@torch("_linalg_gemm2")
@torch("batch_dot", alpha=1.0)
def _(call: TorchCall, *, transpose_a, transpose_b, alpha) -> str:
    text = _product_text(transpose_a, transpose_b)
    return text if alpha == 1 else f"{number(alpha)} * ({text})"


@torch("dot")
def _(call: TorchCall, *, transpose_a, transpose_b) -> str:
    if max(map(len, call.shapes)) > 2:
        call.refuse_if(transpose_a or transpose_b, "transposes tensors of more than two dimensions")
        return "torch.tensordot({0}, {1}, 1)"
    if call.shape == (1,):   # It is of two vectors.
        return "({0} @ {1}).reshape(1)"
    return _product_text(transpose_a, transpose_b)


# -- choices ----------------------------------------------------------------------------------------------------------
@shape("where")
def _(call: Call, condition: Shape, *others: Shape) -> Shape:
    """A vector chooses rows."""
    result = call.alike((1, 2)) and call.shapes[1]
    call.check(condition in (result, result[:1]), 0, result)
    return result


@types("where")
def _(call: Call, condition: np.dtype, *others: np.dtype) -> np.dtype:
    return others[0]


@onnx("where")
def _(call: OnnxCall, condition: Tensor, *others: Tensor) -> Tensor:
    condition = condition.cast(bool)
    if len(call.shapes[0]) < len(call.shapes[1]):   # one condition per row
        condition = condition.reshape(call.shapes[0] + (1,) * (len(call.shapes[1]) - 1))
    return condition.apply("Where", *others)


@torch("where")
def _(call: TorchCall) -> str:
    rows = ", 1" * (len(call.shapes[1]) - 1) if call.ndim == 1 else ""
    return f"torch.where({{0}}.reshape(-1{rows}) != 0, {{1}}, {{2}})" if rows else "torch.where({0} != 0, {1}, {2})"
