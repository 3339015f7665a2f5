"""What selects elements by indices, and what sorts them."""
from __future__ import annotations

import math

import numpy as np

from .forms import Form, number
from .rule_registry import OnnxCall, Tensor, TorchCall, indices, onnx, shape, torch, traits, types
from .shape_rules import Call, Shape

MASK = "has ret_typ mask; expected indices, value or both"

traits("batch_take", "gather_nd", "pick", "take", reads_any_types=True)
traits("batch_take", "one_hot", "pick", "sort", "take", jumps=True)
traits("argsort", "topk", jumps=True, ranks=True, orders=True, makes_indices=True)
traits("argsort", "one_hot", "topk", chooses_type=True)


# -- indices ----------------------------------------------------------------------------------------------------------
@indices("pick", "take", position=1, takes_any=True)
def _(call: Call, *, axis) -> int:
    return math.prod(call.shapes[0]) if axis is None else call.shapes[0][axis]


@indices("batch_take", position=1)
def _(call: Call) -> int:
    return call.shapes[0][1]


@indices("_contrib_index_copy", position=1)
def _(call: Call) -> int:
    return call.shapes[0][0]


@indices("gather_nd", position=1)
def _(call: Call) -> int:
    sizes, indices = call.shapes
    return min(sizes[:indices[0]])


@indices("scatter_nd", position=1)
def _(call: Call, *, shape) -> int:
    return min(shape[:call.shapes[1][0]])


@indices("one_hot", position=0, takes_any=True)
def _(call: Call, *, depth) -> int:
    return depth


@types("argsort", "one_hot")
def _(call: Call, data: np.dtype, *, dtype) -> str:
    return dtype


@types("topk")
def _(call: Call, data: np.dtype, *, ret_typ, dtype) -> np.dtype | str | list:
    return {"indices": dtype, "both": [data, dtype]}.get(ret_typ, data)


@shape("take")
def _(call: Call, data: Shape, indices: Shape, *, axis) -> Shape:
    axis = call.from_front(axis)
    return (*data[:axis], *indices, *data[axis + 1:])


@onnx("take")
def _(call: OnnxCall, data: Tensor, indices: Tensor, *, axis, mode) -> Tensor:
    axis = call.from_front(axis)
    if not isinstance(call.shapes[0][axis], int):
        raise call.refuse("takes elements along the batch axis; expected another axis")
    return data.apply("Gather", indices.as_indices(call.shapes[0][axis], mode), axis=axis)


def _indices_text(call: TorchCall, axis: int, mode: str) -> str:
    """Indices that are brought into the range of an axis."""
    size = f"{{0}}.shape[{axis}]" if axis in call.free[0] else call.shapes[0][axis]
    if mode == "wrap":
        return f"({{1}}.long() % {size})"
    return f"{{1}}.long().clamp(0, {size - 1 if isinstance(size, int) else f'{size} - 1'})"


@torch("take")
def _(call: TorchCall, *, axis, mode) -> str:
    axis = call.from_front(axis)
    return "{0}[" + ":, " * axis + _indices_text(call, axis, mode) + "]"


@shape("pick")
def _(call: Call, *, axis, keepdims) -> Shape:
    shapes = [call.reduced([call.from_front(axis)], keeps) for keeps in (False, True)]
    if call.shapes[1] is None:
        call.expect(1, shapes[False])
    call.check(call.shapes[1] in shapes, 1, shapes[0])
    return shapes[keepdims]


@onnx("pick")
def _(call: OnnxCall, data: Tensor, index: Tensor, *, axis, keepdims, mode) -> Tensor:
    axis, sizes = call.from_front(axis), call.shapes[0]
    indices = index.reshape(sizes[:axis] + (1,) + sizes[axis + 1:]).as_indices(sizes[axis], mode)
    picked = data.apply("GatherElements", indices, axis=axis)
    return picked if keepdims else picked.reshape(call.shape)


@torch("pick")
@torch("batch_take", axis=-1, keepdims=False, mode="clip")
def _(call: TorchCall, *, axis, keepdims, mode) -> str:
    """MXNet takes indices with the axis and without it."""
    axis = call.from_front(axis)
    axis_of_indices = "" if len(call.shapes[1]) == call.ndim else f".unsqueeze({axis})"
    picked = f"{{0}}.gather({axis}, {_indices_text(call, axis, mode)}{axis_of_indices})"
    return picked if keepdims else f"{picked}.squeeze({axis})"


@shape("batch_take")
def _(call: Call, data: Shape, indices: Shape | None) -> Shape:
    call.expect(1, data[:-1])
    return data[:-1]


@shape("gather_nd")
def _(call: Call, data: Shape, indices: Shape) -> Shape:
    count, *rest = indices
    call.check(count <= len(data), 1, f"rows of indices for at most {len(data)} axes")
    return (*rest, *data[count:])


@onnx("gather_nd")
def _(call: OnnxCall, data: Tensor, indices: Tensor) -> Tensor:
    """MXNet's indices are in columns, ONNX's in rows."""
    order = [*range(1, len(call.shapes[1])), 0]
    return data.apply("GatherND", indices.as_indices().apply("Transpose", perm=order))


@torch("gather_nd")
def _(call: TorchCall) -> str:
    return "{0}[" + ", ".join(f"{{1}}[{index}].long()" for index in range(call.shapes[1][0])) + "]"


@shape("one_hot")
def _(call: Call, data: Shape, *, depth) -> Shape:
    return (*data, depth)


@onnx("one_hot")
def _(call: OnnxCall, data: Tensor, *, depth, on_value, off_value) -> Tensor:
    """MXNet ignores indices out of range. ONNX counts negative ones from the end, so they become ``depth``."""
    values = call.model.constant(np.array([off_value, on_value], call.dtype))
    indices = data.as_indices()
    depth = call.model.scalar(depth, np.int64)
    indices = (indices < 0).apply("Where", depth, indices)
    return indices.apply("OneHot", depth, values, axis=-1)


@torch("one_hot")
def _(call: TorchCall, *, depth, on_value, off_value, dtype) -> str:
    classes, kind = f"torch.arange({depth}, device={{0}}.device)", call.chosen_type(dtype)
    text = f"({{0}}.long().unsqueeze(-1) == {classes}).to({kind})"
    if (on_value, off_value) == (1, 0):
        return text
    return f"{text} * ({number(on_value)} - {number(off_value)}) + {number(off_value)}"


# -- order: ``sort`` and ``argsort`` are a topk of all elements -------------------------------------------------------
@shape("topk")
def _(call: Call, data: Shape, *, axis, k, ret_typ) -> Shape | list[Shape]:
    sizes = list(data) if axis is not None or ret_typ == "mask" else [math.prod(data)]
    if ret_typ != "mask":
        index = -1 if axis is None else call.from_front(axis)
        count = k or sizes[index]
        call.check(count <= sizes[index], 0, f"a size of at least {count} along axis {index}")
        sizes[index] = count
    return [tuple(sizes)] * 2 if ret_typ == "both" else tuple(sizes)


@shape("argsort", "sort")
def _(call: Call, data: Shape, *, axis) -> Shape:
    if axis is None:
        return (math.prod(data),)
    call.from_front(axis)
    return data


@onnx("topk")
@onnx("argsort", k=0, ret_typ="indices")
@onnx("sort", k=0, ret_typ="value", dtype=None)
def _(call: OnnxCall, data: Tensor, *, axis, is_ascend, k, ret_typ, dtype) -> Tensor | list[Tensor]:
    if axis is None or not isinstance(call.shapes[0][call.from_front(axis)], int):
        raise call.refuse("sorts along the batch axis; expected another axis")
    if ret_typ == "mask":
        raise call.refuse(MASK)
    axis = call.from_front(axis)
    length = call.shapes[0][axis]
    values, indices = data.apply("TopK", call.model.ints(min(k or length, length)), outputs=2, axis=axis,
                                 largest=0 if is_ascend else 1)
    if ret_typ == "value":
        return values
    indices = indices.cast(dtype)
    return indices if ret_typ == "indices" else [values, indices]


@torch("topk")
@torch("argsort", k=0, ret_typ="indices")
@torch("sort", k=0, ret_typ="value", dtype=None)
def _(call: TorchCall, *, axis, is_ascend, k, ret_typ, dtype) -> Form | str:
    """A stable sort: torch.topk orders equal numbers in any way."""
    axis = call.from_front(axis)
    part = "[" + ":, " * axis + f":{k}]" if k else ""
    order = f"{{0}}.sort(dim={axis}, descending={not is_ascend}, stable=True)"
    if ret_typ == "value":
        return f"{order}[0]{part}"
    call.refuse_if(ret_typ == "mask", MASK)
    indices = f"{order}[1]{part}.to({call.chosen_type(dtype)})"
    return indices if ret_typ == "indices" else Form(f"{order}[0]{part}, {indices}", outputs=2)
