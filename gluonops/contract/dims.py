"""Shape inference in both directions from one declaration.

A tensor's shape is a pattern of dimensions. They are named, perhaps multiplied or divided by attributes, or fixed.
:func:`solve` computes the unknown sizes from the known ones, forwards or backwards, and raises an OpError if they do
not fit. ``gluonops/native/mxnet/dims.h`` does the same in C++. :mod:`gluonops.contract.shapes` describes the notation
of patterns in contracts.
"""
from __future__ import annotations

import dataclasses
import functools
import math

from .errors import OpError, plural

UNKNOWN = -1
MOST_ELEMENTS = 2 ** 60   # more elements of float64 do not fit into the address space


@functools.cache
def largest_size() -> int:
    """Return MXNet's largest size: that of 32 bits with a sign, or of 64 bits if MXNet is built for large tensors."""
    try:
        import mxnet as mx  # here: contracts are read without MXNet
    except ModuleNotFoundError:
        return 2 ** 31 - 1
    bits = 63 if mx.runtime.Features().is_enabled("INT64_TENSOR_SIZE") else 31
    return 2 ** bits - 1


@dataclasses.dataclass(frozen=True)
class Fixed:
    """A fixed size, with its expression if attributes determine it: ``Fixed(125, "anchors * (5 + classes)")``."""
    value: int
    label: str | None = None

    def __str__(self) -> str:
        return str(self.value)


@dataclasses.dataclass(frozen=True)
class Dim:
    """A named dimension, perhaps times and by factors from attributes: ``height / stride``.

    ``text`` is its notation, and ``divisor`` that of what divides it.
    """
    name: str
    text: str = ""
    mul: int = 1
    div: int = 1
    divisor: str = ""

    def __str__(self) -> str:
        return self.text or self.name

    def value(self, base: int) -> int | None:
        """Return this size if the named dimension has the size ``base``, or None if that is not divisible."""
        return _quotient(base * self.mul, self.div)

    def base(self, size: int) -> int | None:
        """Return the size of the named dimension if this size is ``size``: the inverse of :meth:`value`."""
        return _quotient(size * self.div, self.mul)


def _quotient(number: int, divisor: int) -> int | None:
    quotient, rest = divmod(number, divisor)
    return None if rest else quotient


def pattern_text(pattern: tuple) -> str:
    """Return a pattern as Python writes a tuple: ``(batch, classes)``."""
    dims = ", ".join(str(dim) for dim in pattern)
    return f"({dims},)" if len(pattern) == 1 else f"({dims})"


def solve(where: str, patterns: dict, shapes: dict, whole: tuple = (), remedies: dict | None = None) -> dict:
    """Compute the unknown sizes that follow from the known ones.

    - ``patterns``: the declared shape of every tensor.
    - ``shapes``: the known shapes. A tensor may be missing, and a size may be ``UNKNOWN``.
    - ``whole``: dimensions that must be divisible although no tensor has them.
    - ``remedies``: what the user can do, for a dimension that is not divisible, or for a fixed size in its notation.

    Return the shape of every tensor. A size that does not follow is ``UNKNOWN``. Raise an OpError if a shape has the
    wrong number of dimensions, a size is not divisible, two shapes contradict each other, or a tensor is too large.
    """
    remedies = remedies or {}
    bases = bare_sizes(where, patterns, shapes, remedies)
    named = [dim for pattern in patterns.values() for dim in pattern if isinstance(dim, Dim)]
    for dim in [*named, *whole]:
        size, source = bases.get(dim.name, (None, None))
        if size is not None and dim.value(size) is None:
            by = dim.divisor   # "2", "stride 2", "stride * stride = 4"
            if by != str(dim.div):
                by += f" = {dim.div}" if " " in by else f" {dim.div}"
            what = f"{source} has shape {shapes[source]}; {dim.name} {size} is not divisible by {by}"
            raise OpError(where, what, remedies.get(dim.name, f"Pad the input or choose another {by.split()[0]}"))
    result = {tensor: tuple(_size(dim, bases) for dim in pattern) for tensor, pattern in patterns.items()}
    _check_sizes(where, patterns, result)
    return result


def bare_sizes(where: str, patterns: dict, shapes: dict, remedies: dict | None = None) -> dict:
    """Return for each named dimension in the known shapes its size, and the tensor from which it was read.

    Raise an OpError if a shape has the wrong number of dimensions, or two shapes contradict each other.
    """
    bases = {}
    for tensor, shape in shapes.items():
        pattern = patterns[tensor]
        if len(shape) != len(pattern):
            raise OpError(where, f"{tensor} has shape {shape}; expected {plural(len(pattern), 'dimension')} "
                                 f"{pattern_text(pattern)}", "Reshape it")
        for dim, size in zip(pattern, shape):
            if size == UNKNOWN:
                continue
            base = size if isinstance(dim, Fixed) else dim.base(size)
            if base is not None and _is_above(base, largest_size()):
                what = "a size" if isinstance(dim, Fixed) else dim.name
                raise OpError(where, f"{tensor} has shape {shape}; {what} is above {largest_size()}",
                              "Choose smaller attributes")
            if isinstance(dim, Fixed):
                if size != dim.value:
                    raise _not_the_fixed_size(where, tensor, shape, pattern, dim, remedies or {})
                continue
            first_size, source = bases.setdefault(dim.name, (base, tensor))
            if base is None or base != first_size:
                raise _contradiction(where, tensor, shape, patterns, shapes, dim, source)
    return bases


def _size(dim: Dim | Fixed, bases: dict) -> int:
    if isinstance(dim, Fixed):
        return dim.value
    return dim.value(bases[dim.name][0]) if dim.name in bases else UNKNOWN


def _check_sizes(where: str, patterns: dict, shapes: dict) -> None:
    """Raise an OpError if a size or a tensor is too large."""
    described = {tensor: f"{tensor} {pattern_text(patterns[tensor])}" for tensor in shapes}
    for tensor, shape in shapes.items():
        if any(_is_above(size, largest_size()) for size in shape):
            raise OpError(where, f"{described[tensor]} has a size above {largest_size()}", "Choose smaller attributes")
    for tensor, shape in shapes.items():
        if _is_above(math.prod(size for size in shape if size != UNKNOWN), MOST_ELEMENTS):
            raise OpError(where, f"{described[tensor]} has more than 2**60 elements", "Choose smaller attributes")


def _is_above(size: int, most: int) -> bool:
    """Whether a number is too large. A size that is free while a net is exported has no limit."""
    return isinstance(size, int) and size > most


def _not_the_fixed_size(where: str, tensor: str, shape: tuple, pattern: tuple, dim: Fixed, remedies: dict) -> OpError:
    has = f"{tensor} has shape {shape}; expected {pattern_text(pattern)}"
    if dim.label is None:
        return OpError(where, has, remedies.get(str(dim), "Reshape it"))
    usual = "Change the layer in front or the attributes"
    return OpError(where, f"{has} with {dim.label} = {dim}", remedies.get(dim.label, usual))


def _contradiction(where: str, tensor: str, shape: tuple, patterns: dict, shapes: dict, dim: Dim,
                   source: str) -> OpError:
    if source == tensor:
        return OpError(where, f"{tensor} has shape {shape}; expected {pattern_text(patterns[tensor])} with {dim}",
                       "Reshape it")
    others = {name: other for name, other in shapes.items() if name != tensor}
    expected = solve(where, patterns, others)[tensor]
    expected = tuple(dim if size == UNKNOWN else size for dim, size in zip(patterns[tensor], expected))
    return OpError(where, f"{tensor} has shape {shape}; expected {pattern_text(expected)} to match {source} of shape "
                          f"{shapes[source]}", f"Reshape {tensor}")
