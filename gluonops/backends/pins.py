"""Makes a graph of MXNet's own operators refuse the shapes that the contract refuses.

Many of these operators broadcast, or read only a part of a tensor, so inference would accept other shapes. The nodes
that are added here compute nothing. They work in place, and the gradient passes through them. Only a variable of the
graph is copied, once.

A label that has a value for each row of classes is not pinned here but in the reference: see
:func:`gluonops.ops._labels.reference.exact`.
"""
from __future__ import annotations

import itertools
import typing
from collections.abc import Sequence
from types import ModuleType

import mxnet as mx

from ..contract.op import Op
from ..contract.shapes import Group, Named, Sized, count

Array = typing.Union[mx.nd.NDArray, mx.sym.Symbol]


def pinned(op: Op, attrs: tuple, inputs: Sequence[mx.sym.Symbol]) -> list[mx.sym.Symbol]:
    """Return the inputs of an operator, behind nodes that refuse shapes which do not fit the contract's patterns."""
    values, variables = attrs._asdict(), op.type_vars(attrs)
    patterns = [op.rule(attrs, {}).patterns[arg.name] for arg in op.inputs]
    first = _with_fixed_sizes(inputs[0], patterns[0], values)
    axes = _axes(patterns[0], values)
    result = [first]
    for arg, pattern, value in zip(op.inputs[1:], patterns[1:], inputs[1:]):
        has_same_type = variables[arg.name] == variables[op.inputs[0].name]
        if has_same_type and pattern == patterns[0]:
            value = same_shape(mx.sym, value, first)
        elif has_same_type and len(pattern) == 1 and pattern[0].name in axes:
            value = same_shape(mx.sym, value, mx.sym.contrib.arange_like(first, axis=axes[pattern[0].name]))
        else:
            value = _with_fixed_sizes(value, pattern, values)
        result.append(value)
    return result


def same_shape(F: ModuleType, value: Array, like: Array) -> Array:
    """Return ``value``, whose shape and type must be those of ``like``. The values of ``like`` are not read.

    An NDArray is returned as it is, because the contract has checked it before.
    """
    return value if F is mx.nd else F._internal._identity_with_attr_like_rhs(value, like)


def _with_fixed_sizes(value: mx.sym.Symbol, pattern: tuple, values: dict) -> mx.sym.Symbol:
    """Return the value behind a node that demands the number of dimensions and the fixed sizes of a pattern."""
    number_of_groups = sum(isinstance(term, Group) for term in pattern)
    if number_of_groups > 1 or (number_of_groups == 1 and not isinstance(pattern[-1], Sized)):
        return value
    counted = {name: count(number) for name, number in values.items()}
    sizes = [term.size(counted) if isinstance(term, Sized) else 0 for term in pattern if not isinstance(term, Group)]
    if number_of_groups:   # -2 stands for all sizes in front
        return same_shape(mx.sym, mx.sym.reshape(value, shape=(-2, *sizes), reverse=True), value)
    return same_shape(mx.sym, mx.sym.reshape(value, shape=sizes), value)


def _axes(pattern: tuple, values: dict) -> dict[str, int]:
    """Return the axis of each named dimension that no group is in front of, or that an attribute places."""
    axes = {term.name: values[term.axis] for term in pattern if isinstance(term, Named) and term.axis}
    in_front = itertools.takewhile(lambda term: not isinstance(term, Group), pattern)
    axes.update((term.name, axis) for axis, term in enumerate(in_front) if isinstance(term, Named))
    return axes
