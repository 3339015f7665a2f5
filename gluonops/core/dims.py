"""Shape inference in both directions from one declaration.

A tensor's shape is a pattern of dimensions: named ones, which attributes may multiply or divide, and fixed ones.
:func:`solve` fills in whatever follows from the shapes that are known, forwards or backwards, and explains in the
user's words what does not fit. ``gluonops/native/dims.h`` is the same in C++. The notation in which contracts write
patterns is that of :mod:`gluonops.core.shapes`.
"""
from __future__ import annotations

import dataclasses
import functools
import math

from .errors import OpError

UNKNOWN = -1
MOST_ELEMENTS = 2 ** 60   # a tensor of float64 of so many fills the address space


@functools.cache
def largest_size() -> int:
    """What MXNet takes as a size: 32 bits, with a sign, where it is not built for large tensors."""
    import mxnet as mx  # here: contracts are read without MXNet at build time

    return 2 ** (63 if mx.runtime.Features().is_enabled("INT64_TENSOR_SIZE") else 31) - 1


@dataclasses.dataclass(frozen=True)
class Size:
    """A factor from attributes, and what the user calls it: ``Size("stride * stride", 4)``."""
    label: str
    value: int

    def __str__(self) -> str:
        return f"{self.label} = {self.value}" if " " in self.label else f"{self.label} {self.value}"

    @property
    def attribute(self) -> str:
        """The first attribute in the label: what the user can choose."""
        return self.label.split(" ")[0]


@dataclasses.dataclass(frozen=True)
class Fixed:
    """A size that the attributes fix, and how: ``Fixed(125, "anchors * (5 + classes)")``; without a label, a number."""
    value: int
    label: str | None = None

    def __str__(self) -> str:
        return str(self.value)


@dataclasses.dataclass(frozen=True)
class Dim:
    """A named dimension, multiplied or divided by attributes: ``height / stride``; ``text`` is how it was written."""
    name: str
    text: str = ""
    mul: Size | None = None
    div: Size | None = None

    def __str__(self) -> str:
        return self.text or self.name

    def value(self, base: int) -> int | None:
        """The size here for a size ``base`` of the bare dimension, or None where it does not divide."""
        return _scaled(base, self.mul, self.div)

    def base(self, size: int) -> int | None:
        """The inverse of :meth:`value`."""
        return _scaled(size, self.div, self.mul)


def _scaled(size: int, up: Size | None, down: Size | None) -> int | None:
    whole, rest = divmod(size * (up.value if up else 1), down.value if down else 1)
    return None if rest else whole


def pattern_text(pattern: tuple) -> str:
    """A pattern as Python writes a tuple: ``(batch, classes)``."""
    return "(" + ", ".join(str(dim) for dim in pattern) + ("," if len(pattern) == 1 else "") + ")"


def plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def solve(where: str, patterns: dict, shapes: dict, whole: tuple = (), remedies: dict | None = None) -> dict:
    """Fill in what follows from the known sizes.

    Parameters
    ----------
    where : str
        The operator's name, for the error text.
    patterns : dict of str to tuple of Dim or Fixed
        The declared shape of every tensor.
    shapes : dict of str to tuple of int
        What is known; a tensor may be missing, a size may be ``UNKNOWN``.
    whole : sequence of Dim
        Dimensions that must come out whole although no tensor has them.
    remedies : dict of str to str, optional
        Dimension -> what the user can do where it does not divide; a fixed size as it is written -> what the user can
        do about another size.

    Returns
    -------
    dict of str to tuple of int
        A shape for every tensor, ``UNKNOWN`` where a size does not follow.

    Raises
    ------
    OpError
        A shape has the wrong number of dimensions, a size does not divide, two shapes contradict, or a tensor is
        larger than any can be.
    """
    remedies = remedies or {}
    bases = bare_sizes(where, patterns, shapes, remedies)
    named = [dim for pattern in patterns.values() for dim in pattern if isinstance(dim, Dim)]
    for dim in [*named, *whole]:
        if dim.name in bases:
            size, source = bases[dim.name]
            _check_value(where, dim, size, source, shapes, remedies)
    result = {tensor: tuple(_size(dim, bases) for dim in pattern) for tensor, pattern in patterns.items()}
    _check_sizes(where, patterns, result)
    return result


def bare_sizes(where: str, patterns: dict, shapes: dict, remedies: dict | None = None) -> dict:
    """Dimension's name -> (its size, the tensor it was read from), from the known shapes.

    Raises
    ------
    OpError
        A shape has the wrong number of dimensions, or two shapes contradict.
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
            if base is not None and base > largest_size():
                what = "a size" if isinstance(dim, Fixed) else dim.name
                raise OpError(where, f"{tensor} has shape {shape}; {what} is above {largest_size()}",
                              "Choose smaller attributes")
            if isinstance(dim, Fixed):
                if size != dim.value:
                    raise _not_the_fixed_size(where, tensor, shape, pattern, dim, remedies or {})
                continue
            known, source = bases.setdefault(dim.name, (base, tensor))
            if base is None or base != known:
                raise _contradiction(where, tensor, shape, patterns, shapes, dim, source)
    return bases


def _size(dim: Dim | Fixed, bases: dict) -> int:
    if isinstance(dim, Fixed):
        return dim.value
    return dim.value(bases[dim.name][0]) if dim.name in bases else UNKNOWN


def _check_value(where: str, dim: Dim, size: int, source: str, shapes: dict, remedies: dict) -> None:
    value = dim.value(size)
    if value is None:
        remedy = remedies.get(dim.name, f"Pad the input or choose another {dim.div.attribute}")
        raise OpError(where, f"{source} has shape {shapes[source]}; {dim.name} {size} is not divisible by {dim.div}",
                      remedy)


def _check_sizes(where: str, patterns: dict, shapes: dict) -> None:
    """An OpError for shapes that no tensor has."""
    described = {tensor: f"{tensor} {pattern_text(patterns[tensor])}" for tensor in shapes}
    for tensor, shape in shapes.items():
        if any(size > largest_size() for size in shape):
            raise OpError(where, f"{described[tensor]} has a size above {largest_size()}", "Choose smaller attributes")
    for tensor, shape in shapes.items():
        if math.prod(size for size in shape if size != UNKNOWN) > MOST_ELEMENTS:
            raise OpError(where, f"{described[tensor]} has more than 2**60 elements", "Choose smaller attributes")


def _not_the_fixed_size(where: str, tensor: str, shape: tuple, pattern: tuple, dim: Fixed, remedies: dict) -> OpError:
    has = f"{tensor} has shape {shape}; expected {pattern_text(pattern)} with"
    if dim.label is None:
        return OpError(where, f"{has} {dim}", remedies.get(str(dim), "Reshape it"))
    usual = "Change the layer in front or the attributes"
    return OpError(where, f"{has} {dim.label} = {dim}", remedies.get(dim.label, usual))


def _contradiction(where: str, tensor: str, shape: tuple, patterns: dict, shapes: dict, dim: Dim,
                   source: str) -> OpError:
    if source == tensor:
        return OpError(where, f"{tensor} has shape {shape}; expected {pattern_text(patterns[tensor])} with {dim}",
                       "Reshape it")
    others = {name: known for name, known in shapes.items() if name != tensor}
    expected = solve(where, patterns, others)[tensor]
    expected = tuple(dim if size == UNKNOWN else size for dim, size in zip(patterns[tensor], expected))
    return OpError(where, f"{tensor} has shape {shape}; expected {pattern_text(expected)} to match {source} of shape "
                          f"{shapes[source]}", f"Reshape {tensor}")
