"""Records a net again with other sizes, and finds out which sizes its graph holds for."""
from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterator
from typing import NamedTuple

import mxnet as mx
import numpy as np

from ...backends.numpy_mode import is_numpy
from ...contract.errors import OpError
from ..graph import FIXED_AXES, Node
from ..rules import Misfit
from ..sizes import MOST_WAYS, by_mxnet, fits
from .aligned import Aligned, Bound
from .freeing import edits
from .runs import Run, Runner

PIN = "_identity_with_attr_like_rhs"   # It refuses two shapes that differ, and computes nothing.


class Group(NamedTuple):
    """Axes of inputs that have the same size: ``axes`` are pairs of a name and a number."""
    size: int
    axes: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return " and ".join(f"axis {axis} of {name}" for name, axis in self.axes)


def with_free_sizes(runner: Runner, run: Run) -> tuple[Run, list[str]]:
    """The run, whose graph holds for other sizes where the net computes the same with them, and refuses all others.

    The second result says which sizes are fixed, in words.
    """
    tried = [(group, other) for group in _groups(runner, run) for group, other in _recorded(runner, group)]
    free: list[Group] = []
    runs: list[Run] = []
    fixed: dict[Group, Node] = {}
    for group, other in tried:
        if other is not None:
            try:
                edits(Aligned([run, *runs, other]))
                runs += [other, *_of_single_axes(runner, [run, *runs, other], group)]
                free.append(group)
            except Bound as bound:
                fixed[group] = bound.node
    if len(free) > 1:
        try:
            runs.append(_of_all(runner, [run, *runs], free))
        except Bound as bound:
            fixed.update(dict.fromkeys(free[1:], bound.node))
            free, runs = free[:1], runs[:1]
    lines = {group: run.lines.get(node) for group, node in fixed.items()}
    for edit in edits(Aligned([run, *runs])):
        edit()
    _pin(run, [group for group, _ in tried if group not in free], fixed)
    return run, [_words(runner, group, node, lines[group]) for group, node in fixed.items()]


def _words(runner: Runner, group: Group, node: Node, line: object) -> str:
    what = "a constant" if node.is_variable else node.op
    at = f" in {line}" if line else f" at the node {node.name!r}"
    return (f"{runner.name} is exported for a size of {group.size} in {group} only: it computes something else with "
            f"other sizes, first {what}{at}")


def _groups(runner: Runner, run: Run) -> list[Group]:
    """The axes that are varied together: the first of all inputs, if these are equal, and others of the same size."""
    shapes = run.inputs
    axes = [(name, axis) for name, shape in shapes.items() for axis in range(len(shape))]
    batch = [(name, axis) for name, axis in axes if axis == 0]
    groups = []
    if len({shapes[name][0] for name, _ in batch}) == 1:
        groups.append(Group(shapes[batch[0][0]][0], tuple(batch)))
        axes = [each for each in axes if each not in batch]
    for size in dict.fromkeys(shapes[name][axis] for name, axis in axes):
        groups.append(Group(size, tuple(each for each in axes if shapes[each[0]][each[1]] == size)))
    return groups


def _recorded(runner: Runner, group: Group) -> Iterator[tuple[Group, Run | None]]:
    """A run in which the size of a group is larger; None if the net refuses it.

    If so, other axes of that size are tried in its place, and at last each axis alone.
    """
    other = _run(runner, dict.fromkeys(group.axes, group.size + 1))
    if other is not None or len(group.axes) == 1:
        yield group, other
        return
    for elsewhere in itertools.islice(_elsewhere(runner, group), MOST_WAYS):
        other = _run(runner, dict.fromkeys(elsewhere.axes, elsewhere.size + 1))
        if other is not None:
            yield elsewhere, other
            break
    else:
        elsewhere = Group(group.size, ())
    for axis in (axis for axis in group.axes if axis not in elsewhere.axes):
        yield from _recorded(runner, Group(group.size, (axis,)))


def _elsewhere(runner: Runner, group: Group) -> Iterator[Group]:
    """The batch of the first input in other axes of the others.

    A state of a recurrent net is (layers, batch, units), and layers or units may be as many as the batch.
    """
    shapes = {name: array.shape for name, array in runner.arguments.arrays.items()}
    first = next(iter(shapes))
    if (first, 0) not in group.axes:
        return
    choices = [[(name, axis) for axis, size in enumerate(shape) if size == group.size and (name != first or not axis)]
               for name, shape in shapes.items() if group.size in shape]
    for axes in itertools.product(*choices):
        if axes != group.axes:
            yield Group(group.size, axes)


def _of_single_axes(runner: Runner, runs: list[Run], group: Group) -> list[Run]:
    """Runs in which one axis of a group alone has another size, as far as the net takes them and computes the same.

    They tell apart two inputs that have the same length in all other runs. Batches are not tried: inputs of different
    ones are often no error in MXNet, which then reads what is behind an array.
    """
    varied: list[Run] = []
    is_batch = len(group.axes) > 1 and not any(axis for _, axis in group.axes)
    for axis in group.axes if len(group.axes) > 1 and not is_batch else ():
        other = _run(runner, {axis: group.size + 1})
        if other is not None and (runner.arguments.is_numpy or _is_sound(other)):
            with contextlib.suppress(Bound):
                edits(Aligned([*runs, *varied, other]))
                varied.append(other)
    return varied


def _is_sound(run: Run) -> bool:
    """Whether shapes fit together. MXNet does not compare all of them."""
    return fits(run.graph, {**{name: array.shape for name, array in run.constants.items()}, **run.inputs})


def _of_all(runner: Runner, runs: list[Run], free: list[Group]) -> Run:
    """A run in which all groups have other sizes. A Bound if the net computes something else with them."""
    sizes = {axis: group.size + 2 + number for number, group in enumerate(free) for axis in group.axes}
    other = _run(runner, sizes)
    if other is None:
        raise Bound(runs[0].nodes[-1])
    edits(Aligned([*runs, other]))
    return other


def _run(runner: Runner, sizes: dict[tuple[str, int], int]) -> Run | None:
    """A run with other sizes of some axes; None if the net refuses them."""
    changed = {}
    for (name, axis), size in sizes.items():
        array = changed.get(name, runner.arguments.arrays[name])
        changed[name] = _resized(array, axis, size)
    try:
        return runner.run(changed)
    except OpError:
        return None


def _resized(array: mx.nd.NDArray, axis: int, size: int) -> mx.nd.NDArray:
    """An array with another size of an axis, whose rows are those of the array, from the beginning again at the end."""
    values = array.asnumpy()
    rows = np.arange(size) % max(values.shape[axis], 1)
    module = mx.np if is_numpy(array) else mx.nd
    values = np.take(values, rows, axis)
    resized = module.empty(values.shape, dtype=array.dtype, ctx=array.ctx)
    resized[:] = values
    return resized


def _pin(run: Run, groups: list[Group], always: Collection[Group]) -> None:
    """Let the graph refuse other sizes of groups, as far as MXNet does not do so by itself."""
    for group in groups:
        if group in always or _is_taken(run, group):
            for name in dict.fromkeys(name for name, _ in group.axes):
                _pin_input(run, name, [axis for each, axis in group.axes if each == name])


def _is_taken(run: Run, group: Group) -> bool:
    """Whether MXNet infers shapes from another size of a group."""
    shapes = {name: list(shape) for name, shape in run.inputs.items()}
    for name, axis in group.axes:
        shapes[name][axis] += 1
    shape_of = {name: array.shape for name, array in run.constants.items()}
    shape_of.update((name, tuple(sizes)) for name, sizes in shapes.items())
    try:
        by_mxnet("infer_shape_partial", run.graph, shape_of)
    except (Misfit, OpError):   # An operator of gluonops raises the other one.
        return False
    return True


def _pin_input(run: Run, name: str, axes: list[int]) -> None:
    variable = next((node for node in run.graph.nodes() if node.is_variable and node.name == name), None)
    if variable is None:
        return
    shape = tuple(size if axis in axes else 0 for axis, size in enumerate(run.inputs[name]))
    readers = run.graph.nodes()
    fixed = Node("broadcast_to", run.graph.free_name(f"{name}_of_fixed_size"), {"shape": str(shape)}, [(variable, 0)])
    pin = Node(PIN, run.graph.free_name(f"{name}_fixed"), {FIXED_AXES: str(axes)}, [(fixed, 0), (variable, 0)])
    for reader in readers:
        reader.inputs = [(pin, 0) if source is variable else (source, index) for source, index in reader.inputs]
