"""What moves elements: other shapes, other orders, blocks of pixels. Parts of arrays are in :mod:`.parts`."""
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .forms import Form, one
from .registry import OnnxCall, Tensor, TorchCall, in_torch, onnx, shape, torch, traits, values
from .shapes import Call, Shape

traits("Flatten", "Reshape", "SwapAxis", "_np_reshape", "_npx_reshape", "depth_to_space", "expand_dims", "reshape_like",
       "reverse", "space_to_depth", "squeeze", "transpose", moves=True)
traits("Reshape", "_np_reshape", "_npx_reshape", acts_as="reshape")
traits("_np_reshape", "_npx_reshape", takes_empty=True)
traits("Flatten", "Reshape", hides_layout=True)
traits("Reshape", shown=("shape",))
traits("reshape_like", shape_inputs=(1,), reads_any_types=True)
traits("squeeze", keeps_batch=True)
traits("transpose", shown=("axes",))


@onnx("Flatten", "Reshape", "expand_dims", "reshape_like", "squeeze")
def _(call: OnnxCall, data: Tensor, *others: Tensor | None) -> Tensor:
    """MXNet has inferred the shape of the output."""
    return data if call.shape == call.shapes[0] else data.reshape(call.shape)


# -- other shapes -----------------------------------------------------------------------------------------------------
# The codes of npx.reshape that mean the same as others of Reshape, and one that leaves out a size of 1.
SKIP = -7
NUMPYS_CODES = {-2: 0, -3: SKIP, -4: -2, -5: -3, -6: -4}


def _new_sizes(call: Call, data: Sequence) -> list:
    """The sizes of a reshape; -1 for one that follows. Those of the data may be expressions."""
    given = call.attributes
    is_numpys = "newshape" in given
    if call.node.op == "_np_reshape":   # All its codes but -1 are sizes.
        return list(given["newshape"])
    if is_numpys:
        codes = [NUMPYS_CODES.get(code, code) for code in given["newshape"]]
    else:
        codes = list(given["shape"])
    if not codes and not is_numpys:   # MXNet 0.8 wrote it.
        target = given["target_shape"]
        sizes = [data[0] if given["keep_highest"] else target[0], *target[1:]]
        return [size or -1 for size in sizes]
    if given["reverse"]:
        return _sizes(data[::-1], codes[::-1])[::-1]
    return _sizes(data, codes)


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


@values("Reshape", "_np_reshape", "_npx_reshape")
def _(call: Call, x: np.ndarray) -> np.ndarray:
    return x.reshape(_new_sizes(call, x.shape))


@shape("Reshape", "_np_reshape", "_npx_reshape")
def _(call: Call, data: Shape) -> Shape:
    sizes = _new_sizes(call, data)
    others = [size for size in sizes if size != -1]
    call.check(len(sizes) - len(others) <= 1 and all(size >= 0 for size in others), 0, f"sizes for {tuple(sizes)}")
    rest = math.prod(data) // math.prod(others) if len(others) < len(sizes) else 1
    return _with_all_elements(call, [rest if size == -1 else size for size in sizes])


def _with_all_elements(call: Call, sizes: Sequence) -> Shape:
    """A shape that has as many elements as the data."""
    call.check(math.prod(sizes) == math.prod(call.data), 0, f"as many elements as {tuple(sizes)} has")
    return tuple(sizes)


@torch("_np_reshape", "_npx_reshape")
@torch("Reshape", order="C")
def _(call: TorchCall, *, order) -> str:
    call.refuse_if(order != "C", f"has order {order}; expected C")
    if not call.shape or not call.shapes[0]:   # of one number
        return f"{{0}}.reshape({call.shape})"
    free = call.free_output
    old = [_Size(f"{{0}}.shape[{axis}]") if axis in call.free[0] else size for axis, size in enumerate(call.shapes[0])]
    new = _new_sizes(call, old)
    if text := _one_step(old, new):
        return text
    if len(free) == 1 or (not free and call.shape[1:] and call.free[0] <= {0}):
        sizes = [-1 if axis in free else size for axis, size in enumerate(call.shape)]
    else:
        sizes = new
    keeps_first = call.shape[0] == call.shapes[0][0] and (0 in call.free_output) == (0 in call.free[0])
    is_rest_free = bool(call.free[0] - {0})
    if len(sizes) == 2 and call.ndim > 1 and keeps_first and is_rest_free == (1 in call.free_output):
        return "{0}.flatten(1)"
    return f"{{0}}.reshape({', '.join(map(str, sizes))})"


def _one_step(old: list, new: list) -> str:
    """What joins neighbouring axes, splits one, or adds or drops one of size 1, if that makes new sizes of old ones."""
    front = _alike(old, new)
    back = _alike(old[front:][::-1], new[front:][::-1])
    old, new = old[front:len(old) - back], new[front:len(new) - back]
    if len(old) > 1 and len(new) == 1:
        return f"{{0}}.flatten({front}, {front + len(old) - 1})" if back else f"{{0}}.flatten({front})"
    parts = tuple(size if type(size) is int else -1 for size in new)
    if len(old) == 1 < len(new) and front + back and parts.count(-1) <= 1:
        return f"{{0}}.unflatten({front}, {parts})"
    changes = {((), ()): "{0}", ((), (1,)): f"{{0}}.unsqueeze({front})", ((1,), ()): f"{{0}}.squeeze({front})"}
    return changes.get((tuple(old), tuple(new)), "")


def _alike(sizes: list, others: list) -> int:
    """How many of the first sizes are equal."""
    return next((index for index, (size, other) in enumerate(zip(sizes, others)) if size != other),
                min(len(sizes), len(others)))


class _Size(str):
    """A size of an input, which is known when the net runs."""

    def __mul__(self, other: object) -> _Size:
        return _Size(f"{self} * {other}")

    def __rmul__(self, other: object) -> _Size:
        return _Size(f"{other} * {self}")

    def __floordiv__(self, other: object) -> _Size:
        return _Size(f"{self} // {other}")


def _replaced_axes(call: Call) -> list[tuple[int, int]]:
    """The axes of both inputs of a reshape_like, first and behind the last: one range replaces the other."""
    ranges = []
    for side, sizes in zip(("lhs", "rhs"), call.shapes):
        begin, end = call.attributes[f"{side}_begin"] or 0, call.attributes[f"{side}_end"]
        end = len(sizes) if end is None else end
        ranges.append((begin % max(len(sizes), 1), end if end >= 0 else end + len(sizes)))
    return ranges


@values("reshape_like")
def _(call: Call, x: np.ndarray, other: np.ndarray) -> np.ndarray:
    (start, stop), (first, last) = _replaced_axes(call)
    return x.reshape(*x.shape[:start], *other.shape[first:last], *x.shape[stop:])


@shape("reshape_like")
def _(call: Call, data: Shape, other: Shape) -> Shape:
    (start, stop), (first, last) = _replaced_axes(call)
    return _with_all_elements(call, [*data[:start], *other[first:last], *data[stop:]])


@torch("reshape_like")
def _(call: TorchCall) -> str:
    (start, stop), (first, last) = _replaced_axes(call)
    if (start, stop, first, last) == (0, call.ndim, 0, len(call.shapes[1])):
        return "{0}.reshape_as({1})"
    return f"{{0}}.reshape({{0}}.shape[:{start}] + {{1}}.shape[{first}:{last}] + {{0}}.shape[{stop}:])"


@shape("Flatten")
def _(call: Call, data: Shape) -> Shape:
    return data[0], math.prod(data[1:])


@torch("Flatten")
def _(call: TorchCall) -> Form | str:
    return Form("{0}.flatten(1)", "nn.Flatten") if call.ndim > 1 else "{0}.unsqueeze(1)"


@values("expand_dims")
def _(call: Call, x: np.ndarray, *, axis) -> np.ndarray:
    return np.expand_dims(x, axis)


@shape("expand_dims")
def _(call: Call, data: Shape, *, axis) -> Shape:
    rank = len(data) + 1
    call.check(-rank <= axis < rank, 0, f"an axis {axis}")
    place = axis % rank
    return (*data[:place], 1, *data[place:])


in_torch("expand_dims", "{0}.unsqueeze({axis})")


def _squeezed_axes(call: Call, axis: Shape | None) -> Shape:
    """The axes that a squeeze removes: the named ones, or all of one element."""
    return tuple(place for place, size in enumerate(call.shapes[0]) if size == 1) if axis is None else axis


@values("squeeze")
def _(call: Call, x: np.ndarray, *, axis) -> np.ndarray:
    return np.atleast_1d(x.squeeze(_squeezed_axes(call, axis)))


@shape("squeeze")
def _(call: Call, data: Shape, *, axis) -> Shape:
    gone = {call.from_front(each) for each in _squeezed_axes(call, axis)}
    call.check(all(data[place] == 1 for place in gone), 0, f"a size of 1 along {axis}")
    return tuple(size for place, size in enumerate(data) if place not in gone) or (1,)


@torch("squeeze")
def _(call: TorchCall, *, axis) -> str:
    """MXNet keeps one axis at least. In other images, other axes may be 1."""
    if axis is None and call.free[0] - {0}:
        return "{0}.squeeze()"
    axes = _squeezed_axes(call, axis)
    return f"{{0}}.squeeze({one(axes[len(axes) == call.ndim:])})"


# -- other orders -----------------------------------------------------------------------------------------------------
@values("SwapAxis")
def _(call: Call, x: np.ndarray, *, dim1, dim2) -> np.ndarray:
    return x.swapaxes(dim1, dim2)


@shape("SwapAxis")
def _(call: Call, data: Shape, *, dim1, dim2) -> Shape:
    sizes, first, second = list(data), call.from_front(dim1), call.from_front(dim2)
    sizes[first], sizes[second] = sizes[second], sizes[first]
    return tuple(sizes)


@onnx("SwapAxis")
def _(call: OnnxCall, data: Tensor, *, dim1, dim2) -> Tensor:
    return data.swapped(len(call.shape), dim1, dim2)


in_torch("SwapAxis", "{0}.transpose({dim1}, {dim2})")


@values("transpose")
def _(call: Call, x: np.ndarray, *, axes) -> np.ndarray:
    return x.transpose(axes or None)


@shape("transpose")
def _(call: Call, data: Shape, *, axes) -> Shape:
    order = [call.from_front(axis) for axis in axes] or [*range(len(data))][::-1]
    call.check(sorted(order) == [*range(len(data))], 0, f"{len(order)} axes")
    return tuple(data[axis] for axis in order)


@onnx("transpose")
def _(call: OnnxCall, data: Tensor, *, axes) -> Tensor:
    return data.apply("Transpose", perm=axes or tuple(range(len(call.shapes[0])))[::-1])


@torch("transpose")
def _(call: TorchCall, *, axes) -> str:
    return f"{{0}}.permute{axes or tuple(reversed(range(call.ndim)))}"


@shape("reverse")
def _(call: Call, data: Shape) -> Shape:
    return data


@onnx("reverse")
def _(call: OnnxCall, data: Tensor, *, axis) -> Tensor:
    no_bounds = [None] * len(axis)
    return data.cut(axis, no_bounds, no_bounds, [-1] * len(axis))


@torch("reverse")
def _(call: TorchCall, *, axis) -> str:
    return f"{{0}}.flip({one(axis)})"


def _reorg(call: OnnxCall, data: Tensor, size: int, mode: str, is_reverse: bool) -> Tensor:
    """Channels of blocks of pixels, or the inverse. onnxruntime has the operators for floats."""
    has_operator = call.dtype in (np.float32, np.float64)
    if is_reverse and has_operator:
        return data.apply("DepthToSpace", blocksize=size, mode="CRD" if mode == "CRD" else "DCR")
    if is_reverse:
        return _blocks_to_pixels(call, data, size, mode)
    if has_operator and mode == "DCR":
        return data.apply("SpaceToDepth", blocksize=size)
    return _pixels_to_blocks(call, data, size, mode)


def _blocks_to_pixels(call: OnnxCall, data: Tensor, size: int, mode: str) -> Tensor:
    """Channels become blocks of pixels: the block is their last axis (CRD), or else the first one."""
    batch, _, height, width = call.shapes[0]
    split, order = (size, size, call.shape[1]), (0, 3, 4, 1, 5, 2)
    if mode == "CRD":
        split, order = (call.shape[1], size, size), (0, 1, 4, 2, 5, 3)
    blocks = data.reshape((batch, *split, height, width))
    return blocks.apply("Transpose", perm=order).reshape(call.shape)


def _pixels_to_blocks(call: OnnxCall, data: Tensor, size: int, mode: str) -> Tensor:
    """The inverse of :func:`_blocks_to_pixels`. The mode ``darknet`` reads the data as a larger image of it."""
    batch, channels = call.shapes[0][:2]
    height, width = call.shape[2:]
    if mode == "darknet":
        channels, height, width = channels // (size * size), height * size, width * size
    blocks = data.reshape((batch, channels, height, size, width, size))
    order = (0, 1, 3, 5, 2, 4) if mode == "CRD" else (0, 3, 5, 1, 2, 4)
    return blocks.apply("Transpose", perm=order).reshape(call.shape)


@onnx("gluonops_reorg")
def _(call: OnnxCall, data: Tensor, *, stride, mode, reverse) -> Tensor:
    return _reorg(call, data, stride, mode, reverse)


@torch("gluonops_reorg")
def _(call: TorchCall, *, stride, mode, reverse) -> str:
    functions = {"CRD": ("F.pixel_unshuffle", "F.pixel_shuffle"), "DCR": ("space_to_depth", "depth_to_space"),
                 "darknet": ("darknet_reorg", "depth_to_space")}
    return f"{functions[mode][reverse]}({{0}}, {stride})"


@onnx("depth_to_space", is_reverse=True)
@onnx("space_to_depth", is_reverse=False)
def _(call: OnnxCall, data: Tensor, *, block_size, is_reverse) -> Tensor:
    return _reorg(call, data, block_size, "DCR", is_reverse)


for _name in ("depth_to_space", "space_to_depth"):
    in_torch(_name, f"{_name}({{0}}, {{block_size}})")


@shape("space_to_depth")
def _(call: Call, data: Shape, *, block_size) -> Shape:
    batch, channels, height, width = data
    call.check(height % block_size == width % block_size == 0, 0, f"sizes that are divisible by {block_size}")
    return batch, channels * block_size ** 2, height // block_size, width // block_size


@shape("depth_to_space")
def _(call: Call, data: Shape, *, block_size) -> Shape:
    batch, channels, height, width = data
    area = block_size ** 2
    call.check(channels % area == 0, 0, f"channels that are divisible by {area}")
    return batch, channels // area, height * block_size, width * block_size
