"""MXNet's NumPy operators that move, join, reduce and multiply whole arrays, and those that make some.

A result may be a number, of shape ``()``, where a legacy operator makes a vector of one element.
"""
from __future__ import annotations

import math
import string

import numpy as np

from ..values import NodeValues
from .forms import Form
from .numpy_arithmetic import BOOL, FLOAT32, INT64, alike, first, promoted, refuse, truth
from .registry import OnnxCall, Tensor, TorchCall, in_torch, onnx, shape, torch, traits, types
from .shapes import Call, Shape

traits("_np_copy", "_np_moveaxis", "_np_squeeze", "_np_transpose", "_npi_broadcast_to", "_npi_flip", moves=True)
traits("_npi_broadcast_to", acts_as="broadcast")
traits("_npi_ones", "_npi_zeros", acts_as="fill")
traits("_npi_arange", acts_as="arange")
traits("_npi_concatenate", "_npi_hstack", "_npi_stack", "_npi_vstack", joins=True)
traits("_npi_argmax", "_npi_argmin", jumps=True, ranks=True, makes_indices=True)


# -- what moves elements ------------------------------------------------------------------------------------------
@onnx("_np_reshape", "_npx_reshape", "_np_squeeze")
def _(call: OnnxCall, data: Tensor) -> Tensor:
    """The shape of the result is known."""
    if call.node.attrs.get("order", "C") != "C":
        raise call.refuse(f"has order {call.node.attrs['order']}; expected C")
    return data if call.shape == call.shapes[0] else data.reshape(call.shape)


@shape("_np_squeeze")
def _(call: Call, data: Shape, *, axis) -> Shape:
    gone = _axes(call, axis) if axis is not None else [place for place, size in enumerate(data) if size == 1]
    call.check(all(data[place] == 1 for place in gone), 0, f"a size of 1 along {axis}")
    return tuple(size for place, size in enumerate(data) if place not in gone)


@torch("_np_squeeze")
def _(call: TorchCall, *, axis) -> str:
    gone = _axes(call, axis) if axis is not None else [place for place, size in enumerate(call.shapes[0]) if size == 1]
    return "{0}.squeeze(" + (f"{_one(gone)})" if axis is not None or not call.free[0] <= {0} or gone else ")")


def _one(axes: list[int] | tuple[int, ...]) -> str:
    """Axes as a call of torch names them."""
    return str(axes[0]) if len(axes) == 1 else str(tuple(axes))


def _axes(call: Call, axis: tuple[int, ...] | None) -> list[int]:
    """Axes of the first input, from 0: all if none is named; none of ()."""
    return list(range(len(call.shapes[0]))) if axis is None else sorted({call.from_front(each) for each in axis})


@shape("_np_transpose")
def _(call: Call, data: Shape, *, axes) -> Shape:
    order = _order(call, axes)
    call.check(sorted(order) == list(range(len(data))), 0, f"{len(order)} axes")
    return tuple(data[place] for place in order)


def _order(call: Call, axes: tuple[int, ...] | None) -> list[int]:
    """No axes reverse them."""
    rank = len(call.shapes[0])
    return [call.from_front(each) for each in axes] if axes else list(reversed(range(rank)))


@onnx("_np_transpose")
def _(call: OnnxCall, data: Tensor, *, axes) -> Tensor:
    order = _order(call, axes)
    return data.apply("Transpose", perm=order) if len(order) > 1 else data


@torch("_np_transpose")
def _(call: TorchCall, *, axes) -> str:
    order = _order(call, axes)
    return f"{{0}}.permute({', '.join(map(str, order))})" if len(order) > 1 else "{0}"


def _moved(call: Call, source: tuple[int, ...], destination: tuple[int, ...]) -> list[int]:
    """The order of the axes that a moveaxis makes."""
    places = np.moveaxis(np.empty(tuple(range(1, len(call.shapes[0]) + 1)), []), source, destination).shape
    return [place - 1 for place in places]


@shape("_np_moveaxis")
def _(call: Call, data: Shape, *, source, destination) -> Shape:
    return tuple(data[place] for place in _moved(call, source, destination))


@onnx("_np_moveaxis")
def _(call: OnnxCall, data: Tensor, *, source, destination) -> Tensor:
    return data.apply("Transpose", perm=_moved(call, source, destination))


@torch("_np_moveaxis")
def _(call: TorchCall, *, source, destination) -> str:
    return f"{{0}}.permute({', '.join(map(str, _moved(call, source, destination)))})"


@shape("_npi_broadcast_to")
def _(call: Call, data: Shape, *, shape) -> Shape:
    """A size of -2 is the data's."""
    sizes = tuple(data[place - len(shape)] if size == -2 else size for place, size in enumerate(shape))
    call.check(np.broadcast_shapes(data, sizes) == sizes, 0, f"what broadcasts to {sizes}")
    return sizes


@onnx("_npi_broadcast_to")
def _(call: OnnxCall, data: Tensor) -> Tensor:
    return data.expand(call.shape)


@torch("_npi_broadcast_to")
def _(call: TorchCall) -> str:
    new = len(call.shape) - call.ndim
    sizes = ["-1" if place >= new and size == call.shapes[0][place - new] else str(size)
             for place, size in enumerate(call.shape)]
    return f"{{0}}.expand({', '.join(sizes) or '()'})"


@shape("_npi_flip")
def _(call: Call, data: Shape) -> Shape:
    return data


@onnx("_npi_flip")
def _(call: OnnxCall, data: Tensor, *, axis) -> Tensor:
    bounds = [None] * len(axis)
    return data.cut(axis, bounds, bounds, [-1] * len(axis))


@torch("_npi_flip")
def _(call: TorchCall, *, axis) -> str:
    return f"{{0}}.flip({', '.join(map(str, axis))})"


# -- what joins and splits ------------------------------------------------------------------------------------------
@shape("_npi_concatenate")
def _(call: Call, *parts: Shape, axis) -> Shape:
    """Without an axis it joins all elements."""
    if axis is None:
        return (sum(map(math.prod, parts)),)
    place, result = call.from_front(axis), list(parts[0])
    for position, part in enumerate(parts):
        fits = len(part) == len(result) and all(new == old or each == place for each, (new, old)
                                                in enumerate(zip(part, result)))
        call.check(fits, position, f"{parts[0]}, but for axis {place}")
    result[place] = sum(part[place] for part in parts)
    return tuple(result)


@onnx("_npi_concatenate")
def _(call: OnnxCall, *parts: Tensor, axis) -> Tensor:
    if axis is None:
        return call.model.add("Concat", *(part.reshape((-1,)) for part in parts), axis=0)
    return call.model.add("Concat", *parts, axis=axis)


@torch("_npi_concatenate")
def _(call: TorchCall, *, axis) -> str:
    if axis is None:
        return "torch.cat([" + ", ".join(f"{{{place}}}.flatten()" for place in range(len(call.node.inputs))) + "])"
    return f"torch.cat([{{*}}], {axis})"


@shape("_npi_stack")
def _(call: Call, *parts: Shape, axis) -> Shape:
    place = axis % (len(parts[0]) + 1)
    for position, part in enumerate(parts):
        call.check(part == parts[0], position, parts[0])
    return (*parts[0][:place], len(parts), *parts[0][place:])


@onnx("_npi_stack")
def _(call: OnnxCall, *parts: Tensor, axis) -> Tensor:
    place = axis % len(call.shape)
    return call.model.add("Concat", *(part.unsqueeze(place) for part in parts), axis=place)


@shape("_npi_vstack")
@shape("_npi_hstack", of_columns=True)
def _(call: Call, *parts: Shape, of_columns=False) -> Shape:
    """Rows below each other, or columns beside each other; a vector is a row, or has rows of one element."""
    parts = [_at_least(part, of_columns) for part in parts]
    place = 1 if of_columns and len(parts[0]) > 1 else 0
    for position, part in enumerate(parts):
        call.check(part[:place] + part[place + 1:] == parts[0][:place] + parts[0][place + 1:], position, parts[0])
    return (*parts[0][:place], sum(part[place] for part in parts), *parts[0][place + 1:])


def _at_least(part: Shape, of_columns: bool) -> Shape:
    """The shape of a part: an hstack joins vectors at their ends, a vstack makes rows of them."""
    return (part or (1,)) if of_columns else (1,) * (2 - len(part)) + part


@onnx("_npi_vstack", of_columns=False)
@onnx("_npi_hstack", of_columns=True)
def _(call: OnnxCall, *parts: Tensor, of_columns) -> Tensor:
    shapes = [_at_least(part, of_columns) for part in call.shapes]
    parts = [part if shape == old else part.reshape(shape) for part, shape, old in zip(parts, shapes, call.shapes)]
    return call.model.add("Concat", *parts, axis=1 if of_columns and len(shapes[0]) > 1 else 0)


in_torch("_npi_vstack", "torch.vstack([{*}])")
in_torch("_npi_hstack", "torch.hstack([{*}])")
in_torch("_npi_stack", "torch.stack([{*}], <axis>)")
types("_npi_concatenate", "_npi_stack", "_npi_vstack", "_npi_hstack")(alike)


# -- borders ----------------------------------------------------------------------------------------------------------
@shape("_npi_pad")
def _(call: Call, data: Shape, *, pad_width) -> Shape:
    call.check(len(pad_width) == len(data), 0, f"{len(pad_width)} axes")
    return tuple(size + before + after for size, (before, after) in zip(data, pad_width))


@onnx("_npi_pad")
def _(call: OnnxCall, data: Tensor, *, pad_width, mode, constant_value) -> Tensor:
    widths = call.model.ints(*(before for before, _ in pad_width), *(after for _, after in pad_width))
    if mode == "constant":
        return data.apply("Pad", widths, call.model.scalar(constant_value, call.dtype), mode=mode)
    if mode not in ("edge", "reflect"):
        raise call.refuse(f"has mode {mode}; expected constant, edge or reflect")
    return data.apply("Pad", widths, mode=mode)


@torch("_npi_pad")
def _(call: TorchCall, *, pad_width, mode, constant_value) -> str:
    """F.pad counts axes from the last one. Its other modes take the pixels' axes alone."""
    modes = {"edge": "replicate", "reflect": "reflect"}
    is_of_pixels = mode in modes and call.ndim > 2 and not any(map(any, pad_width[:2]))
    call.refuse_if(mode != "constant" and not is_of_pixels,
                   f"has mode {mode} along {pad_width}; expected constant, or edge or reflect of pixels")
    pad_width = pad_width if mode == "constant" else pad_width[2:]
    sizes = tuple(size for pair in reversed(pad_width) for size in pair)
    if mode in modes:
        return f"F.pad({{0}}, {sizes}, mode='{modes[mode]}')"
    return f"F.pad({{0}}, {sizes}" + (f", value={constant_value})" if constant_value else ")")


# -- reductions -----------------------------------------------------------------------------------------------------
REDUCTIONS = {"_np_sum": "Sum", "_npi_mean": "Mean", "_np_prod": "Prod", "_np_max": "Max", "_np_min": "Min"}
SPREADS = ("_npi_var", "_npi_std")
TESTS = {"_np_any": "Max", "_np_all": "Min"}


types("_np_max", "_np_min")(first)
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
    gone = _axes(call, axis)
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
    gone, data = _axes(call, axis), _prepared(call, data)
    result = data.reduce(op, gone, keepdims) if gone else data
    return result if result.dtype == call.dtype else result.cast(call.dtype)


@onnx("_np_any", op="ReduceMax")
@onnx("_np_all", op="ReduceMin")
def _(call: OnnxCall, data: Tensor, *, axis, keepdims, op) -> Tensor:
    gone, data = _axes(call, axis), data.cast(bool).cast(np.int32)
    return (data.reduce(op, gone, keepdims) if gone else data).cast(bool)


@onnx("_npi_var", "_npi_std")
def _(call: OnnxCall, data: Tensor, *, axis, ddof, keepdims) -> Tensor:
    if call.dtype.kind != "f":
        raise call.refuse(f"computes in {call.dtype}, where it loses fractions; cast its input to float32 in the net")
    gone, data = _axes(call, axis), _prepared(call, data)
    count = math.prod(call.shapes[0][place] for place in gone) if ddof else 0
    if not isinstance(count, int):
        raise call.refuse("has ddof over the batch")
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
    gone, data = _axes(call, axis), "{0}"
    if name in ("any", "all"):
        data = "({0} != 0)"
    elif call.dtype != call.dtypes[0]:
        data = f"{{0}}.to(torch.{call.dtype})"
    if not gone:
        return data
    text = _reduced(data, name, gone, keepdims, call.ndim)
    if name in ("amax", "amin") and call.dtype.kind == "f":   # torch shares the gradient among equal numbers
        text = call.snippet("largest", list(gone), keepdim=keepdims)
        text = text if name == "amax" else "-" + text.replace("{*}", "-{0}")
    return f"{text}.to(torch.{call.dtype})" if name in ("sum", "prod") and call.dtype.kind in "iu" else text


def _reduced(data: str, name: str, gone: list[int], keeps: bool, rank: int) -> str:
    """What reduces axes in torch. Its prod, any and all take one axis."""
    if len(gone) == rank and not keeps:
        return f"{data}.{name}()"
    keep = ", keepdim=True" if keeps else ""
    groups = [str(each) for each in reversed(gone)] if name in ("prod", "any", "all") else [_one(gone)]
    return data + "".join(f".{name}({group}{keep})" for group in groups)


@torch("_npi_var", name="var")
@torch("_npi_std", name="std")
def _(call: TorchCall, *, axis, ddof, keepdims, name) -> str:
    call.refuse_if(call.dtype.kind != "f", f"computes in {call.dtype}, where it loses fractions; cast its input to "
                   "float32 in the net")
    gone, keep = _axes(call, axis), ", keepdim=True" if keepdims else ""
    data = "{0}" if call.dtype == call.dtypes[0] else f"{{0}}.to(torch.{call.dtype})"
    return f"{data}.{name}({_one(gone) if gone else '()'}, correction={ddof}{keep})"


@onnx("_npi_norm")
def _(call: OnnxCall, data: Tensor, *, axis, ord, flag, keepdims) -> Tensor:
    kind = _norm_of(call, ord, flag, axis)
    return data.reduce(f"ReduceL{kind}", _axes(call, axis), keepdims)


@torch("_npi_norm")
def _(call: TorchCall, *, axis, ord, flag, keepdims) -> str:
    kind = _norm_of(call, ord, flag, axis)
    return f"torch.linalg.vector_norm({{0}}, {kind}, {tuple(_axes(call, axis))}, keepdim={keepdims})"


def _norm_of(call: OnnxCall | TorchCall, order: float, flag: int, axis: tuple[int, ...] | None) -> int:
    """1 or 2, the order of a norm of vectors. ``flag`` is 1 or -2 for the root of all squares."""
    if flag in (1, -2):
        return 2
    if order in (1, 2) and axis is not None and len(axis) == 1:
        return int(order)
    refuse(call, f"is a norm of order {order} along {axis}; expected 1 or 2 of vectors")


@shape("_npi_argmax", "_npi_argmin")
def _(call: Call, data: Shape, *, axis, keepdims) -> Shape:
    gone = _axes(call, None if axis is None else (axis,))
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


# -- products -------------------------------------------------------------------------------------------------------
@shape("_np_dot")
def _(call: Call, left: Shape, right: Shape) -> Shape:
    """The last axis with the last but one."""
    if not left or not right:
        return left or right
    inner = right[-2] if len(right) > 1 else right[0]
    call.check(left[-1] == inner, 1, f"{left[-1]} rows")
    return (*left[:-1], *right[:-2], *(right[-1:] if len(right) > 1 else ()))


@onnx("_np_dot")
def _(call: OnnxCall, left: Tensor, right: Tensor) -> Tensor:
    left_rank, right_rank = map(len, call.shapes)
    if not left_rank or not right_rank:
        return left * right
    if right_rank <= 2:
        return left.apply("MatMul", right)
    return call.model.add("Einsum", left, right, equation=_summed(
        left_rank, right_rank, (left_rank - 1,), (right_rank - 2,)))


@torch("_np_dot")
def _(call: TorchCall) -> str:
    left_rank, right_rank = map(len, call.shapes)
    if not left_rank or not right_rank:
        return "{0} * {1}"
    return "{0} @ {1}" if right_rank <= 2 else "torch.tensordot({0}, {1}, ([-1], [-2]))"


def _summed(left: int, right: int, of_left: tuple[int, ...], of_right: tuple[int, ...]) -> str:
    """The equation of an einsum of arrays with so many axes, which sums over pairs of them."""
    names = string.ascii_letters
    first, second = list(names[:left]), list(names[left:left + right])
    for one, other in zip(of_left, of_right):
        second[other] = first[one]
    rest = [name for place, name in enumerate(first) if place not in of_left]
    rest += [name for place, name in enumerate(second) if place not in of_right]
    return f"{''.join(first)},{''.join(second)}->{''.join(rest)}"


def _pairs(call: Call) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes that a tensordot sums over."""
    left, right = map(len, call.shapes)
    attributes = call.attributes
    if "axes" in attributes:
        return tuple(range(left - attributes["axes"], left)), tuple(range(attributes["axes"]))
    return (tuple(axis % left for axis in attributes["a_axes_summed"]),
            tuple(axis % right for axis in attributes["b_axes_summed"]))


@shape("_npi_tensordot", "_npi_tensordot_int_axes")
def _(call: Call, left: Shape, right: Shape) -> Shape:
    of_left, of_right = _pairs(call)
    call.check([left[axis] for axis in of_left] == [right[axis] for axis in of_right], 1,
               f"sizes {[left[axis] for axis in of_left]} along {of_right}")
    return (*(size for axis, size in enumerate(left) if axis not in of_left),
            *(size for axis, size in enumerate(right) if axis not in of_right))


@onnx("_npi_tensordot", "_npi_tensordot_int_axes")
def _(call: OnnxCall, left: Tensor, right: Tensor) -> Tensor:
    return call.model.add("Einsum", left, right, equation=_summed(*map(len, call.shapes), *_pairs(call)))


@torch("_npi_tensordot", "_npi_tensordot_int_axes")
def _(call: TorchCall) -> str:
    of_left, of_right = map(list, _pairs(call))
    return f"torch.tensordot({{0}}, {{1}}, ({of_left}, {of_right}))"


@shape("_npi_matmul")
def _(call: Call, left: Shape, right: Shape) -> Shape:
    rows, columns = left[-2:-1], right[-1:] if len(right) > 1 else ()
    inner = right[-2] if len(right) > 1 else right[0]
    call.check(left[-1] == inner, 1, f"{left[-1]} rows")
    return (*np.broadcast_shapes(left[:-2], right[:-2]), *rows, *columns)


@onnx("_npi_matmul")
def _(call: OnnxCall, left: Tensor, right: Tensor) -> Tensor:
    return left.apply("MatMul", right)


in_torch("_npi_matmul", "{0} @ {1}")
types("_np_dot", "_npi_tensordot", "_npi_tensordot_int_axes", "_npi_matmul", "_npi_einsum")(promoted)


def _equation(subscripts: str) -> str:
    """An einsum's equation with its result: the letters that stand there once, in their order."""
    text = subscripts.replace(" ", "")
    if "->" in text:
        return text
    letters = text.replace(",", "").replace("...", "")
    dots = "..." if "..." in text else ""
    return f"{text}->{dots}{''.join(sorted(each for each in set(letters) if letters.count(each) == 1))}"


@shape("_npi_einsum")
def _(call: Call, *operands: Shape, subscripts) -> Shape:
    return np.einsum(_equation(subscripts), *(np.broadcast_to(0.0, operand) for operand in operands)).shape


@onnx("_npi_einsum")
def _(call: OnnxCall, *operands: Tensor, subscripts) -> Tensor:
    return call.model.add("Einsum", *operands, equation=_equation(subscripts))


@torch("_npi_einsum")
def _(call: TorchCall, *, subscripts) -> str:
    return f"torch.einsum({_equation(subscripts)!r}, {{*}})"


@shape("_npi_tril")
def _(call: Call, data: Shape) -> Shape:
    return data if len(data) > 1 else data * 2


@onnx("_npi_tril")
def _(call: OnnxCall, data: Tensor, *, k) -> Tensor:
    data = data.expand(call.shape) if len(call.shapes[0]) == 1 else data
    return data.apply("Trilu", call.model.scalar(k, np.int64), upper=0)


@torch("_npi_tril")
def _(call: TorchCall, *, k) -> str:
    data = "{0}" if call.ndim > 1 else f"{{0}}.expand({call.shape[0]}, -1)"
    return f"{data}.tril({k})" if k else f"{data}.tril()"


# -- what is split, and what depends on no input --------------------------------------------------------------------
@shape("_npi_zeros", "_npi_ones")
def _(call: Call, *, shape) -> Shape:
    return shape


@shape("_npi_arange")
def _(call: Call, *, start, stop, step, repeat) -> Shape:
    begin, end = (0.0, start) if stop is None else (start, stop)
    return (max(math.ceil((end - begin) / step), 0) * repeat,)


@shape("_npi_eye")
def _(call: Call, *, N, M) -> Shape:
    return N, N if M in ("None", None) else int(M)


@shape("_npi_identity")
def _(call: Call, *, shape) -> Shape:
    return shape


@types("_npi_zeros", "_npi_ones", "_npi_arange", "_npi_eye", "_npi_identity")
def _(call: NodeValues, *, dtype) -> np.dtype | str:
    return dtype or FLOAT32


@shape("_npi_hsplit")
def _(call: Call, data: Shape, *, indices, sections) -> list[Shape]:
    """Along the second axis, or the only one."""
    axis = min(1, len(data) - 1)
    bounds = _bounds(data[axis], indices, sections)
    return [(*data[:axis], end - begin, *data[axis + 1:]) for begin, end in zip(bounds, bounds[1:])]


def _bounds(length: int, indices: tuple[int, ...], sections: int) -> list[int]:
    begins = [part * length // sections for part in range(sections)] if sections else list(indices)
    return [*begins, length]


@onnx("_npi_hsplit")
def _(call: OnnxCall, data: Tensor, *, indices, sections) -> Tensor | list[Tensor]:
    axis = min(1, len(call.shapes[0]) - 1)
    lengths = np.diff(_bounds(call.shapes[0][axis], indices, sections))
    if len(lengths) == 1:
        return data
    return data.apply("Split", call.model.ints(*lengths), outputs=len(lengths), axis=axis)


@torch("_npi_hsplit")
def _(call: TorchCall, *, indices, sections) -> Form:
    axis = min(1, call.ndim - 1)
    bounds = _bounds(call.shapes[0][axis], indices, sections)
    if len(bounds) == 2:
        return Form("{0}")
    return Form(f"{{0}}.tensor_split({tuple(bounds[1:-1])}, {axis})", outputs=len(bounds) - 1)
