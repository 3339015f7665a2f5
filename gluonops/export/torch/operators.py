"""Converters of operators without parameters: arithmetic, reductions, products, sequences, and what moves elements."""
from __future__ import annotations

from ..operators.forms import Form, number, one
from ..rules import sizes_of_reshape
from .registry import CONVERTERS, Call, arguments_of, converts

CONVERTERS.update({
    "ones_like": "torch.ones_like({0})",
    "zeros_like": "torch.zeros_like({0})",
    "_copy": "{0}",
    "BlockGrad": "{0}.detach()",
    **dict.fromkeys(("broadcast_to", "broadcast_axis"), lambda call: "{{0}}.expand({})".format(
        ", ".join("-1" if new == old else str(new) for old, new in zip(call.shapes[0], call.shape)))),
    "Concat": "torch.cat([{*}], <dim=1>)",
    "stack": "torch.stack([{*}], <axis=0>)",
    "Flatten": lambda call: Form("{0}.flatten(1)", "nn.Flatten") if call.ndim > 1 else "{0}.unsqueeze(1)",
    "SwapAxis": "{0}.transpose(<dim1=0>, <dim2=0>)",
    "expand_dims": "{0}.unsqueeze(<axis>)",
    "reverse": "{0}.flip(<axis>)",
    "shape_array": "torch.tensor({0}.shape, device={0}.device)",
    "tile": "{0}.tile(<reps>)",
    "transpose": lambda call: f"{{0}}.permute{call.ints('axes', tuple(reversed(range(call.ndim))))}",
    "gather_nd": lambda call: "{0}[" + ", ".join(f"{{1}}[{index}].long()" for index in range(call.shapes[1][0])) + "]",
    "_contrib_index_array": lambda call: "torch.stack([{}], -1)".format(", ".join(
        f"torch.ones_like({{0}}).cumsum({axis % call.ndim}) - 1" for axis in call.ints("axes", range(call.ndim)))),
    "_contrib_interleaved_matmul_selfatt_qk":
        "attention_scores(part_of_heads({0}, <heads>, 0, 3), part_of_heads({0}, <heads>, 1, 3))",
    "_contrib_interleaved_matmul_selfatt_valatt": "join_heads({1} @ part_of_heads({0}, <heads>, 2, 3), <heads>)",
    "_contrib_interleaved_matmul_encdec_qk":
        "attention_scores(part_of_heads({0}, <heads>, 0, 1), part_of_heads({1}, <heads>, 0, 2))",
    "_contrib_interleaved_matmul_encdec_valatt": "join_heads({1} @ part_of_heads({0}, <heads>, 1, 2), <heads>)",
})


@converts("squeeze")
def squeeze(call: Call) -> str:
    """MXNet keeps one axis at least. In other images, other axes may be 1."""
    if call.value("axis") is None and call.free[0] - {0}:
        return "{0}.squeeze()"
    axes = call.squeezed_axes()
    return f"{{0}}.squeeze({one(axes[len(axes) == call.ndim:])})"


@converts("topk", "argsort", "sort")
def top(call: Call) -> Form | str:
    """A stable sort: torch.topk orders equal numbers in any way."""
    (kind, is_ascending, count), axis = call.ranking(), call.axis()
    part = "[" + ":, " * axis + f":{count}]" if count else ""
    order = f"{{0}}.sort(dim={axis}, descending={not is_ascending}, stable=True)"
    if kind == "value":
        return f"{order}[0]{part}"
    call.refuse_if(kind not in ("indices", "both"), f"has ret_typ {kind}; expected indices, value or both")
    indices = f"{order}[1]{part}.to({call.chosen_type(call.text('dtype', 'float32'))})"
    return indices if kind == "indices" else Form(f"{order}[0]{part}, {indices}", outputs=2)


@converts("one_hot")
def one_hot(call: Call) -> str:
    depth, kind = call.value("depth"), call.chosen_type(call.text("dtype", "float32"))
    on, off = call.value("on_value", 1.0), call.value("off_value", 0.0)
    text = f"({{0}}.long().unsqueeze(-1) == torch.arange({depth}, device={{0}}.device)).to({kind})"
    return text if (on, off) == (1, 0) else f"{text} * ({number(on)} - {number(off)}) + {number(off)}"


@converts("Reshape", "_npx_reshape")
def reshape(call: Call) -> str:
    free = call.free_output
    old = [_Size(f"{{0}}.shape[{axis}]") if axis in call.free[0] else size for axis, size in enumerate(call.shapes[0])]
    new = sizes_of_reshape(call, old)
    if text := _one_step(old, new):
        return text
    if len(free) == 1 or (not free and call.shape[1:] and call.free[0] <= {0}):
        sizes = [-1 if axis in free else size for axis, size in enumerate(call.shape)]
    else:
        sizes = new
    keeps_first = call.shape[0] == call.shapes[0][0] and (0 in call.free_output) == (0 in call.free[0])
    if len(sizes) == 2 and call.ndim > 1 and keeps_first:
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


@converts("reshape_like")
def reshape_like(call: Call) -> str:
    """A range of the axes of one input is replaced by a range of another's."""
    (start, stop), (first, last) = call.replaced_axes()
    if (start, stop, first, last) == (0, call.ndim, 0, len(call.shapes[1])):
        return "{0}.reshape_as({1})"
    return f"{{0}}.reshape({{0}}.shape[:{start}] + {{1}}.shape[{first}:{last}] + {{0}}.shape[{stop}:])"


class _Size(str):
    """A size of an input, which is known when the net runs."""

    def __mul__(self, other: object) -> _Size:
        return _Size(f"{self} * {other}")

    def __rmul__(self, other: object) -> _Size:
        return _Size(f"{other} * {self}")

    def __floordiv__(self, other: object) -> _Size:
        return _Size(f"{self} // {other}")


@converts("SliceChannel")
def split(call: Call) -> Form:
    count, axis = call.value("num_outputs"), call.value("axis", 1)
    method = f"unbind({axis})" if call.flag("squeeze_axis") else f"chunk({count}, {axis})"
    return Form(f"{{0}}.{method}" if count > 1 else f"{{0}}.{method}[0]", outputs=count)


@converts("_split_v2")
def split_v2(call: Call) -> Form:
    axis = call.axis(default=1)
    begins = call.split_begins(call.shapes[0][axis])
    if call.flag("squeeze_axis"):
        method = f"unbind({axis})"
    elif call.value("sections", 0):
        method = f"chunk({len(begins)}, {axis})"
    else:
        method = f"tensor_split({tuple(begins[1:])}, {axis})"
    return Form(f"{{0}}.{method}" if len(begins) > 1 else f"{{0}}.{method}[0]", outputs=len(begins))


def _index(parts: dict[int, str]) -> str:
    """What takes a part along some axes, such as ``{0}[:, 2:4]``."""
    return "{0}" + f"[{', '.join(parts.get(axis, ':') for axis in range(max(parts) + 1))}]" if parts else "{0}"


@converts("slice", "slice_axis")
def slice_(call: Call) -> str:
    texts, flipped = {}, []
    for axis, (begin, end, step) in call.bounds().items():
        step = step or 1
        if step < 0:   # torch has no negative steps; the last element of the flipped data is the first one
            begin, end = (None if bound is None else ~bound for bound in (begin, end))
            flipped.append(axis % call.ndim)
        text = f"{begin or ''}:{'' if end is None else end}" + (f":{abs(step)}" if abs(step) > 1 else "")
        if text != ":":
            texts[axis % call.ndim] = text
    return _index(texts).replace("{0}", f"{{0}}.flip({one(flipped)})" if flipped else "{0}")


@converts("slice_like", "Crop")
def slice_like(call: Call) -> str:
    is_elsewhere = call.ints("offset", (0, 0)) != (0, 0) or call.flag("center_crop") or len(call.node.inputs) != 2
    call.refuse_if(call.node.op == "Crop" and is_elsewhere, "crops away from the corner")
    return _index({axis: f":{{1}}.shape[{other}]" for axis, other in call.matched_axes().items()})


@converts("gluonops_tile")
def our_tile(call: Call) -> str:
    tiles = call.value("tiles")
    if not isinstance(tiles, tuple):
        tiles = tuple(tiles if axis == call.axis(default=0) else 1 for axis in range(call.ndim))
    return f"{{0}}.tile({tiles})"


@converts("repeat")
def repeat(call: Call) -> str:
    return f"{{0}}.repeat_interleave(<repeats>, {call.axis(default=None)})"


@converts("broadcast_like")
def broadcast_like(call: Call) -> str:
    if not call.ints("lhs_axes", ()):
        return "{0}.expand_as({1})"
    sizes = {axis: f"{{1}}.shape[{other}]" for axis, other in call.matched_axes().items()}
    return f"{{0}}.expand({', '.join(sizes.get(axis, '-1') for axis in range(call.ndim))})"


@converts("Pad")
def pad(call: Call) -> str:
    widths = call.ints("pad_width", ())
    pairs = [widths[2 * axis:2 * axis + 2] for axis in range(call.ndim)]
    mode = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}[call.text("mode", "constant")]
    while pairs and not any(pairs[0]) and (mode == "constant" or len(pairs) > call.ndim - 2):   # others pad all pixels
        pairs.pop(0)
    sizes = tuple(size for pair in reversed(pairs) for size in pair)
    if mode != "constant":
        return f"F.pad({{0}}, {sizes}, mode='{mode}')"
    value = float(call.value("constant_value", 0.0))
    return f"F.pad({{0}}, {sizes}, value={value})" if value else f"F.pad({{0}}, {sizes})"


@converts("space_to_depth", "depth_to_space", "gluonops_reorg")
def reorg(call: Call) -> str:
    size, mode, is_reverse = call.reorg()
    functions = {"CRD": ("F.pixel_unshuffle", "F.pixel_shuffle"), "DCR": ("space_to_depth", "depth_to_space"),
                 "darknet": ("darknet_reorg", "depth_to_space")}
    return f"{functions[mode][is_reverse]}({{0}}, {size})"


@converts("_zeros", "_ones")
def first_state(call: Call) -> str:
    """A recurrent cell's first state has the batch of the data that it reads. Other arrays are constants."""
    sizes = [f"{{0}}.shape[{axis}]" if axis in call.free_output else str(size) for axis, size in enumerate(call.shape)]
    return f"{{0}}.new{call.node.op}({', '.join(sizes)})"


@converts("_contrib_arange_like")
def arange_like(call: Call) -> str:
    numbers = [call.value(name, default) for name, default in (("start", 0), ("step", 1), ("repeat", 1))]
    call.refuse_if(call.value("axis") is None or numbers != [0, 1, 1],
                   "counts otherwise than along an axis, from 0 in steps of 1")
    return "torch.arange({0}.shape[<axis>], dtype={0}.dtype, device={0}.device)"


# What computes a sequence operator if all sequences are as long as the data.
WITHOUT_LENGTHS = {"SequenceLast": "{0}.select(<axis=0>, -1)", "SequenceMask": "{0}", "SequenceReverse": "{0}.flip(0)"}


@converts(*WITHOUT_LENGTHS)
def sequence(call: Call) -> str:
    if not call.flag("use_sequence_length"):
        return WITHOUT_LENGTHS[call.node.op]
    function = call.node.op.replace("Sequence", "sequence_").lower()
    return call.snippet(function, **{name: call.value(name) for name in arguments_of(function)})


@converts("take", "pick", "batch_take")
def take(call: Call) -> str:
    is_take = call.node.op == "take"
    axis = call.axis(default=0 if is_take else -1)
    size = f"{{0}}.shape[{axis}]" if axis in call.free[0] else call.shapes[0][axis]
    if call.text("mode", "clip") == "wrap":
        indices = f"({{1}}.long() % {size})"
    else:
        indices = f"{{1}}.long().clamp(0, {size - 1 if isinstance(size, int) else f'{size} - 1'})"
    if is_take:
        return "{0}[" + ":, " * axis + indices + "]"
    axis_of_indices = "" if len(call.shapes[1]) == call.ndim else f".unsqueeze({axis})"   # MXNet takes both
    picked = f"{{0}}.gather({axis}, {indices}{axis_of_indices})"
    return picked if call.flag("keepdims") else f"{picked}.squeeze({axis})"
