"""Converters of operators that make, move, slice, repeat and select elements.

Of random numbers ONNX's operators draw others, of the same distribution.
"""
from __future__ import annotations

import numpy as np

from .model import CONVERTERS, Call, Tensor, converts, onnx_type


@converts("_copy", "BlockGrad", "make_loss", "MakeLoss", "_NoGradient", "_identity_with_attr_like_rhs")
def same(call: Call) -> Tensor:
    return call.inputs[0]


@converts("Reshape", "reshape_like", "Flatten", "expand_dims", "squeeze")
def reshape(call: Call) -> Tensor:
    """MXNet has inferred the shape of the output."""
    return call.inputs[0] if call.shape == call.shapes[0] else call.inputs[0].reshape(call.shape)


@converts("stack")
def stack(call: Call) -> Tensor:
    axis = call.value("axis", 0) % len(call.shape)
    shape = call.shape[:axis] + (1,) + call.shape[axis + 1:]
    parts = [value.reshape(shape) for value in call.inputs]
    return call.model.add("Concat", *parts, axis=axis)


@converts("SliceChannel")
def split(call: Call) -> list[Tensor]:
    count = call.value("num_outputs")
    if count == 1:
        return _squeezed(call, call.inputs)
    options = {"num_outputs": count} if call.model.opset >= 18 else {}   # ONNX needs it from then on
    return _squeezed(call, call.inputs[0].apply("Split", outputs=count, axis=call.value("axis", 1), **options))


def _squeezed(call: Call, parts: list[Tensor]) -> list[Tensor]:
    """The parts of a split, without the axis if the node says so."""
    if not call.flag("squeeze_axis"):
        return parts
    return [part.reshape(call.shape) for part in parts]


@converts("_split_v2")
def split_v2(call: Call) -> list[Tensor]:
    axis = call.axis(default=1)
    length = call.shapes[0][axis]
    if not isinstance(length, int):
        raise call.refuse("splits the batch")
    begins = call.split_begins(length)
    if len(begins) == 1:
        return _squeezed(call, call.inputs)
    lengths = np.diff([*begins, length])
    parts = call.inputs[0].apply("Split", call.model.ints(*lengths), outputs=len(lengths), axis=axis)
    return _squeezed(call, parts)


@converts("slice", "slice_axis")
def slice_(call: Call) -> Tensor:
    bounds = {axis: (begin, end, step or 1) for axis, (begin, end, step) in call.bounds().items()}
    bounds = {axis: bound for axis, bound in bounds.items() if bound != (None, None, 1)}
    if not bounds:
        return call.inputs[0]
    return call.inputs[0].cut(list(bounds), *zip(*bounds.values()))


@converts("Crop", "slice_like")
def crop(call: Call) -> Tensor:
    """A part of the first input, with the output's sizes."""
    begins = [0] * len(call.shape)
    if call.flag("center_crop"):
        begins[2:] = [(old - new) // 2 for old, new in zip(call.shapes[0][2:], call.shape[2:])]
    elif call.node.op == "Crop":
        begins[2:] = call.ints("offset", (0, 0))
    axes = [i for i, (old, new) in enumerate(zip(call.shapes[0], call.shape)) if old != new]
    if not axes:
        return call.inputs[0]
    first = call.model.ints(*[begins[axis] for axis in axes])
    last = call.model.shape([call.shape[axis] for axis in axes])
    if any(begins):
        last = last + first
    return call.inputs[0].apply("Slice", first, last, call.model.ints(*axes))


@converts("reverse")
def reverse(call: Call) -> Tensor:
    axes = call.ints("axis", ())
    no_bounds = [None] * len(axes)
    return call.inputs[0].cut(axes, no_bounds, no_bounds, [-1] * len(axes))


@converts("tile")
def tile(call: Call) -> Tensor:
    repeats = call.ints("reps", ())
    shape = call.shapes[0]
    new_axes = (1,) * (len(repeats) - len(shape))   # empty if there are fewer repeats than axes
    kept_axes = (1,) * (len(shape) - len(repeats))
    value = call.inputs[0].reshape(new_axes + shape) if new_axes else call.inputs[0]
    return value.apply("Tile", call.model.ints(*kept_axes, *repeats))


@converts("repeat")
def repeat(call: Call) -> Tensor:
    shape = call.shapes[0]
    axis = call.value("axis")
    if axis is None:
        raise call.refuse("repeats the flattened batch; expected an axis")
    new_axis = axis % len(shape) + 1
    value = call.inputs[0].reshape(shape[:new_axis] + (1,) + shape[new_axis:])
    counts = [1] * (len(shape) + 1)
    counts[new_axis] = call.value("repeats")
    return value.apply("Tile", call.model.ints(*counts)).reshape(call.shape)


@converts("zeros_like", "ones_like", "_zeros", "_ones", "_full")
def filled(call: Call) -> Tensor:
    """Its shape depends on the batch, or its readers have it, as for the first state of a recurrent layer."""
    number = {"_full": call.value("value"), "_ones": 1, "ones_like": 1}.get(call.node.op, 0)
    return call.model.scalar(number, call.dtype).expand(call.shape)


@converts("_contrib_arange_like", "_arange")
def arange(call: Call) -> Tensor:
    """Numbers along the batch, or along the axis of a reader. Others are constants."""
    if len(call.shape) > 1 or call.value("repeat", 1) != 1:
        raise call.refuse("counts the elements of the whole batch")
    return call.model.positions(call.shape[0], call.dtype) * call.value("step", 1.0) + call.value("start", 0.0)


@converts("_random_normal", "_random_normal_like", "_random_uniform", "_random_uniform_like")
def drawn(call: Call) -> Tensor:
    if "normal" in call.node.op:
        op, options = "RandomNormal", call.floats(mean=("loc", 0.0), scale=("scale", 1.0))
    else:
        op, options = "RandomUniform", call.floats(low=("low", 0.0), high=("high", 1.0))
    if call.inputs:
        return call.inputs[0].apply(f"{op}Like", dtype=onnx_type(call.dtype), **options)
    return call.model.add(op, shape=call.shape, dtype=onnx_type(call.dtype), **options)


@converts("_sample_normal", "_sample_uniform")
def drawn_for_each(call: Call) -> Tensor:
    """Numbers for each element of the inputs: a mean and a deviation, or the bounds of an interval."""
    is_normal = call.node.op == "_sample_normal"
    further = (1,) * (len(call.shape) - len(call.shapes[0]))
    first, second = (value.cast(call.dtype).reshape((*call.shapes[0], *further)) for value in call.inputs)
    op = "RandomNormalLike" if is_normal else "RandomUniformLike"
    numbers = call.model.scalar(0, call.dtype).expand(call.shape).apply(op, dtype=onnx_type(call.dtype))
    return first + numbers * (second if is_normal else second - first)


@converts("_sample_multinomial")
def multinomial(call: Call) -> Tensor:
    """ONNX takes the logarithms of the probabilities, a row for each image."""
    if call.flag("get_prob"):
        raise call.refuse("returns the probabilities of what it draws")
    *batch, classes = call.shapes[0]
    count = int(np.prod(call.shape[len(batch):], dtype=int))
    rows = call.inputs[0].apply("Log").reshape((*batch, classes) if batch else (1, classes))
    found = rows.apply("Multinomial", sample_size=count, dtype=onnx_type(call.dtype))
    return found.reshape(call.shape)


def as_indices(value: Tensor, count: int | None = None, mode: str = "clip") -> Tensor:
    """Indices as int64, brought into 0 to ``count - 1`` by clipping or wrapping, or left as they are."""
    value = value.cast(np.int64)
    if count is None:
        return value
    return value.apply("Mod", count) if mode == "wrap" else value.apply("Clip", 0, count - 1)


@converts("take")
def take(call: Call) -> Tensor:
    axis = call.axis(default=0)
    if not isinstance(call.shapes[0][axis], int):
        raise call.refuse("takes from the batch")
    indices = as_indices(call.inputs[1], call.shapes[0][axis], call.text("mode", "clip"))
    return call.inputs[0].apply("Gather", indices, axis=axis)


@converts("pick")
def pick(call: Call) -> Tensor:
    axis = call.axis()
    shape = call.shapes[0]
    indices = call.inputs[1].reshape(shape[:axis] + (1,) + shape[axis + 1:])
    indices = as_indices(indices, shape[axis], call.text("mode", "clip"))
    picked = call.inputs[0].apply("GatherElements", indices, axis=axis)
    return picked if call.flag("keepdims") else picked.reshape(call.shape)


@converts("gather_nd")
def gather_nd(call: Call) -> Tensor:
    order = [*range(1, len(call.shapes[1])), 0]   # MXNet's indices are in columns, ONNX's in rows
    return call.inputs[0].apply("GatherND", as_indices(call.inputs[1]).apply("Transpose", perm=order))


@converts("one_hot")
def one_hot(call: Call) -> Tensor:
    """MXNet ignores indices out of range. ONNX counts negative ones from the end, so they become ``depth``."""
    values = call.model.constant(np.array([call.value("off_value", 0.0), call.value("on_value", 1.0)], call.dtype))
    indices = as_indices(call.inputs[0])
    depth = call.model.scalar(call.value("depth"), np.int64)
    indices = (indices < 0).apply("Where", depth, indices)
    return indices.apply("OneHot", depth, values, axis=-1)


@converts("topk", "sort", "argsort")
def top(call: Call) -> Tensor | list[Tensor]:
    """``topk``; ``sort`` and ``argsort`` are a topk of all elements."""
    if call.value("axis", -1) is None or not isinstance(call.shapes[0][call.axis()], int):
        raise call.refuse("sorts over the batch; expected another axis")
    axis = call.axis()
    length = call.shapes[0][axis]
    returned, is_ascending, count = call.ranking()
    values, indices = call.inputs[0].apply("TopK", call.model.ints(min(count or length, length)), outputs=2, axis=axis,
                                           largest=0 if is_ascending else 1)
    if returned == "mask":
        raise call.refuse("returns a mask")
    if returned == "value":
        return values
    indices = indices.cast(call.text("dtype", "float32"))
    return indices if returned == "indices" else [values, indices]


@converts("gluonops_reorg", "depth_to_space", "space_to_depth")
def reorg(call: Call) -> Tensor:
    size, mode, is_reverse = call.reorg()
    has_operator = call.dtype in (np.float32, np.float64)   # onnxruntime
    if is_reverse and has_operator:
        return call.inputs[0].apply("DepthToSpace", blocksize=size, mode="CRD" if mode == "CRD" else "DCR")
    if is_reverse:
        return _blocks_to_pixels(call, size, mode)
    if has_operator and mode == "DCR":
        return call.inputs[0].apply("SpaceToDepth", blocksize=size)
    return _pixels_to_blocks(call, size, mode)


def _blocks_to_pixels(call: Call, size: int, mode: str) -> Tensor:
    """Channels become blocks of pixels: the block is their last axis (CRD), or else the first one."""
    batch, _, height, width = call.shapes[0]
    split, order = (size, size, call.shape[1]), (0, 3, 4, 1, 5, 2)
    if mode == "CRD":
        split, order = (call.shape[1], size, size), (0, 1, 4, 2, 5, 3)
    blocks = call.inputs[0].reshape((batch, *split, height, width))
    return blocks.apply("Transpose", perm=order).reshape(call.shape)


def _pixels_to_blocks(call: Call, size: int, mode: str) -> Tensor:
    """The inverse of :func:`_blocks_to_pixels`. The mode ``darknet`` reads the data as a larger image of it."""
    batch, channels = call.shapes[0][:2]
    height, width = call.shape[2:]
    if mode == "darknet":
        channels, height, width = channels // (size * size), height * size, width * size
    blocks = call.inputs[0].reshape((batch, channels, height, size, width, size))
    order = (0, 1, 3, 5, 2, 4) if mode == "CRD" else (0, 3, 5, 1, 2, 4)
    return blocks.apply("Transpose", perm=order).reshape(call.shape)


@converts("Pad")
def pad(call: Call) -> Tensor:
    widths = call.ints("pad_width", ())
    before, after = widths[::2], widths[1::2]
    value = call.model.scalar(float(call.value("constant_value", 0)), call.dtype)
    widths = call.model.ints(*before, *after)
    return call.inputs[0].apply("Pad", widths, value, mode=call.text("mode", "constant"))


converts("broadcast_to", "broadcast_axis", "broadcast_like")(
    lambda call: call.inputs[0] if call.shape == call.shapes[0] else call.inputs[0].expand(call.shape))
converts("Concat", "_rnn_param_concat")(
    lambda call: call.model.add("Concat", *call.inputs, axis=call.value("dim", 1)))
CONVERTERS.update({
    "Embedding": lambda call: call.inputs[1].apply(
        "Gather", as_indices(call.inputs[0], call.value("input_dim")), axis=0),
    "SwapAxis": lambda call: call.inputs[0].swapped(len(call.shape), call.value("dim1", 0), call.value("dim2", 0)),
    "shape_array": lambda call: call.model.shape(call.shapes[0]),
    "size_array": lambda call: call.model.shape(call.shapes[0]).reduce("ReduceProd", [0]),
    "transpose": lambda call: call.inputs[0].apply(
        "Transpose", perm=call.ints("axes", tuple(range(len(call.shapes[0])))[::-1])),
})
