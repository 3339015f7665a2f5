"""Converters of operators that move, slice, repeat and select elements."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .constants import is_random
from .model import Call, Model
from .registry import converts

FIRST, LAST = -(2 ** 63), 2 ** 63 - 1   # ONNX's bounds of a slice that has no bound


@converts("_copy", "BlockGrad", "make_loss", "MakeLoss", "Dropout", "_NoGradient", "_identity_with_attr_like_rhs")
def same(model: Model, call: Call) -> str:
    if is_random(call.node):
        raise call.refuse("drops numbers at inference, too")
    return call.inputs[0]


@converts("Cast", "amp_cast")
def cast(model: Model, call: Call) -> str:
    return call.inputs[0] if call.dtype == call.dtypes[0] else model.cast(call.inputs[0], call.dtype)


@converts("Reshape", "reshape_like", "Flatten", "expand_dims", "squeeze")
def reshape(model: Model, call: Call) -> str:
    """MXNet has inferred the shape of the output."""
    return call.inputs[0] if call.shape == call.shapes[0] else model.reshape(call.inputs[0], call.shape)


@converts("transpose", "SwapAxis")
def transpose(model: Model, call: Call) -> str:
    order = list(range(len(call.shapes[0])))
    if call.node.op == "transpose":
        order = call.ints("axes", order[::-1])
    else:
        first, second = call.value("dim1", 0), call.value("dim2", 0)
        order[first], order[second] = order[second], order[first]
    return model.add("Transpose", call.inputs[0], perm=order)


@converts("Concat", "_rnn_param_concat")
def concat(model: Model, call: Call) -> str:
    return model.add("Concat", *call.inputs, axis=call.value("dim", 1))


@converts("stack")
def stack(model: Model, call: Call) -> str:
    axis = call.value("axis", 0) % len(call.shape)
    shape = call.shape[:axis] + (1,) + call.shape[axis + 1:]
    parts = [model.reshape(value, shape) for value in call.inputs]
    return model.add("Concat", *parts, axis=axis)


@converts("SliceChannel")
def split(model: Model, call: Call) -> list[str]:
    count = call.value("num_outputs")
    if count == 1:
        parts = [call.inputs[0]]
    else:
        parts = model.split(call.inputs[0], count, call.value("axis", 1))
    return _squeezed(model, call, parts)


def _squeezed(model: Model, call: Call, parts: list[str]) -> list[str]:
    """The parts of a split, without the axis if the node says so."""
    if not call.flag("squeeze_axis"):
        return parts
    return [model.reshape(part, call.shape) for part in parts]


@converts("_split_v2")
def split_v2(model: Model, call: Call) -> list[str]:
    axis = call.axis(default=1)
    sections = call.value("sections", 0)
    length = call.shapes[0][axis]
    if not isinstance(length, int):
        raise call.refuse("splits the batch")
    if sections:
        begins = [i * length // sections for i in range(sections)]
    else:
        begins = list(call.ints("indices", ()))
    if len(begins) == 1:
        return _squeezed(model, call, [call.inputs[0]])
    lengths = np.diff([*begins, length])
    parts = model.add("Split", call.inputs[0], model.ints(*lengths), outputs=len(lengths), axis=axis)
    return _squeezed(model, call, parts)


def cut(model: Model, value: str, axes: Sequence[int], begins: Sequence[int | None], ends: Sequence[int | None],
        steps: Sequence[int] | None = None) -> str:
    """A slice. A bound of None is the end of the axis in the step's direction."""
    steps = steps or [1] * len(axes)
    open_ends = [(0, LAST) if step > 0 else (LAST, FIRST) for step in steps]
    first = [lowest if begin is None else begin for begin, (lowest, _) in zip(begins, open_ends)]
    last = [highest if end is None else end for end, (_, highest) in zip(ends, open_ends)]
    return model.add("Slice", value, model.ints(*first), model.ints(*last), model.ints(*axes), model.ints(*steps))


@converts("slice", "slice_axis")
def slice_(model: Model, call: Call) -> str:
    bounds = {axis: (begin, end, step or 1) for axis, (begin, end, step) in call.bounds().items()}
    bounds = {axis: each for axis, each in bounds.items() if each != (None, None, 1)}
    if not bounds:
        return call.inputs[0]
    return cut(model, call.inputs[0], list(bounds), *zip(*bounds.values()))


@converts("slice_like", "Crop")
def cropped(model: Model, call: Call) -> str:
    """A part of the first input, with the output's sizes."""
    begins = [0, 0, *call.ints("offset", (0,) * (len(call.shape) - 2))]
    if call.flag("center_crop"):
        begins[2:] = [(old - new) // 2 for old, new in zip(call.shapes[0][2:], call.shape[2:])]
    axes = [i for i, (old, new) in enumerate(zip(call.shapes[0], call.shape)) if old != new]
    if not axes:
        return call.inputs[0]
    first = model.ints(*[begins[axis] for axis in axes])
    last = model.shape([call.shape[axis] for axis in axes])
    if any(begins):
        last = model.add("Add", last, first)
    return model.add("Slice", call.inputs[0], first, last, model.ints(*axes))


@converts("reverse")
def reverse(model: Model, call: Call) -> str:
    axes = call.ints("axis", ())
    no_bounds = [None] * len(axes)
    return cut(model, call.inputs[0], axes, no_bounds, no_bounds, [-1] * len(axes))


@converts("tile")
def tile(model: Model, call: Call) -> str:
    repeats = call.ints("reps", ())
    shape = call.shapes[0]
    new_axes = (1,) * (len(repeats) - len(shape))   # empty if there are fewer repeats than axes
    kept_axes = (1,) * (len(shape) - len(repeats))
    value = model.reshape(call.inputs[0], new_axes + shape) if new_axes else call.inputs[0]
    return model.add("Tile", value, model.ints(*kept_axes, *repeats))


@converts("repeat")
def repeat(model: Model, call: Call) -> str:
    shape = call.shapes[0]
    axis = call.value("axis")
    if axis is None:
        raise call.refuse("repeats the flattened batch; expected an axis")
    new_axis = axis % len(shape) + 1
    value = model.reshape(call.inputs[0], shape[:new_axis] + (1,) + shape[new_axis:])
    counts = [1] * (len(shape) + 1)
    counts[new_axis] = call.value("repeats")
    return model.reshape(model.add("Tile", value, model.ints(*counts)), call.shape)


@converts("broadcast_to", "broadcast_axis", "broadcast_like")
def broadcast(model: Model, call: Call) -> str:
    if call.shape == call.shapes[0]:
        return call.inputs[0]
    return model.add("Expand", call.inputs[0], model.shape(call.shape))


@converts("zeros_like", "ones_like", "_zeros", "_ones", "_full")
def filled(model: Model, call: Call) -> str:
    """As another input, or of a shape that its readers have, such as the first state of a recurrent layer."""
    number = 1 if "ones" in call.node.op else call.value("value", 0)
    return model.add("Expand", model.scalar(number, call.dtype), model.shape(call.shape))


@converts("_contrib_arange_like", "_arange")
def arange(model: Model, call: Call) -> str:
    """Numbers along the batch, or along the axis of a reader. Others are constants."""
    if len(call.shape) > 1 or call.value("repeat", 1) != 1:
        raise call.refuse("counts the elements of the whole batch")
    scaled = model.add("Mul", model.positions(call.shape[0], call.dtype), model.scalar(call.value("step", 1.0),
                                                                                       call.dtype))
    return model.add("Add", scaled, model.scalar(call.value("start", 0.0), call.dtype))


@converts("shape_array")
def shape_array(model: Model, call: Call) -> str:
    return model.shape(call.shapes[0])


@converts("size_array")
def size_array(model: Model, call: Call) -> str:
    return model.reduce("ReduceProd", model.shape(call.shapes[0]), [0])


def as_indices(model: Model, value: str, count: int | None = None, mode: str = "clip") -> str:
    """Indices as int64, brought into 0 to ``count - 1`` by clipping or wrapping, or left as they are."""
    value = model.cast(value, np.int64)
    if count is None:
        return value
    if mode == "wrap":
        return model.add("Mod", value, model.scalar(count, np.int64))
    return model.add("Clip", value, model.scalar(0, np.int64), model.scalar(count - 1, np.int64))


@converts("take")
def take(model: Model, call: Call) -> str:
    axis = call.axis(default=0)
    if not isinstance(call.shapes[0][axis], int):
        raise call.refuse("takes from the batch")
    indices = as_indices(model, call.inputs[1], call.shapes[0][axis], call.text("mode", "clip"))
    return model.add("Gather", call.inputs[0], indices, axis=axis)


@converts("Embedding")
def embedding(model: Model, call: Call) -> str:
    return model.add("Gather", call.inputs[1], as_indices(model, call.inputs[0], call.value("input_dim")), axis=0)


@converts("pick")
def pick(model: Model, call: Call) -> str:
    axis = call.axis()
    shape = call.shapes[0]
    indices = model.reshape(call.inputs[1], shape[:axis] + (1,) + shape[axis + 1:])
    indices = as_indices(model, indices, shape[axis], call.text("mode", "clip"))
    picked = model.add("GatherElements", call.inputs[0], indices, axis=axis)
    return picked if call.flag("keepdims") else model.reshape(picked, call.shape)


@converts("gather_nd")
def gather_nd(model: Model, call: Call) -> str:
    order = [*range(1, len(call.shapes[1])), 0]   # MXNet's indices are in columns, ONNX's in rows
    indices = model.add("Transpose", as_indices(model, call.inputs[1]), perm=order)
    return model.add("GatherND", call.inputs[0], indices)


@converts("one_hot")
def one_hot(model: Model, call: Call) -> str:
    """MXNet ignores indices out of range. ONNX counts negative ones from the end, so they become ``depth``."""
    values = model.constant(np.array([call.value("off_value", 0.0), call.value("on_value", 1.0)], call.dtype))
    indices = as_indices(model, call.inputs[0])
    depth = model.scalar(call.value("depth"), np.int64)
    is_negative = model.add("Less", indices, model.scalar(0, np.int64))
    indices = model.add("Where", is_negative, depth, indices)
    return model.add("OneHot", indices, depth, values, axis=-1)


@converts("topk", "sort", "argsort")
def top(model: Model, call: Call) -> str | list[str]:
    """``topk``; ``sort`` and ``argsort`` are a topk of all elements."""
    if call.value("axis", -1) is None or not isinstance(call.shapes[0][call.axis()], int):
        raise call.refuse("sorts over the batch; expected another axis")
    axis = call.axis()
    length = call.shapes[0][axis]
    returned, is_ascending, count = call.ranking()
    values, indices = model.add("TopK", call.inputs[0], model.ints(min(count or length, length)), outputs=2, axis=axis,
                                largest=0 if is_ascending else 1)
    if returned == "mask":
        raise call.refuse("returns a mask")
    if returned == "value":
        return values
    indices = model.cast(indices, call.text("dtype", "float32"))
    return indices if returned == "indices" else [values, indices]


@converts("depth_to_space", "space_to_depth", "gluonops_reorg")
def reorg(model: Model, call: Call) -> str:
    size, mode, is_reverse = call.reorg()
    if is_reverse:
        return _blocks_to_pixels(model, call, size, "CRD" if mode == "CRD" else "DCR")
    return _pixels_to_blocks(model, call, size, mode)


def _blocks_to_pixels(model: Model, call: Call, size: int, mode: str) -> str:
    """Channels become blocks of pixels: the block is their first axis (DCR), or the last one (CRD)."""
    if _has_operator(call):
        return model.add("DepthToSpace", call.inputs[0], blocksize=size, mode=mode)
    batch, _, height, width = call.shapes[0]
    split, order = (size, size, call.shape[1]), (0, 3, 4, 1, 5, 2)
    if mode == "CRD":
        split, order = (call.shape[1], size, size), (0, 1, 4, 2, 5, 3)
    blocks = model.reshape(call.inputs[0], (batch, *split, height, width))
    return model.reshape(model.add("Transpose", blocks, perm=order), call.shape)


def _pixels_to_blocks(model: Model, call: Call, size: int, mode: str) -> str:
    """The inverse of :func:`_blocks_to_pixels`. The mode ``darknet`` reads the data as a larger image of it."""
    if _has_operator(call) and mode == "DCR":
        return model.add("SpaceToDepth", call.inputs[0], blocksize=size)
    batch, channels = call.shapes[0][:2]
    height, width = call.shape[2:]
    if mode == "darknet":
        channels, height, width = channels // (size * size), height * size, width * size
    blocks = model.reshape(call.inputs[0], (batch, channels, height, size, width, size))
    order = (0, 1, 3, 5, 2, 4) if mode == "CRD" else (0, 3, 5, 1, 2, 4)
    return model.reshape(model.add("Transpose", blocks, perm=order), call.shape)


def _has_operator(call: Call) -> bool:
    """Whether onnxruntime's own operator has the type."""
    return call.dtype in (np.float32, np.float64)


@converts("Pad")
def pad(model: Model, call: Call) -> str:
    widths = call.ints("pad_width", ())
    before, after = widths[::2], widths[1::2]
    value = model.scalar(float(call.value("constant_value", 0)), call.dtype)
    mode = call.text("mode", "constant")
    return model.add("Pad", call.inputs[0], model.ints(*before, *after), value, mode=mode)
