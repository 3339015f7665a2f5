"""Parts of arrays, several arrays in one, and one in several."""
from __future__ import annotations

import numpy as np

from ..symbolic import Size
from .forms import Form, one
from .registry import OnnxCall, Tensor, TorchCall, in_torch, onnx, shape, torch, traits, values
from .shapes import OPEN, Call, Shape

traits("Crop", "SliceChannel", "_split_v2", "slice", "slice_axis", "slice_like", moves=True)
traits("SliceChannel", "slice_axis", keeps_batch=True)
traits("Crop", "slice_like", shape_inputs=(1,))
traits("slice", "slice_axis", acts_as="slice")
traits("_split_v2", acts_as="split")
traits("slice_axis", hides_layout=True, shown=("axis", "begin", "end"))
traits("slice_like", reads_any_types=True)
traits("_scatter_set_nd", "_slice_assign", "_slice_assign_scalar", assigns=True)
traits("Concat", "stack", joins=True)
traits("Concat", in_8_bits=True, shown=("dim",))


# -- slices -----------------------------------------------------------------------------------------------------------
def _bounds(call: Call) -> dict[int, tuple[int | None, ...]]:
    """A slice's axes, which may count from the end -> begin, end and step there, as in Python's slices."""
    given = call.attributes
    if "axis" in given:
        return {given["axis"]: (given["begin"] or None, given["end"], None)}
    steps = given["step"] or (None,) * len(given["begin"])
    return dict(enumerate(zip(given["begin"], given["end"], steps)))


@values("slice", "slice_axis")
def _(call: Call, x: np.ndarray) -> np.ndarray:
    index = [slice(None)] * x.ndim
    for axis, bounds in _bounds(call).items():
        index[axis] = slice(*bounds)
    return x[tuple(index)]


@shape("slice")
def _(call: Call, data: Shape) -> Shape:
    sizes = list(data)
    for axis, bounds in _bounds(call).items():
        sizes[axis] = _count(data[axis], *bounds)
    call.check(OPEN in data or all(size > 0 for size in sizes), 0, "elements in what is taken")
    return tuple(sizes)


def _count(size: Size, begin: int | None, end: int | None, step: int | None) -> Size:
    """How many elements a slice of Python's takes out of so many: as many as there are."""
    step = step or 1
    first, last = (0, size) if step > 0 else (-1, size - 1)   # where bounds out of range are taken to be
    default = (first, last) if step > 0 else (last, first)
    begin, end = (other if bound is None else max(bound + size, first) if bound < 0 else min(bound, last)
                  for bound, other in zip((begin, end), default))
    return max(-((begin - end) // step), 0)


@shape("slice_axis")
def _(call: Call, data: Shape) -> Shape:
    (axis, (begin, end, _)), = _bounds(call).items()
    axis, least = call.from_front(axis), max(-(begin or 0), end or 0)
    call.check(data[axis] == OPEN or data[axis] >= least, 0, f"at least {least} along axis {axis}")
    size = _count(data[axis], begin, end, None)
    call.check(OPEN in data or size > 0, 0, "elements in what is taken")
    return (*data[:axis], size, *data[axis + 1:])


@onnx("slice", "slice_axis")
def _(call: OnnxCall, data: Tensor) -> Tensor:
    bounds = {axis: (begin, end, step or 1) for axis, (begin, end, step) in _bounds(call).items()}
    bounds = {axis: bound for axis, bound in bounds.items() if bound != (None, None, 1)}
    return data.cut(list(bounds), *zip(*bounds.values())) if bounds else data


@torch("slice", "slice_axis")
def _(call: TorchCall) -> str:
    texts, flipped = {}, []
    for axis, (begin, end, step) in _bounds(call).items():
        step = step or 1
        if step < 0:   # torch has no negative steps; the last element of the flipped data is the first one
            begin, end = (None if bound is None else ~bound for bound in (begin, end))
            flipped.append(axis % call.ndim)
        text = f"{begin or ''}:{'' if end is None else end}" + (f":{abs(step)}" if abs(step) > 1 else "")
        if text != ":":
            texts[axis % call.ndim] = text
    return _index(texts, f"{{0}}.flip({one(flipped)})" if flipped else "{0}")


def _index(parts: dict[int, str], data: str = "{0}") -> str:
    """What takes a part of data along some axes, such as ``{0}[:, 2:4]``."""
    return f"{data}[{', '.join(parts.get(axis, ':') for axis in range(max(parts) + 1))}]" if parts else data


# -- the sizes of another array ---------------------------------------------------------------------------------------
def _shrunk(call: Call, sizes: dict[int, int]) -> Shape:
    """The shape of the data with smaller sizes along some axes."""
    found = list(call.data)
    for axis, size in sizes.items():
        call.check(size <= found[axis], 0, f"at least {size} along axis {axis}")
        found[axis] = size
    return tuple(found)


def _cut_axes(call: Call, axes: Shape) -> list[int]:
    """The axes of the first input of a slice_like that get the second one's sizes."""
    rank = len(call.shapes[0])
    return [axis % rank for axis in axes or range(rank)]


@shape("slice_like")
def _(call: Call, data: Shape, other: Shape, *, axes) -> Shape:
    return _shrunk(call, {axis: other[axis] for axis in _cut_axes(call, axes)})


@shape("Crop")
def _(call: Call, data: Shape, *others: Shape, h_w) -> Shape:
    return _shrunk(call, dict(zip((2, 3), others[0][2:] if others else h_w)))


@onnx("Crop")
@onnx("slice_like", center_crop=False, offset=())
def _(call: OnnxCall, data: Tensor, *others: Tensor | None, center_crop, offset) -> Tensor:
    """A part of the first input, with the output's sizes."""
    begins = [0] * len(call.shape)
    if center_crop:
        begins[2:] = [(old - new) // 2 for old, new in zip(call.shapes[0][2:], call.shape[2:])]
    elif offset:
        begins[2:] = offset
    axes = [i for i, (old, new) in enumerate(zip(call.shapes[0], call.shape)) if old != new]
    if not axes:
        return data
    first = call.model.ints(*[begins[axis] for axis in axes])
    last = call.model.shape([call.shape[axis] for axis in axes])
    if any(begins):
        last = last + first
    return data.apply("Slice", first, last, call.model.ints(*axes))


@torch("slice_like")
def _(call: TorchCall, *, axes) -> str:
    return _index({axis: f":{{1}}.shape[{axis}]" for axis in _cut_axes(call, axes)})


@torch("Crop")
def _(call: TorchCall, *, center_crop, offset) -> str:
    is_elsewhere = offset != (0, 0) or center_crop or len(call.node.inputs) != 2
    call.refuse_if(is_elsewhere, "crops away from the corner")
    return _index({axis: f":{{1}}.shape[{axis}]" for axis in (2, 3)})


# -- several arrays in one --------------------------------------------------------------------------------------------
@values("Concat")
def _(call: Call, *parts: np.ndarray, dim) -> np.ndarray:
    return np.concatenate(parts, dim)


@shape("Concat", "_rnn_param_concat")
def _(call: Call, *, dim) -> Shape:
    axis = call.from_front(dim)
    found = list(call.data)
    for position, other in enumerate(call.shapes):
        call.expect(position, (*found[:axis], other[axis], *found[axis + 1:]))
    found[axis] = sum(other[axis] for other in call.shapes)
    return tuple(found)


@onnx("Concat", "_rnn_param_concat")
def _(call: OnnxCall, *inputs: Tensor, dim) -> Tensor:
    return call.model.add("Concat", *inputs, axis=dim)


in_torch("Concat", "torch.cat([*{inputs}], {dim})")


@values("stack")
def _(call: Call, *parts: np.ndarray, axis) -> np.ndarray:
    return np.stack(parts, axis)


@shape("stack")
def _(call: Call, *, axis) -> Shape:
    axis %= len(call.data) + 1
    found = call.alike()
    return (*found[:axis], len(call.shapes), *found[axis:])


@onnx("stack")
def _(call: OnnxCall, *inputs: Tensor, axis) -> Tensor:
    axis %= len(call.shape)
    sizes = call.shape[:axis] + (1,) + call.shape[axis + 1:]
    return call.model.add("Concat", *[value.reshape(sizes) for value in inputs], axis=axis)


in_torch("stack", "torch.stack([*{inputs}], {axis})")


# -- one array in several ---------------------------------------------------------------------------------------------
@shape("SliceChannel")
def _(call: Call, data: Shape, *, num_outputs, axis, squeeze_axis) -> list[Shape]:
    axis = call.from_front(axis)
    size, rest = divmod(data[axis], num_outputs)
    call.check(rest == 0 and (size == 1 or not squeeze_axis), 0, f"a size of {num_outputs} parts along axis {axis}")
    part = () if squeeze_axis else (size,)
    return [(*data[:axis], *part, *data[axis + 1:])] * num_outputs


def _without_axis(call: OnnxCall, parts: list[Tensor], squeeze_axis: bool) -> list[Tensor]:
    """The parts of a split, without the axis if the node says so."""
    return [part.reshape(call.shape) for part in parts] if squeeze_axis else parts


@onnx("SliceChannel")
def _(call: OnnxCall, data: Tensor, *, num_outputs, axis, squeeze_axis) -> list[Tensor]:
    if num_outputs == 1:
        return _without_axis(call, [data], squeeze_axis)
    options = {"num_outputs": num_outputs} if call.model.opset >= 18 else {}   # ONNX needs it from then on
    return _without_axis(call, data.apply("Split", outputs=num_outputs, axis=axis, **options), squeeze_axis)


@torch("SliceChannel")
def _(call: TorchCall, *, num_outputs, axis, squeeze_axis) -> Form:
    return _parts(f"unbind({axis})" if squeeze_axis else f"chunk({num_outputs}, {axis})", num_outputs)


def _parts(method: str, count: int) -> Form:
    """What a method returns in several parts, of which there may be one alone."""
    return Form(f"{{0}}.{method}" if count > 1 else f"{{0}}.{method}[0]", outputs=count)


def _begins(length: int, sections: int, indices: Shape) -> list[int]:
    """Where the parts of a split_v2 begin, of an axis of some length."""
    return [part * length // sections for part in range(sections)] or list(indices)


@shape("_split_v2")
def _(call: Call, data: Shape, *, indices, axis, squeeze_axis, sections) -> list[Shape]:
    axis = call.from_front(axis)
    begins = [*_begins(data[axis], sections, indices), data[axis]]
    parts = [() if squeeze_axis else (end - begin,) for begin, end in zip(begins, begins[1:])]
    return [(*data[:axis], *part, *data[axis + 1:]) for part in parts]


@onnx("_split_v2")
def _(call: OnnxCall, data: Tensor, *, indices, axis, squeeze_axis, sections) -> list[Tensor]:
    axis = call.from_front(axis)
    length = call.shapes[0][axis]
    if not isinstance(length, int):
        raise call.refuse("splits the batch")
    begins = _begins(length, sections, indices)
    if len(begins) == 1:
        return _without_axis(call, [data], squeeze_axis)
    lengths = np.diff([*begins, length])
    parts = data.apply("Split", call.model.ints(*lengths), outputs=len(lengths), axis=axis)
    return _without_axis(call, parts, squeeze_axis)


@torch("_split_v2")
def _(call: TorchCall, *, indices, axis, squeeze_axis, sections) -> Form:
    axis = call.from_front(axis)
    begins = _begins(call.shapes[0][axis], sections, indices)
    if squeeze_axis:
        method = f"unbind({axis})"
    elif sections:
        method = f"chunk({len(begins)}, {axis})"
    else:
        method = f"tensor_split({tuple(begins[1:])}, {axis})"
    return _parts(method, len(begins))
