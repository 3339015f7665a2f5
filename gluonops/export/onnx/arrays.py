"""Converters of what moves, cuts, repeats and picks elements."""
import numpy as np

from .registry import converts

FIRST, LAST = -(2 ** 63), 2 ** 63 - 1   # ONNX's way to say "from the very end"


@converts("_copy", "identity", "BlockGrad", "stop_gradient", "make_loss", "MakeLoss", "Dropout", "_NoGradient",
          "_identity_with_attr_like_rhs")
def same(m, n):
    return n.inputs[0]


@converts("Cast", "cast", "amp_cast")
def cast(m, n):
    return n.inputs[0] if n.dtype == n.dtypes[0] else m.cast(n.inputs[0], n.dtype)


@converts("Reshape", "reshape", "reshape_like", "Flatten", "flatten", "expand_dims", "squeeze")
def reshape(m, n):
    """All of them: MXNet has inferred what shape comes out."""
    return n.inputs[0] if n.shape == n.shapes[0] else m.reshape(n.inputs[0], n.shape)


@converts("transpose")
def transpose(m, n):
    return m.add("Transpose", n.inputs[0], perm=n.ints("axes", tuple(range(len(n.shapes[0])))[::-1]))


@converts("SwapAxis", "swapaxes")
def swap_axes(m, n):
    order = list(range(len(n.shapes[0])))
    a, b = n.value("dim1", 0), n.value("dim2", 0)
    order[a], order[b] = order[b], order[a]
    return m.add("Transpose", n.inputs[0], perm=order)


@converts("Concat", "concat")
def concat(m, n):
    return m.add("Concat", *n.inputs, axis=n.value("dim", 1))


@converts("stack")
def stack(m, n):
    axis = n.value("axis", 0) % len(n.shape)
    one = n.shape[:axis] + (1,) + n.shape[axis + 1:]
    return m.add("Concat", *[m.reshape(value, one) for value in n.inputs], axis=axis)


@converts("SliceChannel", "split")
def split(m, n):
    count, axis = n.value("num_outputs"), n.value("axis", 1)
    if count == 1:
        parts = [n.inputs[0]]
    else:
        parts = m.split(n.inputs[0], count, axis)
    return [m.reshape(part, n.shape) for part in parts] if n.flag("squeeze_axis") else parts


@converts("_split_v2")
def split_v2(m, n):
    axis, sections = n.axis(default=1), n.value("sections", 0)
    length = n.shapes[0][axis]
    if not isinstance(length, int):
        raise n.refuse("splits the batch")
    begins = list(n.ints("indices", ())) if not sections else [i * length // sections for i in range(sections)]
    lengths = np.diff([*begins, length])
    if len(begins) == 1:
        parts = [n.inputs[0]]
    else:
        parts = m.add("Split", n.inputs[0], m.ints(*lengths), outputs=len(lengths), axis=axis)
    return [m.reshape(part, n.shape) for part in parts] if n.flag("squeeze_axis") else parts


def cut(m, value, axes, begins, ends, steps=None):
    """A slice; None is the very end that the step's direction asks for."""
    steps = steps or [1] * len(axes)
    begins = [begin if begin is not None else 0 if step > 0 else LAST for begin, step in zip(begins, steps)]
    ends = [end if end is not None else LAST if step > 0 else FIRST for end, step in zip(ends, steps)]
    return m.add("Slice", value, m.ints(*begins), m.ints(*ends), m.ints(*axes), m.ints(*steps))


@converts("slice")
def slice_(m, n):
    begins, ends = n.ints("begin", ()), n.ints("end", ())
    steps = [step or 1 for step in n.ints("step", (None,) * len(begins))]
    wanted = [i for i, bounds in enumerate(zip(begins, ends, steps)) if bounds != (None, None, 1)]
    if not wanted:
        return n.inputs[0]
    return cut(m, n.inputs[0], wanted, *([values[i] for i in wanted] for values in (begins, ends, steps)))


@converts("slice_axis")
def slice_axis(m, n):
    if n.value("begin") == 0 and n.value("end") is None:
        return n.inputs[0]
    return cut(m, n.inputs[0], [n.value("axis")], [n.value("begin")], [n.value("end")])


@converts("slice_like", "Crop")
def slice_like(m, n):
    if n.node.op == "Crop" and (n.ints("offset", (0, 0)) != (0, 0) or n.flag("center_crop")):
        raise n.refuse("crops away from the corner")
    axes = [i for i, (old, new) in enumerate(zip(n.shapes[0], n.shape)) if old != new]
    if not axes:
        return n.inputs[0]
    ends = m.shape([n.shape[i] for i in axes])
    return m.add("Slice", n.inputs[0], m.ints(*[0] * len(axes)), ends, m.ints(*axes))


@converts("reverse", "flip")
def reverse(m, n):
    axes = n.ints("axis", ())
    return cut(m, n.inputs[0], axes, [None] * len(axes), [None] * len(axes), [-1] * len(axes))


@converts("tile")
def tile(m, n):
    repeats = n.ints("reps", ())
    missing = len(repeats) - len(n.shapes[0])
    value = m.reshape(n.inputs[0], (1,) * missing + n.shapes[0]) if missing > 0 else n.inputs[0]
    return m.add("Tile", value, m.ints(*(1,) * -missing, *repeats))


@converts("repeat")
def repeat(m, n):
    count, axis, shape = n.value("repeats"), n.value("axis"), n.shapes[0]
    if axis is None:
        raise n.refuse("repeats the flattened batch; expected an axis")
    axis %= len(shape)
    inner = m.reshape(n.inputs[0], shape[:axis + 1] + (1,) + shape[axis + 1:])
    copies = m.add("Tile", inner, m.ints(*[count if i == axis + 1 else 1 for i in range(len(shape) + 1)]))
    return m.reshape(copies, n.shape)


@converts("broadcast_to", "broadcast_axis", "broadcast_axes", "broadcast_like")
def broadcast(m, n):
    return n.inputs[0] if n.shape == n.shapes[0] else m.add("Expand", n.inputs[0], m.shape(n.shape))


@converts("zeros_like", "ones_like")
def filled_like(m, n):
    return m.add("Expand", m.scalar(int(n.node.op == "ones_like"), n.dtype), m.shape(n.shape))


@converts("_contrib_arange_like")
def arange_like(m, n):
    """Along the batch; along any other axis it is a constant."""
    if n.value("axis") is None or n.value("repeat", 1) != 1:
        raise n.refuse("counts the elements of the whole batch")
    count = m.reshape(m.size(n.shape[0]), ())
    counted = m.cast(m.add("Range", m.scalar(0, np.int64), count, m.scalar(1, np.int64)), n.dtype)
    scaled = m.add("Mul", counted, m.scalar(n.value("step", 1.0), n.dtype))
    return m.add("Add", scaled, m.scalar(n.value("start", 0.0), n.dtype))


@converts("shape_array")
def shape_array(m, n):
    return m.shape(n.shapes[0])


def whole(m, value, count=None, mode="clip"):
    """Indices as int64, brought into range."""
    value = m.cast(value, np.int64)
    if count is None:
        return value
    if mode == "wrap":
        return m.add("Mod", value, m.scalar(count, np.int64))
    return m.add("Clip", value, m.scalar(0, np.int64), m.scalar(count - 1, np.int64))


@converts("take")
def take(m, n):
    axis = n.axis(default=0)
    if not isinstance(n.shapes[0][axis], int):
        raise n.refuse("takes from the batch")
    indices = whole(m, n.inputs[1], n.shapes[0][axis], n.text("mode", "clip"))
    return m.add("Gather", n.inputs[0], indices, axis=axis)


@converts("Embedding")
def embedding(m, n):
    return m.add("Gather", n.inputs[1], whole(m, n.inputs[0], n.value("input_dim")), axis=0)


@converts("pick")
def pick(m, n):
    axis = n.axis()
    shape = n.shapes[0]
    indices = m.reshape(n.inputs[1], shape[:axis] + (1,) + shape[axis + 1:])
    indices = whole(m, indices, shape[axis], n.text("mode", "clip"))
    found = m.add("GatherElements", n.inputs[0], indices, axis=axis)
    return found if n.flag("keepdims") else m.reshape(found, n.shape)


@converts("gather_nd")
def gather_nd(m, n):
    order = list(range(1, len(n.shapes[1]))) + [0]
    return m.add("GatherND", n.inputs[0], m.add("Transpose", whole(m, n.inputs[1]), perm=order))


@converts("one_hot")
def one_hot(m, n):
    """ONNX counts negative indices from the end; MXNet has no place for them, as for those beyond."""
    values = m.constant(np.array([n.value("off_value", 0.0), n.value("on_value", 1.0)], n.dtype))
    indices, depth = whole(m, n.inputs[0]), m.scalar(n.value("depth"), np.int64)
    indices = m.add("Where", m.add("Less", indices, m.scalar(0, np.int64)), depth, indices)
    return m.add("OneHot", indices, depth, values, axis=-1)


@converts("topk", "sort", "argsort")
def top(m, n):
    """topk, and the two that are a topk of everything."""
    if n.value("axis", -1) is None or not isinstance(n.shapes[0][n.axis()], int):
        raise n.refuse("sorts over the batch; expected another axis")
    axis = n.axis()
    length = n.shapes[0][axis]
    every = n.node.op != "topk"
    ascending = n.flag("is_ascend", every)
    count = length if every else min(n.value("k", 1) or length, length)
    values, indices = m.add("TopK", n.inputs[0], m.ints(count), outputs=2, axis=axis, largest=int(not ascending))
    kind = {"sort": "value", "argsort": "indices"}.get(n.node.op) or n.text("ret_typ", "indices")
    if kind == "mask":
        raise n.refuse("returns a mask")
    if kind == "value":
        return values
    indices = m.cast(indices, n.text("dtype", "float32"))
    return indices if kind == "indices" else [values, indices]


# As reshapes and a transpose, which onnxruntime has for every type.
@converts("depth_to_space")
def depth_to_space(m, n):
    size, (batch, _, height, width) = n.value("block_size"), n.shapes[0]
    blocks = m.reshape(n.inputs[0], (batch, size, size, n.shape[1], height, width))
    return m.reshape(m.add("Transpose", blocks, perm=(0, 3, 4, 1, 5, 2)), n.shape)


@converts("space_to_depth")
def space_to_depth(m, n):
    size, (batch, channels, *_), (height, width) = n.value("block_size"), n.shapes[0], n.shape[2:]
    blocks = m.reshape(n.inputs[0], (batch, channels, height, size, width, size))
    return m.reshape(m.add("Transpose", blocks, perm=(0, 3, 5, 1, 2, 4)), n.shape)


@converts("Pad", "pad")
def pad(m, n):
    widths = n.ints("pad_width", ())
    value = m.scalar(float(n.value("constant_value", 0)), n.dtype)
    return m.add("Pad", n.inputs[0], m.ints(*widths[::2], *widths[1::2]), value, mode=n.text("mode", "constant"))
