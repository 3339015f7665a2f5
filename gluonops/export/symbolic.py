"""Sizes that are free, such as that of the batch: the shape rules compute with them as with numbers.

A free size is a polynomial with integers as coefficients. Its unknowns are the named sizes, and what a division or a
scaling makes of free sizes where it does not come out whole:

>>> batch, height = free("batch"), free("height")
>>> print((6 * batch * height) // (2 * height), 2 * batch + 1, (height + 1) // 2)
3*batch 2*batch+1 (height+1)//2

A question is answered if the answer is the same for all values. Any other question is :class:`Undecided`, which names
the sizes that it depends on:

>>> batch + 3 > 4
True
>>> batch == 4
Traceback (most recent call last):
gluonops.export.symbolic.Undecided: whether batch is 4 depends on batch

A free size is from 2 to 8. MXNet squeezes and broadcasts axes of one element, so that a size of 1 is a case of its own.
And a graph with a bound above 8, such as a list of 256 numbers of which it takes as many as the batch has images, is
one for any batch: nobody wants a file for a batch of 1 because of it.
"""
from __future__ import annotations

import collections
import math
import numbers
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Union

import numpy as np

LEAST, MOST = 2, 8


class Undecided(Exception):
    """A question whose answer depends on free sizes. ``names`` are theirs."""

    def __init__(self, question: str, *sizes: Any):
        self.names = names_in(sizes)
        super().__init__(f"{question} depends on {' and '.join(sorted(self.names))}")


class Named(NamedTuple):
    """A free size by its name, and its largest value."""
    name: str
    most: int

    def __str__(self) -> str:
        return self.name

    @property
    def names(self) -> frozenset[str]:
        return frozenset([self.name])

    @property
    def least(self) -> int:
        return LEAST

    def value(self, values: Mapping[str, Any]) -> Any:
        return values[self.name]


class Quotient(NamedTuple):
    """A division that leaves a rest for some values. It is rounded down."""
    top: WrittenSize
    bottom: int | WrittenSize

    def __str__(self) -> str:
        return f"{_in_brackets(self.top)}//{_in_brackets(self.bottom)}"

    @property
    def names(self) -> frozenset[str]:
        return names_in([self.top, self.bottom])

    @property
    def least(self) -> int:
        return min(_least(self.top) // divisor for divisor in self._divisors())

    @property
    def most(self) -> int:
        return max(_most(self.top) // divisor for divisor in self._divisors())

    def _divisors(self) -> tuple[int, int]:
        """The smallest and the largest divisor. None is 0."""
        return max(_least(self.bottom), 1), max(_most(self.bottom), 1)

    def value(self, values: Mapping[str, Any]) -> Any:
        return value_of(self.top, values) // value_of(self.bottom, values)


class Scaled(NamedTuple):
    """A size times a number of float32 that is not whole; see :func:`scaled`."""
    size: WrittenSize
    scale: float

    def __str__(self) -> str:
        return f"int({self.scale:g}*{_in_brackets(self.size)})"

    @property
    def names(self) -> frozenset[str]:
        return self.size.names

    @property
    def least(self) -> int:
        return scaled(_least(self.size), self.scale)

    @property
    def most(self) -> int:
        return scaled(_most(self.size), self.scale)

    def value(self, values: Mapping[str, Any]) -> int:
        return scaled(value_of(self.size, values), self.scale)


Atom = Union[Named, Quotient, Scaled]
Terms = Mapping[tuple[Atom, ...], int]   # the factors of a product, in the order of their texts -> its coefficient


class FreeSize:
    """A size that depends on those that are free. Results that do not are integers."""

    __slots__ = ("terms",)

    def __init__(self, terms: Terms):
        self.terms = terms

    def __str__(self) -> str:
        texts = []
        for atoms, factor in sorted(self.terms.items(), key=lambda term: (-len(term[0]), _order(term[0]))):
            is_product = abs(factor) != 1 or len(atoms) > 1
            names = "*".join(f"({atom})" if is_product and isinstance(atom, Quotient) else str(atom) for atom in atoms)
            number = "" if abs(factor) == 1 and atoms else str(abs(factor))
            texts.append(("-" if factor < 0 else "+") + "*".join(filter(None, (number, names))))
        return "".join(texts).removeprefix("+")

    __repr__ = __str__

    @property
    def names(self) -> frozenset[str]:
        """The names of the free sizes that it depends on."""
        return frozenset().union(*(atom.names for atoms in self.terms for atom in atoms))

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __index__(self) -> int:
        raise Undecided(f"the number {self}", self)

    __int__ = __float__ = __index__

    def _made(self, terms: Terms) -> Size:
        """A size of this class; an integer if nothing in it is free."""
        terms = {atoms: factor for atoms, factor in terms.items() if factor}
        return terms.get((), 0) if terms.keys() <= {()} else type(self)(terms)

    # -- arithmetic ----------------------------------------------------------------------------------------------------
    def __add__(self, other: Size) -> Size:
        if not _is_size(other):
            return NotImplemented
        terms = collections.Counter(self.terms)
        for atoms, factor in terms_of(other).items():
            terms[atoms] += factor
        return self._made(terms)

    def __mul__(self, other: Size) -> Size:
        if not _is_size(other):
            return NotImplemented
        terms = collections.Counter()
        for atoms, factor in self.terms.items():
            for others, other_factor in terms_of(other).items():
                terms[tuple(sorted(atoms + others, key=str))] += factor * other_factor
        return self._made(terms)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Size) -> Size:
        return self + other * -1 if _is_size(other) else NotImplemented

    def __rsub__(self, other: Size) -> Size:
        return -self + other

    def __floordiv__(self, other: Size) -> Size:
        return self._made(_divided(self.terms, other)) if _is_size(other) else NotImplemented

    def __rfloordiv__(self, other: Size) -> Size:
        return self._made(_divided(terms_of(other), self)) if _is_size(other) else NotImplemented

    def __mod__(self, other: Size) -> Size:
        return self - self // other * other if _is_size(other) else NotImplemented

    def __rmod__(self, other: Size) -> Size:
        return other - other // self * self if _is_size(other) else NotImplemented

    def __divmod__(self, other: Size) -> tuple[Size, Size]:
        return self // other, self % other

    def __rdivmod__(self, other: Size) -> tuple[Size, Size]:
        return other // self, other % self

    # -- questions -----------------------------------------------------------------------------------------------------
    def __eq__(self, other: object) -> bool:
        if not _is_size(other):
            return NotImplemented
        difference = self - other
        if isinstance(difference, int):
            return difference == 0
        if _is_never_0(difference):
            return False
        raise Undecided(f"whether {self} is {other}", self, other)

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __gt__(self, other: Size) -> bool:
        return _is_above(self, other)

    def __lt__(self, other: Size) -> bool:
        return _is_above(other, self)

    def __ge__(self, other: Size) -> bool:
        return not _is_above(other, self)

    def __le__(self, other: Size) -> bool:
        return not _is_above(self, other)

    def __bool__(self) -> bool:
        return self != 0


class WrittenSize(FreeSize):
    """A free size for those who write files. Two of them are equal if they are so for all values, else not."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FreeSize) and self.terms == other.terms

    __hash__ = FreeSize.__hash__


Size = Union[int, FreeSize]


def free(name: str, most: int = MOST) -> FreeSize:
    """The free size of this name, whose largest value is ``most``."""
    return FreeSize({(Named(name, most),): 1})


def written(shape: Iterable[Size]) -> tuple[Size, ...]:
    """A shape for those who write files; see :class:`WrittenSize`."""
    return tuple(WrittenSize(size.terms) if isinstance(size, FreeSize) else size for size in shape)


def names_in(sizes: Iterable[Any]) -> frozenset[str]:
    """The names of the free sizes that these sizes depend on."""
    return frozenset().union(*(size.names for size in sizes if isinstance(size, FreeSize)))


def value_of(size: Size, values: Mapping[str, Any]) -> Any:
    """A size for these values of the free sizes."""
    if not isinstance(size, FreeSize):
        return size
    return sum(factor * math.prod(atom.value(values) for atom in atoms) for atoms, factor in size.terms.items())


def terms_of(size: Size) -> Terms:
    """The terms of a size: products of unknowns, and their coefficients."""
    return size.terms if isinstance(size, FreeSize) else {(): int(size)}


def scaled(size: Size, scale: float) -> Size:
    """A size times a number, both in float32, without its fraction."""
    scale = np.float32(scale)
    if not isinstance(size, FreeSize):
        return int(scale * np.float32(size))
    top, bottom = float(scale).as_integer_ratio()
    if bottom in (1, 2, 4, 8):   # The product has no rounding.
        return size * top // bottom
    return size._made({(Scaled(WrittenSize(size.terms), float(scale)),): 1})


def _is_size(value: object) -> bool:
    return isinstance(value, (FreeSize, numbers.Integral))


def _order(atoms: tuple[Atom, ...]) -> tuple[str, ...]:
    return tuple(map(str, atoms))


def _in_brackets(size: Size) -> str:
    text = str(size)
    return text if re.fullmatch(r"\w+", text) else f"({text})"


# -- divisions --------------------------------------------------------------------------------------------------------
def _divided(top: Terms, bottom: Size) -> Terms:
    """A quotient, rounded down. What does not come out whole is one unknown, in one form for equal quotients."""
    if isinstance(bottom, FreeSize):
        exact = _exact_quotient(top, bottom.terms)
        return {(Quotient(WrittenSize(top), WrittenSize(bottom.terms)),): 1} if exact is None else exact
    bottom = int(bottom)
    if bottom < 0:
        top, bottom = {atoms: -factor for atoms, factor in top.items()}, -bottom
    whole = collections.Counter({atoms: factor // bottom for atoms, factor in top.items()})
    rest = {atoms: factor % bottom for atoms, factor in top.items() if factor % bottom}
    for atoms, factor in _fraction(rest, bottom).items():
        whole[atoms] += factor
    return whole


def _fraction(top: dict[tuple[Atom, ...], int], bottom: int) -> Terms:
    """A quotient of coefficients that are smaller than the divisor."""
    offset = top.pop((), 0)
    if not top:
        return {}
    common = math.gcd(bottom, *top.values())
    (atoms, factor), *more = top.items()
    if not more and factor == 1 and len(atoms) == 1 and isinstance(atoms[0], Quotient) and \
            isinstance(atoms[0].bottom, int):   # (a // b + c) // d is (a + b * c) // (b * d)
        inner = atoms[0]
        return _divided(terms_of(inner.top + inner.bottom * offset), inner.bottom * bottom)
    terms = {atoms: factor // common for atoms, factor in top.items()}
    if offset // common:
        terms[()] = offset // common
    bottom //= common
    return terms if bottom == 1 else {(Quotient(WrittenSize(terms), bottom),): 1}


def _exact_quotient(top: Terms, bottom: Terms) -> Terms | None:
    """A quotient of polynomials; None if there is a rest."""
    every = sorted({atom for atoms in (*top, *bottom) for atom in atoms}, key=str)

    def leading(terms: Terms) -> tuple[Atom, ...]:
        return max(terms, key=lambda atoms: [atoms.count(atom) for atom in every])

    quotient, rest = {}, FreeSize(top) + 0
    divisor, first = FreeSize(bottom), leading(bottom)
    while not isinstance(rest, int):
        atoms = collections.Counter(leading(rest.terms))
        factor, remainder = divmod(rest.terms[leading(rest.terms)], bottom[first])
        if remainder or collections.Counter(first) - atoms:
            return None
        atoms = tuple(sorted((atoms - collections.Counter(first)).elements(), key=str))
        quotient[atoms] = factor
        rest -= FreeSize({atoms: factor}) * divisor
    return quotient if rest == 0 else None


# -- bounds -----------------------------------------------------------------------------------------------------------
def _is_above(one: Size, other: Size) -> bool:
    """Whether a size is above another one for all values; False if it is for none. Undecided otherwise."""
    difference = one - other
    if isinstance(difference, int):
        return difference > 0
    if _is_positive(difference):
        return True
    if _is_positive(1 - difference):
        return False
    raise Undecided(f"whether {one} is above {other}", one, other)


def _is_never_0(size: FreeSize) -> bool:
    factors = [factor for atoms, factor in size.terms.items() if atoms]
    return size.terms.get((), 0) % math.gcd(*factors) != 0 or _is_positive(size) or _is_positive(-size)


def _is_positive(size: Size) -> bool:
    """Whether a size is seen to be above 0 for all values.

    A quotient is at most what it would be without rounding, and less than 1 below it.
    """
    if _least(size) > 0:
        return True
    if isinstance(size, int):
        return False
    quotient = next((atom for atoms in size.terms if all(atom.least >= 0 for atom in atoms) for atom in atoms
                     if isinstance(atom, Quotient) and isinstance(atom.bottom, int)), None)
    return quotient is not None and _is_positive(_below(size, quotient))


def _below(size: FreeSize, quotient: Quotient) -> Size:
    """A lower bound of a size times the divisor of a quotient in it, in which this quotient does not stand any more."""
    bound = 0
    for atoms, factor in size.terms.items():
        if quotient in atoms and all(atom.least >= 0 for atom in atoms):
            rest = list(atoms)
            rest.remove(quotient)
            value = quotient.top if factor < 0 else quotient.top - (quotient.bottom - 1)
            bound += FreeSize({tuple(rest): factor}) * value
        else:
            bound += FreeSize({atoms: factor}) * quotient.bottom
    return bound


def _least(size: Size) -> int:
    """A number that a size is not below: its smallest value if larger unknowns do not make it smaller."""
    if isinstance(size, int):
        return size
    shifted = 0   # Unknowns stand in it for what they have above their smallest value.
    for atoms, factor in size.terms.items():
        product = factor
        for atom in atoms:
            product = FreeSize({(atom,): 1, (): atom.least}) * product
        shifted += product
    return sum(factor * math.prod(atom.most - atom.least for atom in atoms)
               for atoms, factor in terms_of(shifted).items() if factor < 0 or not atoms)


def _most(size: Size) -> int:
    """A number that a size is not above."""
    return -_least(-size)
