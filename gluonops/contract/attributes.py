"""Typed attributes of an operator. A CustomOp receives them as strings; this is the only place that parses them."""
from __future__ import annotations

import ast
import dataclasses
import math
import numbers
import operator
import sys
import typing

from .errors import OpError, quoted


class Beyond64Bits(ValueError):
    """An integer that C++ and CUDA cannot take."""

    expected = "an integer from -2**63 to 2**63 - 1"


class Kind:
    """The values that an attribute takes. ``parse`` accepts a Python value, or the string that a graph has for it.

    ``expected`` describes the values in errors, and ``type`` on the operator's page.
    """

    expected = type = ""
    takes_tuples = False

    def parse(self, value: typing.Any) -> typing.Any:
        """Return the typed value; raise ValueError or TypeError where it is not one of this kind."""
        raise TypeError(f"{type(self).__name__} cannot parse {value!r}")


def _plain(text: str) -> str:
    """Return the text of a number as it is.

    Raise a ValueError for what only Python takes for a number: ``1_000``, and digits of other scripts.
    """
    if "_" in text or not text.isascii():
        raise ValueError
    return text


class Int(Kind):
    """An integer of at least ``low``, or any integer if ``low`` is None."""

    type = "int"

    def __init__(self, low: int | None = None):
        self.low = low
        self.expected = "an integer" if low is None else f"an integer of at least {low}"

    def parse(self, value: typing.Any) -> typing.Any:
        if isinstance(value, str):
            value = int(_plain(value))
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise TypeError
        if not -2 ** 63 <= value < 2 ** 63:
            raise Beyond64Bits
        if self.low is not None and value < self.low:
            raise ValueError
        return int(value)


class Float(Kind):
    """A finite real number of at least ``low``, above ``above`` and below ``below``. None means that there is no bound.

    A subnormal number counts as 0, because MXNet's own operators take none.
    """

    type = "float"

    def __init__(self, low: float | None = None, above: float | None = None, below: float | None = None):
        self.low, self.above, self.below = low, above, below
        # The words, the test and the value of each bound.
        bounds = ("of at least", operator.ge, low), ("above", operator.gt, above), ("below", operator.lt, below)
        self._bounds = [(test, bound) for _, test, bound in bounds if bound is not None]
        words = " and ".join(f"{words} {bound}" for words, _, bound in bounds if bound is not None)
        self.expected = f"a finite number {words}".rstrip()

    def parse(self, value: typing.Any) -> typing.Any:
        if isinstance(value, str):
            value = float(_plain(value))
        if isinstance(value, bool) or not isinstance(value, (float, numbers.Real)):   # the test for a float is faster
            raise TypeError
        value = float(value) + 0.0   # -0.0 becomes 0.0
        if abs(value) < sys.float_info.min:
            value = 0.0
        if not math.isfinite(value) or not all(test(value, bound) for test, bound in self._bounds):
            raise ValueError
        return value


class Bool(Kind):
    """True or False, which may also be written as 1 or 0. Strings are parsed, because ``bool("False")`` is True."""

    expected, type = "True or False", "bool"
    _words = {"true": True, "1": True, "false": False, "0": False}

    def parse(self, value: typing.Any) -> typing.Any:
        if isinstance(value, str) and value.lower() in self._words:
            return self._words[value.lower()]
        if isinstance(value, bool) or (isinstance(value, numbers.Integral) and value in (0, 1)):
            return bool(value)
        raise ValueError


class Choice(Kind):
    """One of a few words."""

    def __init__(self, *words: str):
        listed = ", ".join(map(repr, words))
        self.words, self.type = words, f"{{{listed}}}"
        self.expected = " or ".join(listed.rsplit(", ", 1))

    def parse(self, value: typing.Any) -> typing.Any:
        if value not in self.words:
            raise ValueError
        return str(value)


class IntOrTuple(Kind):
    """An integer, or a tuple of integers, of at least ``low``."""

    takes_tuples, type = True, "int or tuple of int"

    def __init__(self, low: int):
        self.item = Int(low)
        self.expected = f"{self.item.expected}, or a tuple of them"

    def parse(self, value: typing.Any) -> typing.Any:
        if isinstance(value, str):
            if any(character.isalpha() for character in _plain(value)):   # such as 0x10
                raise ValueError
            value = ast.literal_eval(value.strip())
        if isinstance(value, (tuple, list)):
            return tuple(self.item.parse(item) for item in value)
        return self.item.parse(value)


def numbers_in(text: str) -> list[float]:
    """Return the numbers of a tuple or list in text form, with or without brackets and a comma at the end."""
    text = text.strip()
    if text[:1] + text[-1:] in ("()", "[]"):
        text = text[1:-1].strip()
    if text.endswith(","):
        text = text[:-1]
    return [float(_plain(number)) for number in text.split(",")]


def without_mxnet(values: typing.Mapping[str, typing.Any]) -> dict[str, typing.Any]:
    """Return values by name, in which arrays of MXNet have become arrays of NumPy.

    These have no hash. So no cache takes an array, whose numbers may have changed, for the one that it has seen.
    """
    return {name: value.asnumpy() if hasattr(value, "asnumpy") else value for name, value in values.items()}


class Numbers(Kind):
    """A tuple of finite numbers of at least ``low``. A number stands for a tuple of one, and a vector is taken too."""

    takes_tuples, type = True, "float, sequence of float or NDArray"

    def __init__(self, low: float):
        self.item = Float(low=low)
        self.expected = f"{self.item.expected}, or a tuple of them"

    def parse(self, value: typing.Any) -> typing.Any:
        if isinstance(value, str):
            value = numbers_in(value)
        if hasattr(value, "tolist"):   # an array or a number of NumPy
            value = value.tolist()
        if isinstance(value, numbers.Real):
            value = (value,)
        if not isinstance(value, (tuple, list)):   # a set has no order, and a dict's items are its keys
            raise TypeError
        values = tuple(self.item.parse(number) for number in value)
        if not values:
            raise ValueError
        return values


class Pairs(Kind):
    """A flat tuple of pairs of finite numbers above 0: ``(w0, h0, w1, h1)``. A sequence of pairs is taken as well."""

    expected = "pairs of finite numbers above 0: (w0, h0, w1, h1, ...)"
    item = Float(above=0)
    takes_tuples, type = True, "sequence of float"

    def parse(self, value: typing.Any) -> typing.Any:
        if isinstance(value, str):
            value = numbers_in(value)
        values = []
        for part in value:
            values.extend([part] if isinstance(part, numbers.Real) else part)
        if not values or len(values) % 2:
            raise ValueError
        return tuple(self.item.parse(float(number)) for number in values)


class Optional(Kind):
    """Another kind, or None."""

    def __init__(self, kind: Kind):
        self.kind = kind
        self.expected, self.type = f"None or {kind.expected}", kind.type
        self.takes_tuples = kind.takes_tuples

    def parse(self, value: typing.Any) -> typing.Any:
        if value is None or (isinstance(value, str) and value == "None"):
            return None
        return self.kind.parse(value)


@dataclasses.dataclass(frozen=True)
class Attr:
    """An attribute. ``doc`` says what it means."""

    name: str
    kind: Kind
    default: typing.Any
    doc: str = ""

    def parse(self, where: str, value: typing.Any) -> typing.Any:
        """Return the typed value, or raise an OpError that says what is allowed."""
        try:
            return self.kind.parse(value)
        except (ValueError, TypeError, OverflowError, SyntaxError, MemoryError, RecursionError) as error:
            expected = getattr(error, "expected", self.kind.expected)
            what = f"{self.name} is {quoted(value)}; expected {expected}"
            raise OpError(where, what, f"Pass another {self.name}") from error


def parsed(where: str, kinds: typing.Mapping[str, Kind], /, **values: typing.Any) -> dict:
    """Return the arguments of a function or a block as typed values, in the order of ``kinds``.

    ``given`` has a value for each of them: ``parsed("nn.DropBlock", OPTIONS, block_size=block_size)``. An OpError names
    one that is not of its kind.
    """
    return {name: Attr(name, kind, None).parse(where, values[name]) for name, kind in kinds.items()}
