"""Writes the attributes of recorded nodes so that they hold for other sizes too.

A recorded attribute is a number: ``reshape((2, 7, 8, -1))``, ``arange(7)``. Where runs of the net with other sizes
have other numbers there, and all follow from the sizes of what the node reads, or of another array, the node is written
as an operator that says so: ``(0, 0, 8, -1)``, ``arange_like``.
"""
from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..graph import Entry, Node
from ..operators import traits_of
from .aligned import Aligned, Bound, Recorded, Shapes

Edit = Callable[[], None]


def edits(aligned: Aligned) -> list[Edit]:
    """What has to be done to the nodes of the first run, so that they hold in all runs.

    A Bound names a node for which nothing is known.
    """
    edits_of_calls = []
    for number, node in enumerate(aligned.nodes[0]):
        if all(nodes[number].attrs == node.attrs for nodes in aligned.nodes):
            continue
        edit = _edit_of(node)
        if edit is None:
            raise Bound(node)
        edits_of_calls.append(edit(Recorded(aligned, number)))
    return edits_of_calls


def _write(node: Node, op: str, inputs: list[Entry], **attrs: Any) -> None:
    node.op, node.inputs, node.attrs = op, inputs, {name: str(value) for name, value in attrs.items()}


def _made(node: Node, suffix: str, op: str, inputs: list[Entry], **attrs: Any) -> Entry:
    return Node(op, f"{node.name}_{suffix}", {name: str(value) for name, value in attrs.items()}, inputs), 0


# Reshapes.

def _reshape(recorded: Recorded) -> Edit:
    codes, node = reshape_codes(recorded.inputs[0], recorded.output), recorded.node
    if codes is None:
        return _reshape_like(recorded)
    return lambda: _write(node, "Reshape", node.inputs[:1], shape=codes)


def _reshape_like(recorded: Recorded) -> Edit:
    """Write a reshape that replaces some axes by those of another array."""
    node, have, want = recorded.node, recorded.inputs[0], recorded.output
    for first, last in itertools.combinations(range(len(have[0]) + 1), 2):
        behind = len(have[0]) - last
        middle = [two[first:len(two) - behind] for two in want]
        is_kept = all(one[:first] == two[:first] and one[last:] == two[len(two) - behind:]
                      for one, two in zip(have, want))
        like = recorded.like_range(middle) if is_kept and middle[0] else None
        if like is not None:
            options = {"lhs_begin": first, "lhs_end": last, "rhs_begin": like.axis,
                       "rhs_end": like.axis + len(middle[0])}
            return functools.partial(_write, node, "reshape_like", [node.inputs[0], like.entry], **options)
    raise Bound(node)


def reshape_codes(inputs: Shapes, outputs: Shapes) -> tuple[int, ...] | None:
    """What MXNet's Reshape is told so that it makes the outputs of the inputs; None if nothing does.

    0 copies a size, -1 follows from the others, -3 multiplies two sizes, -4 splits one into the two numbers behind it.
    """
    if len({len(shape) for shape in inputs}) > 1 or len({len(shape) for shape in outputs}) > 1:
        return None
    have, want = list(zip(*inputs)), list(zip(*outputs))
    return next((codes for codes in _codes(have, want, 0, 0, False) if all(
        _applied(codes, one) == two for one, two in zip(inputs, outputs))), None)


def _codes(have: list, want: list, i: int, j: int, is_inferred: bool) -> Any:
    """Every way to write the sizes from ``want[j]`` on, of those from ``have[i]`` on."""
    if j == len(want):
        yield ()
        return
    is_fixed, has_one = len(set(want[j])) == 1, i < len(have)
    if has_one and have[i] == want[j] and not is_fixed:
        yield from ((0, *rest) for rest in _codes(have, want, i + 1, j + 1, is_inferred))
    if is_fixed:
        yield from ((want[j][0], *rest) for rest in _codes(have, want, i + 1, j + 1, is_inferred))
    if has_one and have[i] == want[j] and is_fixed:
        yield from ((0, *rest) for rest in _codes(have, want, i + 1, j + 1, is_inferred))
    if i + 1 < len(have) and tuple(a * b for a, b in zip(have[i], have[i + 1])) == want[j]:
        yield from ((-3, *rest) for rest in _codes(have, want, i + 2, j + 1, is_inferred))
    if has_one and j + 1 < len(want) and tuple(a * b for a, b in zip(want[j], want[j + 1])) == have[i]:
        one, two = (sizes[0] if len(set(sizes)) == 1 else -1 for sizes in want[j:j + 2])
        if (one, two) != (-1, -1):
            yield from ((-4, one, two, *rest) for rest in _codes(have, want, i + 1, j + 2, is_inferred))
    if not is_inferred:
        yield from ((-1, *rest) for rest in _codes(have, want, i + 1, j + 1, True))


def _applied(codes: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape that MXNet's Reshape makes of a shape; None if it refuses it."""
    sizes, position, codes = [], 0, list(codes)
    rest = [*shape, *[None] * 2 * len(codes)]
    while codes:
        code = codes.pop(0)
        if code in (0, -3) and rest[position] is None or code == -3 and rest[position + 1] is None:
            return None
        if code == 0:
            sizes.append(rest[position])
        elif code == -3:
            sizes.append(rest[position] * rest[position + 1])
            position += 1
        elif code == -4:
            one, two = codes.pop(0), codes.pop(0)
            whole = rest[position]
            sizes += [whole // two if one == -1 else one, whole // one if two == -1 else two]
        else:
            sizes.append(code)
        position += 1
    total, product = int(np.prod(shape)), int(np.prod([size for size in sizes if size != -1]))
    if -1 in sizes:
        if product == 0 or total % product:
            return None
        sizes[sizes.index(-1)] = total // product
    return tuple(sizes) if int(np.prod(sizes)) == total else None


# Broadcasts, and arrays that are filled.

def _grown(recorded: Recorded, start: Callable[[], Entry], before: Shapes, last: str) -> Edit:
    """Write a node as ``start`` and broadcasts of those of its axes that have 1 and get sizes that differ.

    ``before`` are the shapes of what ``start`` makes, in each run.
    """
    axes = [axis for axis, sizes in enumerate(zip(*recorded.output))
            if sizes != tuple(shape[axis] for shape in before)]
    likes = [recorded.like([shape[axis] for shape in recorded.output]) for axis in axes]
    if not axes or any(shape[axis] != 1 for shape in before for axis in axes):
        raise Bound(recorded.node)
    node = recorded.node

    def edit() -> None:
        entry = start()
        for number, (axis, like) in enumerate(zip(axes, likes)):
            options = {"lhs_axes": (axis,), "rhs_axes": (like.axis,)}
            if number < len(axes) - 1:
                entry = _made(node, f"{last}{number}", "broadcast_like", [entry, like.entry], **options)
            else:
                _write(node, "broadcast_like", [entry, like.entry], **options)
    return edit


def _broadcast(recorded: Recorded) -> Edit:
    lacking = len(recorded.output[0]) - len(recorded.inputs[0][0])
    shapes, made = [(*[1] * lacking, *shape) for shape in recorded.inputs[0]], recorded.output
    varying = [len({shape[axis] for shape in made}) > 1 for axis in range(len(made[0]))]
    fixed = [0 if is_varying else made[0][axis] for axis, is_varying in enumerate(varying)]
    before = [tuple(shape[axis] if varying[axis] else made[0][axis] for axis in range(len(shape))) for shape in shapes]
    node = recorded.node

    def source() -> Entry:
        return _with_axes_in_front(node, lacking)

    if shapes == made:
        return lambda: _write(node, "_copy", [source()])
    if before == shapes:
        return _grown(recorded, source, before, "along")
    if before == made:
        return lambda: _write(node, "broadcast_to", [source()], shape=tuple(fixed))
    return _grown(recorded, lambda: _made(node, "fixed", "broadcast_to", [source()], shape=tuple(fixed)), before,
                  "along")


def _with_axes_in_front(node: Node, count: int) -> Entry:
    """The first input of a node, with so many axes of size 1 in front."""
    entry = node.inputs[0]
    for number in range(count):
        entry = _made(node, f"axis{number}", "expand_dims", [entry], axis=0)
    return entry


def _filled(recorded: Recorded) -> Edit:
    node, attrs = recorded.node, dict(recorded.node.attrs)
    shape = tuple(sizes[0] if len(set(sizes)) == 1 else 1 for sizes in zip(*recorded.output))
    attrs["shape"] = str(shape)
    if any({**own, "shape": ""} != {**attrs, "shape": ""} for own in recorded.attrs):
        raise Bound(node)
    op = node.op
    return _grown(recorded, lambda: _made(node, "one", op, [], **attrs), [shape] * len(recorded.output), "along")


def _arange(recorded: Recorded) -> Edit:
    node = recorded.node
    start, step = recorded.values("start"), recorded.values("step")
    start = [0 if stop is None else first for first, stop in zip(start, recorded.values("stop"))]
    if len({*start}) > 1 or len({*step}) > 1 or recorded.values("repeat")[0] != 1:
        raise Bound(node)
    like = recorded.like([shape[0] for shape in recorded.output])
    dtype, own = recorded.dtype((node, 0)), recorded.dtype(like.entry)
    first, distance = float(start[0]), step[0]

    def edit() -> None:
        entry = _made(node, "like", "_contrib_arange_like", [like.entry], axis=like.axis)
        if distance != 1:
            entry = _made(node, "steps", "_mul_scalar", [entry], scalar=distance)
        if first:
            entry = _made(node, "numbers", "_plus_scalar", [entry], scalar=first)
        _write(node, *(("_copy", [entry]) if dtype == own else ("Cast", [entry])),
               **({} if dtype == own else {"dtype": dtype.name}))
    return edit


def _scalar(recorded: Recorded) -> Edit:
    """Write a number that is a size, as in ``x.sum(axis=1) / x.shape[1]``, as one more than the last position."""
    node, numbers = recorded.node, recorded.values("scalar")
    op = traits_of(node).of_arrays
    if any({**own, "scalar": ""} != {**recorded.attrs[0], "scalar": ""} for own in recorded.attrs):
        raise Bound(node)
    like, source = recorded.like(numbers), node.inputs[0]
    dtype, own = recorded.dtype(source), recorded.dtype(like.entry)
    if dtype.kind != "f":
        raise Bound(node)

    def edit() -> None:
        entry = _made(node, "positions", "_contrib_arange_like", [like.entry], axis=like.axis)
        entry = _made(node, "last", "max", [entry], axis=0, keepdims=True)
        entry = _made(node, "size", "_plus_scalar", [entry], scalar=1.0)
        if dtype != own:
            entry = _made(node, "typed", "Cast", [entry], dtype=dtype.name)
        _write(node, op, [source, entry])
    return edit


def _random(recorded: Recorded) -> Edit:
    """Write random numbers in a shape as those in the shape of another array."""
    node, attrs = recorded.node, dict(recorded.node.attrs)
    like = recorded.like_range(recorded.output)
    is_whole = like is not None and like.axis == 0 and recorded.ndim(like.entry) == len(recorded.output[0])
    if not is_whole or recorded.dtype(like.entry) != recorded.dtype((node, 0)):
        raise Bound(node)
    kept = {name: attrs[name] for name in ("loc", "scale", "low", "high") if name in attrs}
    return lambda: _write(node, f"{node.op}_like", [like.entry], **kept)


def _repeat(recorded: Recorded) -> Edit:
    node, axis, shapes = recorded.node, recorded.values("axis")[0], recorded.inputs[0]
    if axis is None and len(shapes[0]) > 1:
        raise Bound(node)
    axis = (axis or 0) % len(shapes[0])
    like, source = recorded.like(recorded.values("repeats")), node.inputs[0]

    def edit() -> None:
        wide = _made(node, "wide", "expand_dims", [source], axis=axis + 1)
        many = _made(node, "many", "broadcast_like", [wide, like.entry], lhs_axes=(axis + 1,), rhs_axes=(like.axis,))
        _write(node, "Reshape", [many], shape=(*[0] * axis, -3, -2)[:axis + 2])
    return edit


def _tile(recorded: Recorded) -> Edit:
    """Write repetitions of an axis of one element as a broadcast of it."""
    node, times = recorded.node, recorded.values("reps")
    lacking = len(times[0]) - len(recorded.inputs[0][0])
    if len({len(each) for each in times}) > 1 or lacking < 0:
        raise Bound(node)
    shapes = [(*[1] * lacking, *shape) for shape in recorded.inputs[0]]
    fixed = [counts[0] if len(set(counts)) == 1 else 1 for counts in zip(*times)]
    before = [tuple(size * count for size, count in zip(shape, fixed)) for shape in shapes]

    def start() -> Entry:
        entry = _with_axes_in_front(node, lacking)
        return _made(node, "fixed", "tile", [entry], reps=tuple(fixed)) if set(fixed) != {1} else entry
    return _grown(recorded, start, before, "along")


# Slices.

def _from_end(numbers: list[int | None], sizes: list[int], is_end: bool) -> int | None | bool:
    """A bound of a slice that is right in all runs, counted from the end if need be; False if there is none."""
    whole = sizes if is_end else [0] * len(sizes)
    numbers = [default if number is None else number + size if number < 0 else number
               for number, default, size in zip(numbers, whole, sizes)]
    if numbers == whole:
        return None
    if len(set(numbers)) == 1:
        return numbers[0]
    left = {number - size for number, size in zip(numbers, sizes)}
    return left.pop() if len(left) == 1 and min(left) < 0 else False


def _slice(recorded: Recorded) -> Edit:
    node, shapes = recorded.node, recorded.inputs[0]
    begins, ends = recorded.values("begin"), recorded.values("end")
    if node.op == "slice_axis":
        axis = recorded.values("axis")[0] % len(shapes[0])
        begins, ends = ([(*[None] * axis, bound) for bound in side] for side in (begins, ends))
        steps = [()] * len(begins)
    else:
        steps = recorded.values("step")
    if len({len(each) for each in begins}) > 1 or any(step not in (None, 1) for each in steps for step in each):
        raise Bound(node)
    bounds, likes = [], []
    for axis, (begin, end) in enumerate(zip(zip(*begins), zip(*ends))):
        sizes = [shape[axis] for shape in shapes]
        first, last = _from_end(list(begin), sizes, False), _from_end(list(end), sizes, True)
        if first is False or (last is False and first is not None):
            raise Bound(node)
        if last is False:
            likes.append(recorded.like(list(end), axis))
        bounds.append((first, None if last is False else last))
    first, last = zip(*bounds)
    is_cut, source = any(bound != (None, None) for bound in bounds), node.inputs[0]

    def edit() -> None:
        entry = source
        if not likes:
            _write(node, "slice", [entry], begin=first, end=last)
            return
        if is_cut:
            entry = _made(node, "cut", "slice", [entry], begin=first, end=last)
        for number, like in enumerate(likes[:-1]):
            entry = _made(node, f"like{number}", "slice_like", [entry, like.entry], axes=(like.axis,))
        _write(node, "slice_like", [entry, likes[-1].entry], axes=(likes[-1].axis,))
    return edit


# What an operator acts as -> what writes its attributes anew.
FREES: dict[str, Callable[[Recorded], Edit]] = {
    "reshape": _reshape, "broadcast": _broadcast, "fill": _filled, "arange": _arange, "slice": _slice,
    "repeat": _repeat, "tile": _tile, "draw": _random}


def _edit_of(node: Node) -> Callable[[Recorded], Edit] | None:
    """What writes the attributes of a node anew; None if nothing is known for its operator."""
    traits = traits_of(node)
    return _scalar if traits.of_arrays else FREES.get(traits.acts_as)
