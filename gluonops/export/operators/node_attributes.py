"""The attributes of a node, which are text, as a complete record: parsed as MXNet does, with MXNet's defaults.

>>> attributes_of(Node("LRN", "norm", {"nsize": "5"}))
{'alpha': 0.0001, 'beta': 0.75, 'knorm': 2.0, 'nsize': 5}
"""
from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ...contract import registry
from ...contract.errors import OpError, naming, quoted
from ...runtime.near import perhaps
from ..graph import Node, is_mark, is_ours, our_name
from . import schema

TRUE, FALSE = ("true", "1"), ("false", "0")
INTEGER = re.compile(r"[+-]?\d+")
NONE = "None"
EXPECTED = {"int": "an integer", "count": "an integer of at least 0", "float": "a number", "double": "a number",
            "bool": "True or False", "shape": "integers such as (1, 2)", "shapes": "pairs such as ((1, 2), (0, 0))",
            "floats": "numbers such as (0.1, 0.2)", "doubles": "numbers such as (0.1, 0.2)"}


def attributes_of(node: Node) -> Mapping[str, Any]:
    """All attributes of a node, by name.

    The marks of a node, such as ``__lr_mult__``, are not among them.

    Raises
    ------
    OpError
        MXNet 1.9.1 has no such operator, the operator has no such attribute, or a value is none that it takes.
    """
    if is_ours(node):
        with naming(f"the node {quoted(node.name)}"):
            return registry.get(our_name(node)).op.parse(node.options())._asdict()
    return _record(node.op, node.name, tuple(node.attrs.items()))


@functools.lru_cache(maxsize=4096)
def _record(op: str, name: str, attrs: tuple[tuple[str, str], ...]) -> Mapping[str, Any]:
    """The record of a node of one of MXNet's operators, which is parsed once."""
    operator, where = schema.find(op), f"the node {quoted(name)} ({op})"
    if operator is None:
        raise OpError("export", f"{where} is not an operator of MXNet 1.9.1", "Export the net again")
    texts = {key: text for key, text in attrs if not is_mark(key)}
    for key in texts:
        if key not in operator.attributes and not operator.open:
            raise OpError("export", f"{where} has the attribute {quoted(key)}; expected "
                          f"{', '.join(operator.attributes) or 'none'}",
                          perhaps(key, operator.attributes) or "Export the net again")
    lacking = [key for key, attribute in operator.attributes.items() if attribute.required and key not in texts]
    if lacking:
        raise OpError("export", f"{where} lacks the attribute {lacking[0]}", "Export the net again")
    return MappingProxyType({key: _value(where, key, attribute, texts[key]) if key in texts else attribute.default
                             for key, attribute in operator.attributes.items()})


def _value(where: str, name: str, attribute: schema.Attribute, text: str) -> Any:
    """The value of an attribute. An OpError if MXNet does not take its text."""
    text = text if attribute.type in ("string", "choice") else text.strip()
    if text == NONE and attribute.none:
        return None
    try:
        if attribute.type != "choice":
            return PARSERS[attribute.type](text)
        if text in attribute.choices:
            return text
    except ValueError:
        pass
    expected = ", ".join(attribute.choices) or EXPECTED[attribute.type]
    raise OpError("export", f"{where} has {name} {quoted(text)}; expected "
                  f"{expected}{' or None' if attribute.none else ''}", "Export the net again")


def _int(text: str) -> int:
    if not INTEGER.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _count(text: str) -> int:
    number = _int(text)
    if number < 0:
        raise ValueError(text)
    return number


def _float(text: str) -> float:
    if "_" in text:   # Python reads 1_000
        raise ValueError(text)
    return float(text)


def _bool(text: str) -> bool:
    if text.lower() not in TRUE + FALSE:
        raise ValueError(text)
    return text.lower() in TRUE


def _tuple(text: str, parse: Callable[[str], Any]) -> tuple:
    """MXNet reads (1, 2), [1, 2], (1,), (1L, 2L), a single number, and None, which is a shape that is not known."""
    if text == NONE:
        return ()
    if text[:1] not in ("(", "["):
        return (parse(text),)
    if text[-1:] not in (")", "]"):
        raise ValueError(text)
    items = [item.strip() for item in text[1:-1].split(",")]
    if not items[-1]:
        items.pop()
    return tuple(map(parse, items))


def _size(text: str) -> int | None:
    """A size of a shape. Python 2 wrote 3L."""
    return None if text == NONE else _int(text[:-1] if text.endswith("L") else text)


def _shapes(text: str) -> tuple:
    if not re.fullmatch(r"[(\[].*[)\]]", text):
        raise ValueError(text)
    return tuple(_tuple(part, _size) for part in re.findall(r"[(\[][^()\[\]]*[)\]]", text[1:-1]))


PARSERS = {"int": _int, "count": _count, "float": _float, "double": _float, "bool": _bool, "string": str,
           "shape": lambda text: _tuple(text, _size), "shapes": _shapes, "floats": lambda text: _tuple(text, _float),
           "doubles": lambda text: _tuple(text, _float)}
