"""Statements of net.py: trees of Python's :mod:`ast`, and the printer that makes the file of them.

:mod:`ast` knows neither comments nor blank lines nor the width of a page. So the printer puts blank lines between
definitions and breaks long lines, and a definition may be a text in place of a tree, which the file has as it is: the
functions of ``snippets.txt`` and of its neighbours have comments, and lines that were broken by hand.
"""
from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Mapping
from typing import Union

from .expressions import call_of, literal, names_in, text_of

Statement = Union[ast.stmt, str]
WIDTH = 100
INDENT = 4
LONGEST_TUPLE = 70    # characters of a tuple that may be broken inside of an element only
# What net.py may import, in groups. It has the imports of which it reads a name.
IMPORTS = [ast.parse(group).body for group in (
    "import json\nimport math\nfrom pathlib import Path\nfrom typing import Optional",
    "import torch\nimport torch.nn.functional as F\nfrom torch import nn")]


# -- what statements are made of --------------------------------------------------------------------------------------
def assigned(target: str, value: ast.expr) -> ast.Assign:
    """Return an assignment to what a text names: a variable, several of them, or an attribute."""
    made = ast.parse(f"{target} = None").body[0]
    made.value = value
    return made


def called(function: str, arguments: Iterable[ast.expr] = ()) -> ast.Expr:
    """Return a call as a statement."""
    return ast.Expr(call_of(function, arguments))


def method(name: str, arguments: Mapping[str, ast.expr | None], body: list[ast.stmt]) -> ast.FunctionDef:
    """Return a method. ``arguments``: name -> default, None for those without one, which come first."""
    names = [ast.arg(argument) for argument in ("self", *arguments)]
    defaults = [default for default in arguments.values() if default is not None]
    signature = ast.arguments(posonlyargs=[], args=names, kwonlyargs=[], kw_defaults=[], defaults=defaults)
    return ast.FunctionDef(name, signature, body, decorator_list=[])


def class_of(name: str, base: ast.expr, methods: list[ast.stmt]) -> ast.ClassDef:
    """Return a class."""
    return ast.ClassDef(name, [base], keywords=[], body=methods, decorator_list=[])


def repeated(statement: ast.stmt, count: int) -> ast.For:
    """Return a loop that runs a statement so many times."""
    return ast.For(ast.Name("_", ast.Store()), call_of("range", [literal(count)]), [statement], orelse=[])


def definition_of(statement: Statement) -> ast.stmt:
    """Return the tree of a statement, which may be a text."""
    return ast.parse(statement).body[0] if isinstance(statement, str) else statement


def names_read(statements: Iterable[Statement]) -> set[str]:
    """Return the names that statements read."""
    return set().union(*(names_in(definition_of(statement)) for statement in statements))


def name_bound(statement: ast.Import | ast.ImportFrom) -> str:
    """Return the name that an import of one thing makes."""
    alias, = statement.names
    return alias.asname or alias.name


IMPORTED = frozenset(name_bound(statement) for group in IMPORTS for statement in group)


# -- the printer ------------------------------------------------------------------------------------------------------
def module_text(docstring: str, imports: Iterable[list[ast.stmt]], body: list[Statement]) -> str:
    """Return the text of a module. ``imports`` are groups, with a blank line in front of each."""
    summary = ast.unparse(ast.Module([ast.Expr(ast.Constant(docstring))], type_ignores=[]))
    begin = "\n\n".join([summary, *("\n".join(map(_text_of, group)) for group in imports if group)])
    return begin + "\n\n\n" + statements_text(body) + "\n"


def statements_text(statements: list[Statement]) -> str:
    """Return the text of the statements of a module, with two blank lines around each definition."""
    lines = []
    for before, statement in zip([None, *statements], statements):
        is_beside_simple = _is_simple(before) and _is_simple(statement)
        lines += [] if before is None or is_beside_simple else ["", ""]
        lines += lines_of(statement, 0)
    return "\n".join(lines)


def lines_of(statement: Statement, indent: int) -> list[str]:
    """Return the lines of a statement. A text is one of them, whatever it has."""
    if isinstance(statement, str):
        return [statement]
    if _is_simple(statement):
        return broken(_text_of(statement), indent)
    lines = broken(_header_of(statement), indent)
    for before, inner in zip([None, *statement.body], statement.body):
        lines += [""] if isinstance(before, ast.FunctionDef) else []
        lines += lines_of(inner, indent + INDENT)
    return lines


def _is_simple(statement: Statement | None) -> bool:
    """Return whether a statement has no statements in it. A text is a definition."""
    return isinstance(statement, ast.stmt) and not hasattr(statement, "body")


def _header_of(statement: ast.stmt) -> str:
    """Return the first line of a class, a method or a loop."""
    fields = {**dict(ast.iter_fields(statement)), "body": [ast.Pass()]}
    return text_of(type(statement)(**fields)).strip().partition("\n")[0]


def _text_of(statement: ast.stmt) -> str:
    """Return the text of a simple statement. The parentheses of tuples are left out, as in ``x, y = y, x``."""
    if isinstance(statement, ast.Assign):
        target, = statement.targets
        variables = target.elts if isinstance(target, ast.Tuple) else [target]
        return f"{', '.join(map(text_of, variables))} = {bare(statement.value)}"
    return f"return {bare(statement.value)}" if isinstance(statement, ast.Return) else text_of(statement)


def bare(tree: ast.expr) -> str:
    """Return the text of a value that a statement has. A long tuple keeps its parentheses."""
    text = text_of(tree)
    return text[1:-1] if isinstance(tree, ast.Tuple) and len(text) < LONGEST_TUPLE else text


def broken(line: str, indent: int) -> list[str]:
    """Return a line with an indent. A long one is broken at the commas of its outermost brackets."""
    begin, *commas, end = _brackets(line) if indent + len(line) > WIDTH else (None, None)
    if begin is None:
        return [" " * indent + line]
    whole = line[begin + 1:end]
    parts = [line[first + 1:last].strip() for first, last in zip([begin, *commas], [*commas, end])]
    is_group = begin == 0 or not (line[begin - 1].isalnum() or line[begin - 1] in "_])")   # no tuple of one
    comma = "" if len(parts) == 1 and (is_group or " for " in whole and not whole.startswith("*")) else ","
    fits = "(" not in whole and indent + INDENT + len(whole) < WIDTH
    inside = [whole] if fits else [part + comma for part in parts if part]
    return [" " * indent + line[:begin + 1], *(inner for part in inside for inner in broken(part, indent + INDENT)),
            " " * indent + line[end:]]


def _brackets(line: str) -> list[int | None]:
    """Return the positions of the longest outermost pair of brackets, and between them those of the commas in it."""
    depth, pairs = 0, [[None, None]]
    for token in tokenize.generate_tokens(io.StringIO(line).readline):
        mark, position = token.string, token.start[1]
        if token.type != tokenize.OP:
            continue
        depth -= mark in ")]}"
        if mark in "([{" and depth == 0:
            pairs.append([position])
        elif mark in ")]}" and depth == 0 or mark == "," and depth == 1:
            pairs[-1].append(position)
        depth += mark in "([{"
    return max(pairs[1:], key=lambda pair: pair[-1] - pair[0], default=pairs[0])
