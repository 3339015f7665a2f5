"""Writes the attributes of a node in C++: their declarations, and what parses them from the strings of a graph."""
from __future__ import annotations

from typing import NamedTuple

from ...contract.arguments import camel, enumeration_of
from ...contract.attributes import Attr, Bool, Choice, Float, Int, IntOrTuple, Numbers, Optional, Pairs
from .text import listed, quoted


class CppAttribute(NamedTuple):
    """What an attribute is in C++: its type, its default, and its parser from ``native/mxnet/parsing.h``."""
    c_type: str
    default: str
    parser: str


def declaration(operator: str, attr: Attr) -> str:
    """Return the declaration of an attribute's member."""
    cpp = _cpp_attribute(operator, attr)
    return f"{cpp.c_type} {attr.name}{cpp.default and f' = {cpp.default}'};"


def parsing(operator: str, attr: Attr) -> str:
    """Return the expression for an attribute's value, from the strings of a graph."""
    name, parser = attr.name, _cpp_attribute(operator, attr).parser
    return f"node_attributes.get({quoted(name)}, attrs.{name}, {quoted(attr.kind.expected)}, {parser})"


def _cpp_attribute(operator: str, attr: Attr) -> CppAttribute:
    kind = attr.kind
    if isinstance(kind, Choice):
        enumeration = enumeration_of(operator, attr)
        return CppAttribute(f"{enumeration}::Value", f"{enumeration}::{camel(attr.default)}",
                            f"Choice{{{{{listed(map(quoted, kind.words))}}}}}")
    item = kind.kind if isinstance(kind, Optional) else kind
    if type(item) not in _CPP_KINDS:
        raise ValueError(f"{attr.name}: an attribute of kind {type(kind).__name__} cannot be written in C++")
    c_type, write, parser = _CPP_KINDS[type(item)]
    default = "" if attr.default is None else write(attr.default)
    if item is kind:
        return CppAttribute(c_type, default, parser(item))
    return CppAttribute(c_type if isinstance(item, Pairs) else f"std::optional<{c_type}>", default and f"{{{default}}}",
                        f"OrNone{{{parser(item)}}}")


def _integers(default: int | tuple) -> str:
    is_tuple = isinstance(default, tuple)
    return f"{{{str(is_tuple).lower()}, {_list(default if is_tuple else (default,))}}}"


def _list(values: tuple) -> str:
    return f"{{{listed(map(repr, values))}}}"


def _number(kind: Float) -> str:
    """Return the parser of a number within its bounds."""
    low, above = ("-INFINITY" if bound is None else repr(float(bound)) for bound in (kind.low, kind.above))
    below = "INFINITY" if kind.below is None else repr(float(kind.below))
    return f"Float{{{low}, {above}, {below}}}"


_CPP_KINDS = {   # by kind: the type, what writes a value, and what writes the parser
    Int: ("int64_t", str, lambda kind: "Int{}" if kind.low is None else f"Int{{{kind.low}}}"),
    Float: ("double", lambda value: repr(float(value)), _number),
    Bool: ("bool", lambda value: str(value).lower(), lambda kind: "Bool{}"),
    IntOrTuple: ("Integers", _integers, lambda kind: f"IntOrTuple{{{kind.item.low}}}"),
    Numbers: ("std::vector<double>", _list, lambda kind: f"Numbers{{{_number(kind.item)}}}"),
    Pairs: ("std::vector<double>", _list, lambda kind: f"Numbers{{{_number(kind.item)}, 2}}"),
}
