"""Typed attributes of an operator. A CustomOp receives them as strings; this is the only place that parses them."""
from __future__ import annotations

import ast
import math
import numbers
import typing

from .errors import OpError

__all__ = ["Attr", "Bool", "Choice", "Float", "Int", "IntOrTuple", "Optional", "Pairs"]


class Beyond64Bits(ValueError):
    """An integer that C++ and CUDA cannot take."""


class Kind:
    """What values an attribute takes. ``parse`` accepts a Python value or its string form."""

    expected = ""

    def parse(self, value: typing.Any) -> typing.Any:
        """Return the typed value; raise ValueError or TypeError where it is not one of this kind."""
        raise TypeError(f"{type(self).__name__} cannot parse {value!r}")

    def text(self, value: typing.Any) -> str:
        """The string form that MXNet stores in the graph and ``parse`` reads back."""
        return str(value)


class Int(Kind):
    """An integer of at least ``low`` (None: any)."""

    def __init__(self, low: int | None = None):
        self.low = low
        self.expected = "an integer" if low is None else f"an integer of at least {low}"

    def parse(self, value: typing.Any) -> typing.Any:
        if isinstance(value, str):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise TypeError
        if not -2 ** 63 <= value < 2 ** 63:
            raise Beyond64Bits
        if self.low is not None and value < self.low:
            raise ValueError
        return int(value)


class Float(Kind):
    """A finite real number, ``above`` a bound or from ``low`` up, ``below`` a bound (None: unbounded)."""

    def __init__(self, low: float | None = None, above: float | None = None, below: float | None = None):
        self.low, self.above, self.below = low, above, below
        bounds = [f"{word} {bound}" for word, bound in (("of at least", low), ("above", above), ("below", below))
                  if bound is not None]
        self.expected = " ".join(["a finite number"] + [" and ".join(bounds)] * bool(bounds))

    def parse(self, value: typing.Any) -> typing.Any:
        if isinstance(value, str):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise TypeError
        value = float(value)
        if (not math.isfinite(value) or (self.low is not None and value < self.low)
                or (self.above is not None and value <= self.above)
                or (self.below is not None and value >= self.below)):
            raise ValueError
        return value

    def text(self, value: typing.Any) -> str:
        return repr(value)


class Bool(Kind):
    """True or False; as a string also 1 and 0. ``bool("False")`` is True: that is why this exists."""

    expected = "True or False"
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
        self.words = words
        self.expected = " or ".join(", ".join(repr(w) for w in words).rsplit(", ", 1))

    def parse(self, value: typing.Any) -> typing.Any:
        if value not in self.words:
            raise ValueError
        return str(value)


class IntOrTuple(Kind):
    """An integer, or a tuple of integers, of at least ``low``."""

    def __init__(self, low: int):
        self.item = Int(low)
        self.expected = f"{self.item.expected}, or a tuple of them"

    def parse(self, value: typing.Any) -> typing.Any:
        if isinstance(value, str):
            if any(character.isalpha() for character in value):   # 0x10
                raise ValueError
            value = ast.literal_eval(value.strip())
        if isinstance(value, (tuple, list)):
            return tuple(self.item.parse(v) for v in value)
        return self.item.parse(value)


class Pairs(Kind):
    """Pairs of finite numbers above 0, as one flat tuple: ``(w0, h0, w1, h1)``. Takes a sequence of pairs as well."""

    expected = "pairs of finite numbers above 0: (w0, h0, w1, h1, ...)"
    item = Float(above=0)

    def parse(self, value: typing.Any) -> typing.Any:
        if isinstance(value, str):
            text = value.strip()
            if text[:1] + text[-1:] in ("()", "[]"):
                text = text[1:-1].strip()
            value = [float(number) for number in (text[:-1] if text.endswith(",") else text).split(",")]
        values = []
        for entry in value:
            values.extend([entry] if isinstance(entry, numbers.Real) else entry)
        if not values or len(values) % 2:
            raise ValueError
        return tuple(self.item.parse(float(number)) for number in values)


class Optional(Kind):
    """Another kind, or None."""

    def __init__(self, kind: Kind):
        self.kind = kind
        self.expected = f"None or {kind.expected}"

    def parse(self, value: typing.Any) -> typing.Any:
        return None if value is None or value == "None" else self.kind.parse(value)

    def text(self, value: typing.Any) -> str:
        return "None" if value is None else self.kind.text(value)


class Attr:
    """An attribute: its name, kind, default and one line of documentation."""

    def __init__(self, name: str, kind: Kind, default: typing.Any, doc: str):
        self.name, self.kind, self.default, self.doc = name, kind, default, doc

    def parse(self, where: str, value: typing.Any) -> typing.Any:
        """Return the typed value, or raise an OpError that says what is allowed."""
        try:
            if isinstance(value, str) and not value.isascii():   # Python takes the digits of every script
                raise ValueError
            return self.kind.parse(value)
        except Beyond64Bits as error:
            raise self._refusal(where, value, "an integer from -2**63 to 2**63 - 1") from error
        except (ValueError, TypeError, OverflowError, SyntaxError, MemoryError, RecursionError) as error:
            raise self._refusal(where, value, self.kind.expected) from error

    def _refusal(self, where: str, value: typing.Any, expected: str) -> OpError:
        return OpError(where, f"{self.name} is {value!r}; expected {expected}", f"Pass another {self.name}")
