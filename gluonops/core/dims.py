"""Shape inference in both directions from one declaration.

An operator writes the shape of each tensor once, in named dimensions::

    batch, channels, height, width = names("batch channels height width")
    s = Size("stride", 2)
    {"data": (batch, channels, height, width), "output": (batch, channels * s * s, height / s, width / s)}

and :func:`solve` fills in whatever follows from the shapes that are known, forwards or backwards, and explains
in the user's words what does not fit.
"""
import math

import mxnet as mx

from .errors import OpError

UNKNOWN = -1

# What MXNet takes as a size: it tells its callers in 32 bits where it is not built for large tensors.
LARGEST = 2 ** (63 if mx.runtime.Features().is_enabled("INT64_TENSOR_SIZE") else 31) - 1
MOST_ELEMENTS = 2 ** 60   # a tensor of float64 of so many fills the address space


class Size:
    """A positive integer from an attribute that remembers what the user calls it."""

    def __init__(self, label, value):
        self.label, self.value = label, value

    def __mul__(self, other):
        return Size(f"{self.label} * {other.label}", self.value * other.value)

    def __str__(self):
        return f"{self.label} = {self.value}" if "*" in self.label else f"{self.label} {self.value}"


class Fixed(int):
    """A size that the attributes fix, and how they do: ``Fixed("anchors * (5 + classes)", 125)``.

    ``remedy`` is what to do about another size.
    """

    def __new__(cls, label, value, remedy="Change the layer in front or the attributes"):
        size = super().__new__(cls, value)
        size.label, size.remedy = label, remedy
        return size


class Dim:
    """A named dimension, multiplied or divided by attribute sizes: ``height / stride``.

    ``remedy`` is what to do where it does not divide, if that is not the usual.
    """

    def __init__(self, name, mul=None, div=None, remedy=None):
        self.name, self.mul, self.div, self.remedy = name, mul, div, remedy

    def __mul__(self, size):
        return Dim(self.name, self.mul * size if self.mul else size, self.div)

    def __truediv__(self, size):
        return Dim(self.name, self.mul, self.div * size if self.div else size)

    def __str__(self):
        text = self.name
        if self.mul:
            text += f" * {self.mul.label}"
        if self.div:
            text += f" / ({self.div.label})" if "*" in self.div.label else f" / {self.div.label}"
        return text

    def value(self, base):
        """The size here for a size ``base`` of the bare dimension, or None where it does not divide."""
        size = base * (self.mul.value if self.mul else 1)
        whole, rest = divmod(size, self.div.value if self.div else 1)
        return None if rest else whole

    def base(self, size):
        """The inverse of :meth:`value`."""
        return Dim(self.name, self.div, self.mul).value(size)


def names(text):
    """``names("batch channels")`` -> two dimensions."""
    return tuple(Dim(name) for name in text.split())


def pattern_text(dims):
    return "(" + ", ".join(str(d) for d in dims) + ("," if len(dims) == 1 else "") + ")"


def solve(where, patterns, shapes, require=()):
    """Fill in what follows from the known sizes.

    Parameters
    ----------
    where : str
        The operator's name, for the error text.
    patterns : dict of str to tuple of Dim or int
        The declared shape of every tensor.
    shapes : dict of str to tuple of int
        What is known; a tensor may be missing, a size may be ``UNKNOWN``.
    require : sequence of Dim
        Dimensions that must come out whole although no tensor has them.

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
    _check_attributes(where, patterns, require)
    bases = {}   # dimension's name -> (size, tensor it was read from)
    for tensor, shape in shapes.items():
        pattern = patterns[tensor]
        if len(shape) != len(pattern):
            raise OpError(where, f"{tensor} has shape {shape}; expected {len(pattern)} dimension"
                          f"{'s' * (len(pattern) != 1)} {pattern_text(pattern)}", "Reshape it")
        for dim, size in zip(pattern, shape):
            if size == UNKNOWN:
                continue
            base = dim.base(size) if isinstance(dim, Dim) else size
            if base is not None and base > LARGEST:
                named = dim.name if isinstance(dim, Dim) else "a size"
                raise OpError(where, f"{tensor} has shape {shape}; {named} is above {LARGEST}",
                              "Choose smaller attributes")
            known, source = bases.setdefault(dim.name, (base, tensor)) if isinstance(dim, Dim) else (dim, None)
            if base is None or base != known:
                raise _mismatch(where, tensor, shape, patterns, shapes, dim, source)
    for dim in [d for pattern in patterns.values() for d in pattern if isinstance(d, Dim)] + list(require):
        if dim.name in bases and dim.value(bases[dim.name][0]) is None:
            size, source = bases[dim.name]
            raise OpError(where, f"{source} has shape {shapes[source]}; {dim.name} {size} is not divisible by "
                          f"{dim.div}", _division_remedy(dim))
    result = {tensor: tuple((dim.value(bases[dim.name][0]) if dim.name in bases else UNKNOWN)
                            if isinstance(dim, Dim) else dim for dim in pattern)
              for tensor, pattern in patterns.items()}
    _check_sizes(where, patterns, result)
    return result


def _check_attributes(where, patterns, require):
    """An OpError where 64 bits do not hold what the attributes make of a size."""
    for dim in [dim for pattern in patterns.values() for dim in pattern] + list(require):
        sizes = (dim.mul, dim.div) if isinstance(dim, Dim) else ()
        fixed = [(dim.label, dim)] if isinstance(dim, Fixed) else []
        for label, value in fixed + [(size.label, size.value) for size in sizes if size]:
            if value >= 2 ** 63:
                raise OpError(where, f"{label} is more than 2**63 - 1", "Choose smaller attributes")


def _check_sizes(where, patterns, shapes):
    """An OpError for shapes that no tensor has."""
    for tensor, shape in shapes.items():
        if any(size > LARGEST for size in shape):
            raise OpError(where, f"{tensor} {pattern_text(patterns[tensor])} has a size above {LARGEST}",
                          "Choose smaller attributes")
        if math.prod(size for size in shape if size != UNKNOWN) > MOST_ELEMENTS:
            raise OpError(where, f"{tensor} {pattern_text(patterns[tensor])} has more than 2**60 elements",
                          "Choose smaller attributes")


def _division_remedy(dim):
    if dim.remedy:
        return dim.remedy
    label = dim.div.label.split(" ")[0]
    return (f"Pad the input or choose another {label}" if dim.name != "channels"
            else f"Change the number of channels or choose another {label}")


def _mismatch(where, tensor, shape, patterns, shapes, dim, source):
    if isinstance(dim, Fixed):
        return OpError(where, f"{tensor} has shape {shape}; expected {pattern_text(patterns[tensor])} with "
                       f"{dim.label} = {dim}", dim.remedy)
    if source is None or source == tensor:
        return OpError(where, f"{tensor} has shape {shape}; expected {pattern_text(patterns[tensor])} with "
                       f"{dim}", "Reshape it")
    others = {name: known for name, known in shapes.items() if name != tensor}
    expected = solve(where, patterns, others)[tensor]
    expected = tuple(dim if size == UNKNOWN else size for dim, size in zip(patterns[tensor], expected))
    return OpError(where, f"{tensor} has shape {shape}; expected {pattern_text(expected)} to match {source} of shape "
                   f"{shapes[source]}", f"Reshape {tensor}")
