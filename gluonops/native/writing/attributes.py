"""The attributes of a node in C++: their declarations, and what parses them from the strings of a graph."""
from __future__ import annotations

from typing import NamedTuple

from ...core.arguments import camel, enumeration_of
from ...core.attributes import Attr, Bool, Choice, Float, Int, IntOrTuple, Numbers, Optional, Pairs
from .text import listed, quoted


class Attribute(NamedTuple):
    """The C++ of an attribute: the member, with its default, and the expression that parses it."""
    declaration: str
    parsing: str


def attribute(operator: str, attr: Attr) -> Attribute:
    """The C++ of an attribute of an operator."""
    kind = attr.kind
    if isinstance(kind, Choice):
        return _choice(operator, attr)
    forms, kind = (_OPTIONAL_FORMS, kind.kind) if isinstance(kind, Optional) else (_FORMS, kind)
    if type(kind) not in forms:
        raise ValueError(f"{attr.name}: an attribute of kind {type(attr.kind).__name__} has no form in C++")
    return forms[type(kind)](attr.name, kind, attr.default)


def _form(name: str, c_type: str, default: str, method: str, *arguments: str) -> Attribute:
    """``method`` of the strings of a graph parses it. Its arguments are the name, the default, and these."""
    member = f"{c_type} {name} = {default};" if default else f"{c_type} {name};"
    return Attribute(member, f"given.{method}({listed([quoted(name), f'attrs.{name}', *arguments])})")


def _choice(operator: str, attr: Attr) -> Attribute:
    enumeration, name = enumeration_of(operator, attr), attr.name
    words = listed(map(quoted, attr.kind.words))
    return Attribute(f"{enumeration}::Value {name} = {enumeration}::{camel(attr.default)};",
                     f'{enumeration}::Value(given.choice("{name}", int(attrs.{name}), {{{words}}}))')


def _int(name: str, kind: Int, default: int) -> Attribute:
    return _form(name, "int64_t", str(default), "integer", *_lowest(kind))


def _float(name: str, kind: Float, default: float) -> Attribute:
    return _form(name, "double", repr(float(default)), "number", _bounds(kind, kind.expected))


def _bool(name: str, kind: Bool, default: bool) -> Attribute:
    return _form(name, "bool", str(default).lower(), "boolean")


def _int_or_tuple(name: str, kind: IntOrTuple, default: int | tuple) -> Attribute:
    is_tuple = isinstance(default, tuple)
    values = default if is_tuple else (default,)
    text = f"{{{str(is_tuple).lower()}, {{{listed(map(str, values))}}}}}"
    return _form(name, "Integers", text, "integers", str(kind.item.low))


def _pairs(name: str, kind: Pairs, default: tuple) -> Attribute:
    return _form(name, "std::vector<double>", f"{{{listed(map(repr, default))}}}", "pairs")


def _optional_int(name: str, kind: Int, default: int | None) -> Attribute:
    return _form(name, "std::optional<int64_t>", _or_none(default), "optional_integer", *_lowest(kind))


def _optional_float(name: str, kind: Float, default: float | None) -> Attribute:
    bounds = _bounds(kind, Optional(kind).expected)
    return _form(name, "std::optional<double>", _or_none(default), "optional_number", bounds)


def _optional_numbers(name: str, kind: Numbers, default: tuple | None) -> Attribute:
    text = "" if default is None else f"{{{{{listed(map(repr, default))}}}}}"
    bounds = f"{{{quoted(kind.expected)}, {_number(kind.item.low)}}}"
    return _form(name, "std::optional<std::vector<double>>", text, "optional_numbers", bounds)


def _optional_pairs(name: str, kind: Pairs, default: None) -> Attribute:
    return Attribute(f"std::vector<double> {name};   // empty for None", f'given.optional_pairs("{name}")')


def _lowest(kind: Int) -> list[str]:
    return [] if kind.low is None else [str(kind.low)]


def _bounds(kind: Float, expected: str) -> str:
    """The bounds of a number, and what an error says of them."""
    low = "-INFINITY" if kind.low is None else _number(kind.low)
    above = "-INFINITY" if kind.above is None else _number(kind.above)
    return f"{{{quoted(expected)}, {low}, {above}, {_number(kind.below)}}}"


def _number(value: float | None) -> str:
    """A number, or infinity for None."""
    return "INFINITY" if value is None else repr(float(value))


def _or_none(value: float | None) -> str:
    return "" if value is None else str(value)


_FORMS = {Int: _int, Float: _float, Bool: _bool, IntOrTuple: _int_or_tuple, Pairs: _pairs}
_OPTIONAL_FORMS = {Int: _optional_int, Float: _optional_float, Numbers: _optional_numbers, Pairs: _optional_pairs}
