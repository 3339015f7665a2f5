"""Lines of C++: literals, lists and functions."""
from __future__ import annotations

from collections.abc import Iterable

INDENT = "    "
WIDTH = 116


def quoted(text: str) -> str:
    """Return a C++ string literal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def listed(items: Iterable[str]) -> str:
    """Return the items, separated by commas."""
    return ", ".join(items)


def indented(lines: Iterable[str], levels: int = 1) -> list[str]:
    """Return lines with an indent, except for empty ones."""
    return [INDENT * levels + line if line else "" for line in lines]


def function(signature: str, body: Iterable[str]) -> list[str]:
    """Return a C++ function."""
    return [signature, "{", *indented(body), "}"]


def of_attrs(signature: str, arguments: Iterable[str], body: Iterable[str], struct: str = "Attrs") -> list[str]:
    """Return a C++ function of an operator's table: its first argument is the operator's attributes, ``attrs``."""
    return function(f"{signature}({listed(['const void *pointer', *arguments])})",
                    [f"[[maybe_unused]] const {struct} &attrs = *static_cast<const {struct} *>(pointer);", *body])


def itemized(opening: str, items: Iterable[str], closing: str) -> list[str]:
    """Return ``opening item, item, ... closing``, with one item per line if they do not fit on one line."""
    line = opening + listed(items) + closing
    if len(line) <= WIDTH:
        return [line]
    return [opening, *indented([f"{item}," for item in items]), closing]
