"""The notation of shapes in contracts: the shape of every tensor, once, in named dimensions.

::

    Shapes(data="batch, channels, height, width",
           output="batch, channels * stride * stride, height / stride, width / stride")

A pattern is a list of dimensions, separated by commas:

========================  ===========================================================================================
``height``                a named dimension: the same size wherever the name stands
``height / stride``       it, multiplied or divided by attributes; a division has to come out whole
``5``, ``5 + classes``    a fixed size, from numbers and attributes; a list of pairs counts as their number
``...``, ``batch...``     any number of dimensions, none included; one such group of a pattern may go without a name
``classes@axis``          a named dimension at the axis that an attribute names, counted from the back if negative
``... * tiles``           a group, multiplied by an attribute's tuple, the last size by the last number; numbers with no
                          size in front of them are sizes of their own
``... * tiles@axis``      the same; an integer multiplies the size at the axis that ``axis`` names
========================  ===========================================================================================

:mod:`gluonops.contract.dims` infers shapes from patterns in both directions. The pattern of the first input names all
groups. If attributes decide among several declarations, each one has a condition, and the first that holds counts.
"""
from __future__ import annotations

import ast
import copy
import dataclasses
from typing import Any, Union

from .dims import Dim, Fixed
from .errors import OpError, plural
from .expressions import Expression, expression


@dataclasses.dataclass(frozen=True)
class Group:
    """Any number of dimensions: ``batch...``.

    ``counts`` is the attribute whose tuple multiplies them, or whose integer multiplies the one at the attribute
    ``axis``.
    """
    name: str
    counts: str | None = None
    axis: str | None = None


@dataclasses.dataclass(frozen=True)
class Named:
    """A dimension and the expressions that multiply and divide it: ``height / stride``. None stands for 1.

    ``axis`` is the attribute that says where it is: ``classes@axis``.
    """
    name: str
    text: str
    mul: Expression | None = None
    div: Expression | None = None
    axis: str | None = None


@dataclasses.dataclass(frozen=True)
class Sized:
    """A size from attributes and numbers: ``5 + classes``."""
    size: Expression


Term = Union[Group, Named, Sized]


def parse_pattern(text: str, attributes: list) -> tuple:
    """Return the terms of a pattern such as ``"batch, 5"``. The names in ``attributes`` are not dimensions."""
    return tuple(_term(part.strip(), attributes) for part in text.split(","))


def _term(text: str, attributes: list) -> Term:
    group, dots, rest = text.partition("...")
    if dots:
        named = [part.strip() for part in rest.replace("*", "", 1).split("@") if part.strip()]
        for attribute in named:
            if attribute not in attributes:
                raise ValueError(f"{text!r}: {attribute!r} is not an attribute")
        return Group(group.strip(), *named)
    name, at, axis = text.partition("@")
    if at:
        if axis.strip() not in attributes:
            raise ValueError(f"{text!r}: {axis.strip()!r} is not an attribute")
        return Named(name.strip(), name.strip(), axis=axis.strip())
    return _dimension(text, attributes)


def _dimension(text: str, attributes: list) -> Named | Sized:
    tree = ast.parse(text, mode="eval").body
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - set(attributes)
    if not names:
        return Sized(expression(text))
    factors = {ast.Mult: [], ast.Div: []}
    while isinstance(tree, ast.BinOp) and type(tree.op) in factors:
        factors[type(tree.op)].insert(0, ast.unparse(tree.right))
        tree = tree.left
    if not isinstance(tree, ast.Name) or len(names) != 1 or tree.id not in names:
        raise ValueError(f"{text!r}: expected one dimension, multiplied or divided by attributes")
    return Named(tree.id, ast.unparse(ast.parse(text, mode="eval")), _product(factors[ast.Mult]),
                 _product(factors[ast.Div]))


def _product(factors: list[str]) -> Expression | None:
    return expression(" * ".join(factors)) if factors else None


class Shapes:
    """The shape of every tensor by name, as a pattern of the notation above.

    - ``when``: the condition of this declaration, an expression over the attributes and the inputs' ``.ndim``.
    - ``whole``: a dimension that must be divisible although no tensor has it: ``"channels / (stride * stride)"``.
    - ``remedies``: what the user can do, for a dimension that is not divisible, or for a fixed size in its notation.
      They replace the operator's.
    - ``patterns``: the pattern of each tensor. The first input comes first.
    """

    def __init__(self, when: str | None = None, whole: str | None = None, remedies: dict[str, str] | None = None,
                 **patterns: str):
        self.when = None if when is None else expression(when)
        self.whole_text = whole
        self.texts = patterns
        self.remedies = remedies or {}
        self.patterns = {}   # parsed by bind, like ``whole``
        self.whole = ()

    def bind(self, attributes: list) -> Shapes:
        """Return the same declaration, parsed. A name in a pattern is an attribute or a dimension."""
        bound = copy.copy(self)
        bound.patterns = {tensor: parse_pattern(text, attributes) for tensor, text in self.texts.items()}
        bound.whole = parse_pattern(self.whole_text, attributes) if self.whole_text else ()
        bound._check()
        return bound

    def _check(self) -> None:
        groups = [term.name for term in self.first if isinstance(term, Group)]
        kinds = [type(term) for term in self.first]
        is_valid = kinds == [Group, Named, Group] if self.axis else len(groups) <= 1
        if not is_valid:
            raise ValueError(f"{self.first}: the first pattern has one group, or is `one..., name@axis, other...`")
        for tensor, pattern in self.patterns.items():
            for term in pattern:
                if isinstance(term, Group) and term.name not in groups:
                    raise ValueError(f"{tensor}: {term.name}... is not a group of the first pattern")

    @property
    def first(self) -> tuple:
        """The pattern of the first input."""
        return next(iter(self.patterns.values()))

    @property
    def axis(self) -> str | None:
        """The attribute that places a dimension of the first pattern, if there is one."""
        return next((term.axis for term in self.first if isinstance(term, Named) and term.axis), None)

    def expand(self, where: str, values: dict, ndim: int) -> tuple:
        """Return the arguments ``patterns`` and ``whole`` of :func:`gluonops.contract.dims.solve`.

        They follow from the ``values`` of the attributes, and the first input's number of dimensions.
        """
        groups = self.groups(where, values, ndim)
        counted = {name: count(value) for name, value in values.items()}

        def expanded(pattern: tuple) -> tuple:
            return tuple(dim for term in pattern for dim in _expand(where, term, groups, values, counted))

        patterns = {tensor: expanded(pattern) for tensor, pattern in self.patterns.items()}
        return patterns, expanded(self.whole)

    def groups(self, where: str, values: dict, ndim: int) -> dict[str, tuple]:
        """Return the dimensions of each group. The arguments are those of :meth:`expand`."""
        groups = [term for term in self.first if isinstance(term, Group)]
        if self.axis:
            axis = normalized_axis(where, values[self.axis], ndim, next(iter(self.patterns)))
            ranges = [range(axis), range(axis + 1, ndim)]
        elif groups:
            begin = self.first.index(groups[0])
            ranges = [range(begin, begin + ndim - (len(self.first) - 1))]
        else:
            ranges = []
        return {group.name: tuple(Dim(group.name if group.name and i == 0 else f"dim{i}") for i in numbers)
                for group, numbers in zip(groups, ranges)}


def count(value: Any) -> Any:
    """Return the value of an attribute in the expression of a size, in which a list of pairs counts as their number."""
    return len(value) // 2 if isinstance(value, tuple) else value


def _expand(where: str, term: Term, groups: dict[str, tuple], values: dict, counted: dict) -> tuple:
    if isinstance(term, Group):
        dims = groups[term.name]
        if term.counts is None:
            return dims
        counts = values[term.counts]
        if not isinstance(counts, tuple):   # it is an integer for the axis
            axis = normalized_axis(where, values[term.axis], len(dims))
            counts = tuple(counts if i == axis else 1 for i in range(len(dims)))
        return _repeated(dims, term.counts, counts)
    if isinstance(term, Named):
        mul, div = (_checked(where, factor, counted, 1) if factor else 1 for factor in (term.mul, term.div))
        return (Dim(term.name, term.text, mul, div, term.div.text if term.div else ""),)
    label = term.size.text if term.size.names else None
    return (Fixed(_checked(where, term.size, counted, 0), label),)


def _checked(where: str, size: Expression, counted: dict, low: int) -> int:
    """Return the value of an expression. Raise an OpError if it is less than ``low`` or does not fit 64 bits."""
    value = size(counted)
    if value < low:
        raise OpError(where, f"{size.text} is {value}; expected at least {low}",
                      "Choose attributes that make it larger")
    if value >= 2 ** 63:
        raise OpError(where, f"{size.text} is more than 2**63 - 1", "Choose smaller attributes")
    return value


def _repeated(dims: tuple, label: str, counts: tuple) -> tuple:
    """Dimensions times numbers, the last dimension times the last number.

    Missing numbers are 1. Numbers without a dimension are sizes of their own.
    """
    added = max(0, len(counts) - len(dims))
    counts = (1,) * (len(dims) - len(counts)) + counts
    sizes = [Fixed(count) for count in counts[:added]]
    return (*sizes, *(Dim(dim.name, f"{dim.name} * {label}", count) for dim, count in zip(dims, counts[added:])))


def normalized_axis(where: str, axis: int, ndim: int, what: str = "data") -> int:
    """Return the axis as a number from 0. Raise an OpError if ``what`` has no such axis."""
    if not -ndim <= axis < ndim:
        raise OpError(where, f"axis {axis} is out of range for {what} of {plural(ndim, 'dimension')}",
                      f"Choose an axis from {-ndim} to {ndim - 1}")
    return axis % ndim


def bare_name(term: Term) -> str | None:
    """Return the name of a dimension that is neither multiplied nor divided, or of a group. Otherwise None."""
    is_bare = (isinstance(term, Group) and term.counts is None
               or isinstance(term, Named) and term.mul is None and term.div is None)
    return term.name if is_bare else None
