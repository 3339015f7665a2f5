"""What makes and repeats elements: zeros, ones, counted numbers, borders, copies along axes."""
from __future__ import annotations

import math
import operator

import numpy as np

from .registry import VALUES, OnnxCall, Tensor, TorchCall, in_torch, onnx, shape, torch, traits, types, values
from .shapes import OPEN, Call, Misfit, Shape

traits("broadcast_axis", "broadcast_like", "broadcast_to", "repeat", "tile", moves=True)
traits("broadcast_axis", "broadcast_to", acts_as="broadcast")
traits("broadcast_like", shape_inputs=(1,), reads_any_types=True)
traits("_full", "_ones", "_zeros", acts_as="fill")
traits("_full", "_ones", "_zeros", may_be_open=True)
traits("_arange", acts_as="arange")
traits("_full", "_set_value", assigns=True)
traits("_contrib_arange_like", "ones_like", "shape_array", "size_array", "zeros_like", shape_inputs=(0,),
       makes_indices=True)
traits("ones_like", "zeros_like", keeps_sizes=True)
traits("repeat", acts_as="repeat")
traits("tile", acts_as="tile", shown=("reps",))


# -- arrays of their own ----------------------------------------------------------------------------------------------
@values("_full")
@values("_ones", value=1)
@values("_zeros", value=0)
def _(call: Call, *, shape, dtype, value) -> np.ndarray:
    return np.full(shape, value, dtype)


@shape("_full", "_ones", "_zeros")
def _(call: Call, *, shape) -> Shape:
    """With NumPy's shapes -1 is a size that its readers tell."""
    return tuple(OPEN if size == -1 else size for size in shape)


@shape("ones_like", "zeros_like")
def _(call: Call, data: Shape) -> Shape:
    return data


@types("_arange", "_full", "_ones", "_zeros")
def _(call: Call, *, dtype) -> str:
    return dtype


@types("_contrib_index_array", "shape_array", "size_array")
def _(call: Call, data: np.dtype) -> str:
    return "int64"


@onnx("_full")
@onnx("_ones", "ones_like", value=1)
@onnx("_zeros", "zeros_like", value=0)
def _(call: OnnxCall, *like: Tensor | None, value) -> Tensor:
    """Its shape depends on the batch, or its readers have it, as for the first state of a recurrent layer."""
    return call.model.scalar(value, call.dtype).expand(call.shape)


@torch("_ones", method="new_ones")
@torch("_zeros", method="new_zeros")
def _(call: TorchCall, *, method) -> str:
    """A recurrent cell's first state has the batch of the data that it reads. Other arrays are constants."""
    sizes = [f"{{0}}.shape[{axis}]" if axis in call.free_output else str(size) for axis, size in enumerate(call.shape)]
    return f"{{0}}.{method}({', '.join(sizes)})"


for _name in ("ones_like", "zeros_like"):
    in_torch(_name, f"torch.{_name}({{0}})")


@values("_arange")
def _(call: Call, *, start, stop, step, repeat, infer_range, dtype) -> np.ndarray:
    """It computes in float64."""
    if infer_range:
        raise Misfit(f"{call.node.name!r} (_arange) has a length that follows from its readers")
    start, stop = (0, start) if stop is None else (start, stop)
    count = math.ceil((stop - start) / step)
    return np.repeat(np.float64(start) + np.arange(count) * np.float64(step), repeat).astype(dtype)


@shape("_arange")
def _(call: Call, *, infer_range) -> Shape:
    return (OPEN,) if infer_range else VALUES["_arange"](call).shape


@shape("_contrib_arange_like")
def _(call: Call, data: Shape, *, axis) -> Shape:
    return data if axis is None else (data[call.from_front(axis)],)


@onnx("_arange", "_contrib_arange_like")
def _(call: OnnxCall, *like: Tensor | None, start, step, repeat) -> Tensor:
    """Numbers along the batch, or along the axis of a reader. Others are constants."""
    if len(call.shape) > 1 or repeat != 1:
        raise call.refuse("counts the elements of the whole batch")
    return call.model.positions(call.shape[0], call.dtype) * step + start


@torch("_contrib_arange_like")
def _(call: TorchCall, *, start, step, repeat, axis) -> str:
    call.refuse_if(axis is None or (start, step, repeat) != (0, 1, 1),
                   "counts otherwise than along an axis, from 0 in steps of 1")
    return f"torch.arange({{0}}.shape[{axis}], dtype={{0}}.dtype, device={{0}}.device)"


@shape("_contrib_index_array")
def _(call: Call, data: Shape, *, axes) -> Shape:
    return (*data, len(axes or data))


@torch("_contrib_index_array")
def _(call: TorchCall, *, axes) -> str:
    ones = [f"torch.ones_like({{0}}).cumsum({axis % call.ndim}) - 1" for axis in axes or range(call.ndim)]
    return f"torch.stack([{', '.join(ones)}], -1)"


@shape("shape_array")
def _(call: Call, data: Shape) -> Shape:
    return (len(data),)


@onnx("shape_array")
def _(call: OnnxCall, data: Tensor | None) -> Tensor:
    return call.model.shape(call.shapes[0])


in_torch("shape_array", "torch.tensor({0}.shape, device={0}.device)")


@shape("size_array")
def _(call: Call, data: Shape) -> Shape:
    return (1,)


@onnx("size_array")
def _(call: OnnxCall, data: Tensor | None) -> Tensor:
    return call.model.shape(call.shapes[0]).reduce("ReduceProd", [0])


# -- repeated elements, and borders -----------------------------------------------------------------------------------
def _grown(call: Call, sizes: dict[int, int]) -> Shape:
    """The shape of the data with other sizes along some axes of one element."""
    found = list(call.data)
    for axis, size in sizes.items():
        call.check(found[axis] in (1, size), 0, f"a size of 1 along axis {axis}")
        found[axis] = size
    return tuple(found)


@values("broadcast_to")
def _(call: Call, x: np.ndarray, *, shape) -> np.ndarray:
    return np.broadcast_to(x, [size or old for size, old in zip(shape, x.shape)])


@shape("broadcast_to")
def _(call: Call, data: Shape, *, shape) -> Shape:
    call.check(len(shape) == len(data), 0, f"{len(shape)} axes")
    return _grown(call, {axis: size for axis, size in enumerate(shape) if size})


@shape("broadcast_axis")
def _(call: Call, data: Shape, *, axis, size) -> Shape:
    return _grown(call, dict(zip(axis, size)))


def _grown_axes(call: Call) -> dict[int, int]:
    """Axes of the first input of a broadcast_like -> those of the second one whose sizes they get."""
    ranks = [len(each) for each in call.shapes]
    left, right = call.attributes["lhs_axes"], call.attributes["rhs_axes"]   # MXNet reads the second beside the first
    axes = zip(left, right or range(ranks[1])) if left else ((axis, axis) for axis in range(ranks[0]))
    return {axis % ranks[0]: other for axis, other in axes}


@shape("broadcast_like")
def _(call: Call, data: Shape, other: Shape) -> Shape:
    return _grown(call, {axis: other[place] for axis, place in _grown_axes(call).items()})


@onnx("broadcast_axis", "broadcast_like", "broadcast_to")
def _(call: OnnxCall, data: Tensor, *others: Tensor | None) -> Tensor:
    return data if call.shape == call.shapes[0] else data.expand(call.shape)


@torch("broadcast_axis", "broadcast_to")
def _(call: TorchCall) -> str:
    sizes = ["-1" if new == old else str(new) for old, new in zip(call.shapes[0], call.shape)]
    return f"{{0}}.expand({', '.join(sizes)})"


@torch("broadcast_like")
def _(call: TorchCall, *, lhs_axes) -> str:
    if not lhs_axes:
        return "{0}.expand_as({1})"
    sizes = {axis: f"{{1}}.shape[{other}]" for axis, other in _grown_axes(call).items()}
    return f"{{0}}.expand({', '.join(sizes.get(axis, '-1') for axis in range(call.ndim))})"


@values("tile")
def _(call: Call, x: np.ndarray, *, reps) -> np.ndarray:
    return np.tile(x, reps)


@shape("tile")
def _(call: Call, data: Shape, *, reps) -> Shape:
    """NumPy would count to the number of parts, whatever it is."""
    rank = max(len(reps), len(data))
    counts, sizes = ((1,) * (rank - len(each)) + tuple(each) for each in (reps, data))
    call.check(all(count > 0 for count in counts), 0, "elements in what is made")
    return tuple(map(operator.mul, sizes, counts))


@onnx("tile")
def _(call: OnnxCall, data: Tensor, *, reps) -> Tensor:
    sizes = call.shapes[0]
    new_axes = (1,) * (len(reps) - len(sizes))   # empty if there are fewer repeats than axes
    kept_axes = (1,) * (len(sizes) - len(reps))
    value = data.reshape(new_axes + sizes) if new_axes else data
    return value.apply("Tile", call.model.ints(*kept_axes, *reps))


in_torch("tile", "{0}.tile({reps})")


@torch("gluonops_tile")
def _(call: TorchCall, *, tiles, axis) -> str:
    """Repeat counts of the last axes, or one of an axis."""
    if not isinstance(tiles, tuple):
        axis = call.from_front(axis)
        tiles = tuple(tiles if place == axis else 1 for place in range(call.ndim))
    return f"{{0}}.tile({tiles})"


@values("repeat")
def _(call: Call, x: np.ndarray, *, repeats, axis) -> np.ndarray:
    return np.repeat(x, repeats, axis)


@shape("repeat")
def _(call: Call, data: Shape, *, repeats, axis) -> Shape:
    call.check(repeats > 0, 0, "elements in what is made")
    if axis is None:
        return (math.prod(data) * repeats,)
    axis = call.from_front(axis)
    return (*data[:axis], data[axis] * repeats, *data[axis + 1:])


@onnx("repeat")
def _(call: OnnxCall, data: Tensor, *, repeats, axis) -> Tensor:
    """Without an axis it repeats all elements."""
    sizes = call.shapes[0]
    if axis is None:
        flat = data if len(sizes) == 1 else data.reshape((-1,))
        return flat.unsqueeze(1).apply("Tile", call.model.ints(1, repeats)).reshape(call.shape)
    new_axis = axis % len(sizes) + 1
    value = data.reshape(sizes[:new_axis] + (1,) + sizes[new_axis:])
    counts = [1] * (len(sizes) + 1)
    counts[new_axis] = repeats
    return value.apply("Tile", call.model.ints(*counts)).reshape(call.shape)


@torch("repeat")
def _(call: TorchCall, *, repeats, axis) -> str:
    return f"{{0}}.repeat_interleave({repeats}" + (")" if axis is None else f", {call.from_front(axis)})")


@shape("Pad")
def _(call: Call, data: Shape, *, pad_width) -> Shape:
    call.check(len(data) in (4, 5) and not any(pad_width[:4]), 0, "images or clips, which it pads alone")
    return tuple(size + pad_width[2 * axis] + pad_width[2 * axis + 1] for axis, size in enumerate(data))


@onnx("Pad")
def _(call: OnnxCall, data: Tensor, *, mode, pad_width, constant_value) -> Tensor:
    value = call.model.scalar(constant_value, call.dtype)
    return data.apply("Pad", call.model.ints(*pad_width[::2], *pad_width[1::2]), value, mode=mode)


@torch("Pad")
def _(call: TorchCall, *, mode, pad_width, constant_value) -> str:
    pairs = [pad_width[2 * axis:2 * axis + 2] for axis in range(call.ndim)]
    mode = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}[mode]
    while pairs and not any(pairs[0]) and (mode == "constant" or len(pairs) > call.ndim - 2):   # others pad all pixels
        pairs.pop(0)
    sizes = tuple(size for pair in reversed(pairs) for size in pair)
    if mode != "constant":
        return f"F.pad({{0}}, {sizes}, mode='{mode}')"
    return f"F.pad({{0}}, {sizes}, value={constant_value})" if constant_value else f"F.pad({{0}}, {sizes})"
