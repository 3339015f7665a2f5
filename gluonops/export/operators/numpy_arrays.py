"""MXNet's NumPy operators that move, join, pad and split whole arrays, and those that make some.

A result may be a number, of shape ``()``, where a legacy operator makes a vector of one element.
"""
from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ..values import NodeValues
from .forms import Form
from .numpy_arithmetic import FLOAT32, alike
from .registry import OnnxCall, Tensor, TorchCall, in_torch, onnx, shape, torch, traits, types
from .shapes import Call, Shape, broadcast

traits("_np_copy", "_np_moveaxis", "_np_roll", "_np_squeeze", "_np_transpose", "_npi_broadcast_to", "_npi_flip",
       moves=True)
traits("_npi_broadcast_to", acts_as="broadcast")
traits("_npi_ones", "_npi_zeros", acts_as="fill")
traits("_npi_arange", acts_as="arange")
traits("_npi_dsplit", "_npi_hsplit", acts_as="split")
traits("_npi_concatenate", "_npi_dstack", "_npi_hstack", "_npi_stack", "_npi_vstack", joins=True)


# -- what moves elements ------------------------------------------------------------------------------------------
@onnx("_np_reshape", "_npx_reshape")
@onnx("_np_squeeze", order="C")
def _(call: OnnxCall, data: Tensor, *, order) -> Tensor:
    """The shape of the result is known."""
    if order != "C":
        raise call.refuse(f"has order {order}; expected C")
    return data if call.shape == call.shapes[0] else data.reshape(call.shape)


@shape("_np_squeeze")
def _(call: Call, data: Shape, *, axis) -> Shape:
    gone = axes_of(call, axis) if axis is not None else [place for place, size in enumerate(data) if size == 1]
    call.check(all(data[place] == 1 for place in gone), 0, f"a size of 1 along {axis}")
    return tuple(size for place, size in enumerate(data) if place not in gone)


@torch("_np_squeeze")
def _(call: TorchCall, *, axis) -> str:
    ones = [place for place, size in enumerate(call.shapes[0]) if size == 1]
    gone = axes_of(call, axis) if axis is not None else ones
    return "{0}.squeeze(" + (f"{one_text(gone)})" if axis is not None or not call.free[0] <= {0} or gone else ")")


def one_text(axes: list[int] | tuple[int, ...]) -> str:
    """Axes as a call of torch names them."""
    return str(axes[0]) if len(axes) == 1 else str(tuple(axes))


def axes_of(call: Call, axis: tuple[int, ...] | None) -> list[int]:
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
    call.check(broadcast(data, sizes) == sizes, 0, f"what broadcasts to {sizes}")
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


@shape("_np_roll")
def _(call: Call, data: Shape) -> Shape:
    return data


def _shifts(call: Call, shift: tuple[int, ...], axis: tuple[int, ...] | None) -> dict[int, int]:
    """How far each axis is rolled. One shift, or one axis, is for all of the others."""
    places = [call.from_front(each) for each in axis]
    shift = shift * len(places) if len(shift) == 1 else shift
    places = places * len(shift) if len(places) == 1 else places
    rolled = dict.fromkeys(places, 0)
    for place, each in zip(places, shift):
        rolled[place] += each
    return rolled


@onnx("_np_roll")
def _(call: OnnxCall, data: Tensor, *, shift, axis) -> Tensor:
    """Without an axis the elements are rolled in their order."""
    shape = call.shapes[0]
    if axis is None:
        return _rolled(call, data.reshape((-1,)), 0, math.prod(shape), shift[0]).reshape(shape)
    for place, each in _shifts(call, shift, axis).items():
        data = _rolled(call, data, place, shape[place], each)
    return data


def _rolled(call: OnnxCall, data: Tensor, axis: int, size: int, shift: int) -> Tensor:
    """The last elements along an axis, and then the first ones."""
    if not isinstance(size, int):
        raise call.refuse("rolls the batch")
    shift = shift % size if size else 0
    if not shift:
        return data
    parts = data.cut([axis], [size - shift], [None]), data.cut([axis], [None], [size - shift])
    return call.model.add("Concat", *parts, axis=axis)


@torch("_np_roll")
def _(call: TorchCall, *, shift, axis) -> str:
    if axis is None:
        return f"{{0}}.roll({shift[0]})"
    rolled = _shifts(call, shift, axis)
    return f"{{0}}.roll({one_text(list(rolled.values()))}, {one_text(list(rolled))})"


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
    return f"torch.cat([*{{inputs}}], {axis})"


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


STACKS = ("_npi_vstack", "_npi_hstack", "_npi_dstack")


@shape(*STACKS)
def _(call: Call, *parts: Shape) -> Shape:
    """Rows below each other, columns beside each other, or matrices behind each other."""
    parts, place = _at_least(call, parts)
    for position, part in enumerate(parts):
        call.check(part[:place] + part[place + 1:] == parts[0][:place] + parts[0][place + 1:], position, parts[0])
    return (*parts[0][:place], sum(part[place] for part in parts), *parts[0][place + 1:])


def _at_least(call: Call, parts: Iterable[Shape]) -> tuple[list[Shape], int]:
    """The shapes of the parts of a stack with the axes that they lack, and the axis along which it joins them.

    A vector is a row of a vstack, and a row of pixels of a dstack. An hstack joins vectors at their ends.
    """
    if call.node.op == "_npi_vstack":
        return [(1,) * (2 - len(part)) + part for part in parts], 0
    if call.node.op == "_npi_dstack":
        return [(1, *part, 1) if len(part) == 1 else part + (1,) * (3 - len(part)) for part in parts], 2
    parts = [part or (1,) for part in parts]
    return parts, min(1, len(parts[0]) - 1)


@onnx(*STACKS)
def _(call: OnnxCall, *parts: Tensor) -> Tensor:
    shapes, place = _at_least(call, call.shapes)
    parts = [part if shape == old else part.reshape(shape) for part, shape, old in zip(parts, shapes, call.shapes)]
    return call.model.add("Concat", *parts, axis=place)


for _name in STACKS:
    in_torch(_name, f"torch.{_name[len('_npi_'):]}([*{{inputs}}])")
in_torch("_npi_stack", "torch.stack([*{inputs}], {axis})")
types("_npi_concatenate", "_npi_stack", *STACKS)(alike)


# -- borders ----------------------------------------------------------------------------------------------------------
MODES = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}   # MXNet's word -> torch's


@shape("_npi_pad")
def _(call: Call, data: Shape, *, pad_width) -> Shape:
    call.check(len(pad_width) == len(data), 0, f"{len(pad_width)} axes")
    return tuple(size + before + after for size, (before, after) in zip(data, pad_width))


@onnx("_npi_pad")
def _(call: OnnxCall, data: Tensor, *, pad_width, mode, constant_value) -> Tensor:
    widths = call.model.ints(*(before for before, _ in pad_width), *(after for _, after in pad_width))
    if mode == "constant":
        return data.apply("Pad", widths, call.model.scalar(constant_value, call.dtype), mode=mode)
    if mode not in MODES:
        raise call.refuse(f"has mode {mode}; expected {', '.join(MODES)}")
    return data.apply("Pad", widths, mode=mode)


@torch("_npi_pad")
def _(call: TorchCall, *, pad_width, mode, constant_value) -> str:
    """F.pad counts axes from the last one. Its other modes take the pixels' axes alone, and less than their sizes."""
    call.refuse_if(mode not in MODES, f"has mode {mode}; expected {', '.join(MODES)}")
    is_of_pixels = call.ndim in (3, 4, 5) and not any(map(any, pad_width[:2]))
    fits = mode == "edge" or all(max(pair) < size for pair, size in zip(pad_width, call.shapes[0]))
    if mode != "constant" and not (is_of_pixels and fits):
        return call.snippet("pad_with_own", list(pad_width), mirrors=mode == "reflect")
    sizes = tuple(size for pair in reversed(pad_width if mode == "constant" else pad_width[2:]) for size in pair)
    if mode != "constant":
        return f"F.pad({{0}}, {sizes}, mode='{MODES[mode]}')"
    return f"F.pad({{0}}, {sizes}" + (f", value={constant_value})" if constant_value else ")")


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
