"""Rules of operators without parameters: arithmetic, reductions, products, and what moves and selects elements."""
from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import numpy as np

from ..operators.shapes import OPEN, RULES, Call, Misfit, Shape, shape_of
from ..values import NodeValues

FIRST = ("make_loss", "ones_like", "reverse", "zeros_like", "BlockGrad", "MakeLoss", "_contrib_box_nms", "_copy",
         "_identity_with_attr_like_rhs")
@shape_of("topk")
def top(call: Call) -> Shape | list[Shape]:
    kind, axis = call.text("ret_typ", "indices"), call.value("axis", -1)
    shape = list(call.data) if axis is not None or kind == "mask" else [math.prod(call.data)]
    if kind != "mask":
        index = -1 if axis is None else call.axis()
        count = call.value("k", 1) or shape[index]
        call.check(count <= shape[index], 0, f"at least {count} along axis {index}")
        shape[index] = count
    return [tuple(shape)] * 2 if kind == "both" else tuple(shape)


@shape_of("sort", "argsort")
def in_order(call: Call) -> Shape:
    if call.value("axis", -1) is None:
        return (math.prod(call.data),)
    call.axis()
    return call.data


@shape_of("gather_nd")
def gathered(call: Call) -> Shape:
    count, *rest = call.shapes[1]
    call.check(count <= len(call.data), 1, f"rows of indices for {len(call.data)} axes at most")
    return (*rest, *call.data[count:])


# -- what moves and selects elements --------------------------------------------------------------------------------
# The codes of npx.reshape that mean the same as others of Reshape, and one that leaves out a size of 1.
SKIP = -7
NUMPYS_CODES = {-2: 0, -3: SKIP, -4: -2, -5: -3, -6: -4}


def sizes_of_reshape(call: NodeValues, data: Sequence) -> list:
    """The sizes of a reshape; -1 for one that follows. Those of the data may be expressions."""
    has_numpys_codes = call.node.op == "_npx_reshape"
    codes = call.ints("newshape" if has_numpys_codes else "shape", ())
    if not codes:   # MXNet 0.8 wrote it.
        target = call.ints("target_shape", ())
        sizes = [data[0] if call.flag("keep_highest") else target[0], *target[1:]]
        return [size or -1 for size in sizes]
    if has_numpys_codes:
        codes = [NUMPYS_CODES.get(code, code) for code in codes]
    if call.flag("reverse"):
        return _sizes(data[::-1], list(codes[::-1]))[::-1]
    return _sizes(data, list(codes))


def _sizes(data: Sequence, codes: list[int]) -> list:
    """The sizes that codes, counted from the front, make of those of the data."""
    sizes, axis = [], 0
    while codes:
        code = codes.pop(0)
        if code == -2:
            sizes += data[axis:]
            axis = len(data)
        elif code == -3:
            sizes.append(data[axis] * data[axis + 1])
            axis += 2
        elif code == -4:
            first, second = codes.pop(0), codes.pop(0)
            sizes += [data[axis] // second if first == -1 else first, data[axis] // first if second == -1 else second]
            axis += 1
        else:
            sizes += [] if code == SKIP else [data[axis] if code == 0 else code]
            axis += 1
    return sizes


def _reshaped_like(call: NodeValues, x: np.ndarray, other: np.ndarray) -> np.ndarray:
    (start, stop), (first, last) = call.replaced_axes()
    return x.reshape(*x.shape[:start], *other.shape[first:last], *x.shape[stop:])


def _sliced(call: NodeValues, x: np.ndarray) -> np.ndarray:
    index = [slice(None)] * x.ndim
    for axis, bounds in call.bounds().items():
        index[axis] = slice(*bounds)
    return x[tuple(index)]


# What NumPy makes of the values of the inputs. The shapes are those that it makes of arrays without memory.
MOVES = {
    "Reshape": lambda call, x: x.reshape(sizes_of_reshape(call, x.shape)),
    "SwapAxis": lambda call, x: x.swapaxes(call.value("dim1", 0), call.value("dim2", 0)),
    "broadcast_to": lambda call, x: np.broadcast_to(x, [n or old for n, old in zip(call.ints("shape", ()), x.shape)]),
    "expand_dims": lambda call, x: np.expand_dims(x, call.value("axis")),
    "repeat": lambda call, x: np.repeat(x, call.value("repeats"), call.value("axis")),
    "reshape_like": _reshaped_like,
    "slice": _sliced,
    "slice_axis": _sliced,
    "squeeze": lambda call, x: np.atleast_1d(x.squeeze(call.squeezed_axes())),
    "tile": lambda call, x: np.tile(x, call.ints("reps", ())),
    "transpose": lambda call, x: x.transpose(call.ints("axes", None)),
}
MOVES["_npx_reshape"] = MOVES["Reshape"]


@shape_of(*MOVES)
def moved(call: Call) -> Shape:
    if None in call.shapes:
        raise TypeError("a shape is not known")
    if call.node.op == "slice_axis":   # A slice takes what there is.
        (axis, (begin, end, _)), = call.bounds().items()
        least = max(-(begin or 0), end or 0)
        call.check(call.data[axis] == OPEN or call.data[axis] >= least, 0, f"at least {least} along axis {axis}")
    result = MOVES[call.node.op](call, *(np.empty(shape, []) for shape in call.shapes))
    call.check(result.size > 0 or OPEN in call.data, 0, "elements in what is taken")
    return result.shape


# NumPy counts to the number of parts, whatever it is.
@shape_of("tile")
def tiled(call: Call) -> Shape:
    counts = call.ints("reps", ())
    rank = max(len(counts), len(call.data))
    counts, sizes = ((1,) * (rank - len(each)) + tuple(each) for each in (counts, call.data))
    call.check(all(count > 0 for count in counts), 0, "elements in what is made")
    return tuple(map(operator.mul, sizes, counts))


@shape_of("repeat")
def repeated(call: Call) -> Shape:
    count = call.value("repeats")
    call.check(count > 0, 0, "elements in what is made")
    if call.value("axis") is None:
        return (math.prod(call.data) * count,)
    axis = call.axis()
    return (*call.data[:axis], call.data[axis] * count, *call.data[axis + 1:])


@shape_of("Concat", "_rnn_param_concat")
def concat(call: Call) -> Shape:
    axis = call.axis("dim", 1)
    shape = list(call.data)
    for position, other in enumerate(call.shapes):
        call.expect(position, (*shape[:axis], other[axis], *shape[axis + 1:]))
    shape[axis] = sum(other[axis] for other in call.shapes)
    return tuple(shape)


@shape_of("stack")
def stack(call: Call) -> Shape:
    axis = call.value("axis", 0) % (len(call.data) + 1)
    shape = call.alike()
    return (*shape[:axis], len(call.shapes), *shape[axis:])


@shape_of("SliceChannel")
def split(call: Call) -> list[Shape]:
    count, axis = call.value("num_outputs"), call.axis(default=1)
    size, rest = divmod(call.data[axis], count)
    squeezes = call.flag("squeeze_axis")
    call.check(rest == 0 and (size == 1 or not squeezes), 0, f"a size of {count} parts along axis {axis}")
    part = () if squeezes else (size,)
    return [(*call.data[:axis], *part, *call.data[axis + 1:])] * count


@shape_of("_split_v2")
def split_v2(call: Call) -> list[Shape]:
    axis = call.axis(default=1)
    begins = [*call.split_begins(call.data[axis]), call.data[axis]]
    parts = [() if call.flag("squeeze_axis") else (end - begin,) for begin, end in zip(begins, begins[1:])]
    return [(*call.data[:axis], *part, *call.data[axis + 1:]) for part in parts]


@shape_of("slice_like", "Crop", "broadcast_axis", "broadcast_like")
def with_sizes(call: Call) -> Shape:
    """Other sizes along some axes: smaller ones of a slice; of a broadcast any, if the old one is 1."""
    shape, op = list(call.data), call.node.op
    if len(call.shapes) > 1:
        sizes = {axis: call.shapes[1][other] for axis, other in call.matched_axes().items()}
    elif op == "Crop":
        sizes = dict(zip((2, 3), call.ints("h_w", (0, 0))))
    else:
        sizes = dict(zip(call.ints("axis", ()), call.ints("size", ())))
    for axis, size in sizes.items():
        if op in ("slice_like", "Crop"):
            call.check(size <= shape[axis], 0, f"at least {size} along axis {axis}")
        else:
            call.check(shape[axis] in (1, size), 0, f"a size of 1 along axis {axis}")
        shape[axis] = size
    return tuple(shape)


@shape_of("space_to_depth", "depth_to_space")
def blocks(call: Call) -> Shape:
    batch, channels, height, width = call.data
    size = call.value("block_size")
    if call.node.op == "space_to_depth":
        call.check(height % size == width % size == 0, 0, f"sizes that are divisible by {size}")
        return batch, channels * size * size, height // size, width // size
    call.check(channels % (size * size) == 0, 0, f"channels that are divisible by {size * size}")
    return batch, channels // (size * size), height * size, width * size


@shape_of("pick")
def pick(call: Call) -> Shape:
    shapes = [call.reduced([call.axis()], keeps) for keeps in (False, True)]
    if call.shapes[1] is None:
        call.expect(1, shapes[False])
    call.check(call.shapes[1] in shapes, 1, shapes[0])
    return shapes[call.flag("keepdims")]


@shape_of("SequenceMask", "SequenceReverse", "SequenceLast")
def sequence(call: Call) -> Shape:
    """They may read the length of each sequence. Time and batch are the first two axes."""
    time = call.axis(default=0)
    call.expect(1, (call.data[1 - time],))
    return call.reduced([time], False) if call.node.op == "SequenceLast" else call.data


# Attention with interleaved heads: (time, batch, heads * parts * size), with two or three parts.
@shape_of("_contrib_interleaved_matmul_selfatt_qk", "_contrib_interleaved_matmul_encdec_qk")
def attention(call: Call) -> Shape:
    time, batch, width = call.data
    if "encdec" in call.node.op:
        call.expect(1, (call.shapes[1][0], batch, 2 * width))
    return batch * call.value("heads"), time, call.shapes[-1][0]


@shape_of("_contrib_interleaved_matmul_selfatt_valatt", "_contrib_interleaved_matmul_encdec_valatt")
def attended(call: Call) -> Shape:
    time, batch, width = call.data
    call.expect(1, (batch * call.value("heads"), call.shapes[1][1], time))
    return call.shapes[1][1], batch, width // (3 if "selfatt" in call.node.op else 2)


def arange_values(call: Call) -> np.ndarray:
    """The values of an ``_arange``, which computes in float64."""
    start, stop, step = (call.value(name, default) for name, default in (("start", 0), ("stop", None), ("step", 1.0)))
    if call.flag("infer_range"):
        raise Misfit(f"{call.node.name!r} (_arange) has a length that follows from its readers")
    start, stop = (0, start) if stop is None else (start, stop)
    count = math.ceil((stop - start) / step)
    values = np.float64(start) + np.arange(count) * np.float64(step)
    return np.repeat(values, call.value("repeat", 1)).astype(call.text("dtype", "float32"))


@shape_of("Pad")
def pad(call: Call) -> Shape:
    widths = call.ints("pad_width", ())
    call.check(len(call.data) in (4, 5) and not any(widths[:4]), 0, "images or clips, which it pads alone")
    return tuple(size + widths[2 * axis] + widths[2 * axis + 1] for axis, size in enumerate(call.data))


RULES.update({
    **dict.fromkeys(FIRST, lambda call: call.data),
    "take": lambda call: (*call.data[:call.axis(default=0)], *call.shapes[1], *call.data[call.axis(default=0) + 1:]),
    "Flatten": lambda call: (call.data[0], math.prod(call.data[1:])),
    "one_hot": lambda call: (*call.data, call.value("depth")),
    "shape_array": lambda call: (len(call.data),),
    "size_array": lambda call: (1,),
    "_contrib_index_array": lambda call: (*call.data, len(call.ints("axes", call.data))),
    "_contrib_arange_like": lambda call: call.data if call.value("axis") is None else (call.data[call.axis()],),
    "_arange": lambda call: (len(arange_values(call)),),
    **dict.fromkeys(("_zeros", "_ones", "_full"), lambda call: call.ints("shape", ())),
})
