"""Expressions of net.py: trees of Python's :mod:`ast`, with places for what is filled in later.

A converter writes one as text. What stands in braces is a place, which Python reads as a set of one element::

    F.relu({0})                     the first input of the step
    torch.cat([*{inputs}], {dim})   all of its inputs, and an attribute of the node
    {self}({0})                     the module that the step calls

In a tree a place is a name in braces, which no variable has. Trees are shared, so nothing changes one: the functions
that replace parts of a tree return a copy.
"""
from __future__ import annotations

import ast
import functools
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

SELF, INPUTS = "self", "inputs"
LARGEST_AXIS = 3   # A number up to it is an axis or a count of parts, and no size.


class Expression:
    """An expression with places. Two are equal if they are written alike."""

    def __init__(self, tree: ast.expr):
        self.tree = tree

    @classmethod
    def of(cls, text: str, inputs: int = 0) -> Expression:
        """Return the expression that a text says, with so many places for ``*{inputs}``."""
        return _expression(text, inputs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Expression.of({self.text!r})"

    @functools.cached_property
    def text(self) -> str:
        return ast.unparse(self.tree)

    @functools.cached_property
    def places(self) -> list[str]:
        """The names of its places, in the order of the text."""
        return places_in(self.tree)

    @property
    def reads(self) -> list[int]:
        """The numbers of the inputs that it reads."""
        return [int(name) for name in self.places if name.isdigit()]

    @property
    def calls_module(self) -> bool:
        return SELF in self.places

    @property
    def function(self) -> str:
        """The function that it calls, such as ``torch.cat``; empty for what is no such call."""
        return function_of(self.tree)

    @functools.cached_property
    def constants(self) -> list[ast.Constant]:
        """The numbers in which blocks of one class may differ, in the order of the text.

        What a call or a tuple begins with is an axis or a count of parts, and so is a number up to 3.
        """
        nodes = list(walk(self.tree))
        indices = {node.slice for node in nodes if isinstance(node, ast.Subscript)}   # These have no parentheses.
        brackets = [node.args if isinstance(node, ast.Call) else node.elts for node in nodes
                    if isinstance(node, (ast.Call, ast.Tuple)) and node not in indices]
        first = {_leftmost(elements[0]) for elements in brackets if elements}
        return [node for node in nodes if isinstance(node, ast.Constant) and node not in first
                and (type(node.value) is float or type(node.value) is int and node.value > LARGEST_AXIS)]

    @functools.cached_property
    def outline(self) -> str:
        """The text without these numbers, which expressions have in common that differ in them only."""
        return outline(self.tree, self.constants)


@functools.lru_cache(2048)   # Nodes of one operator have the same text.
def parsed(text: str) -> ast.expr:
    """Return the tree of a text, in which sets of one element are places."""
    tree = ast.parse(text, mode="eval").body
    return replaced(tree, {node: place(ast.unparse(node.elts[0])) for node in walk(tree) if isinstance(node, ast.Set)})


@functools.lru_cache(2048)
def _expression(text: str, inputs: int) -> Expression:
    tree = parsed(text)
    numbered = [place(str(number)) for number in range(inputs)]
    return Expression(replaced(tree, {node: numbered for node in walk(tree)
                                      if isinstance(node, ast.Starred) and place_of(node.value) == INPUTS}))


def literal(value: Any) -> ast.expr:
    """Return the tree of a number, a string, a tuple, a list or None."""
    return parsed(repr(value))


def call_of(function: str, arguments: Iterable[ast.expr], **options: ast.expr) -> ast.Call:
    """Return the tree of a call."""
    return ast.Call(parsed(function), list(arguments), [ast.keyword(name, value) for name, value in options.items()])


def name_of(text: str) -> ast.Name:
    """Return the tree of a name."""
    return ast.Name(text, ast.Load())


def place(text: str) -> ast.Name:
    """Return the place of this name."""
    return name_of(f"{{{text}}}")


def place_of(node: ast.AST) -> str:
    """Return the name of a place. It is empty for other nodes."""
    return node.id[1:-1] if isinstance(node, ast.Name) and node.id.startswith("{") else ""


def places_in(tree: ast.AST) -> list[str]:
    """Return the names of the places in a tree, in the order of the text."""
    return [place_of(node) for node in walk(tree) if place_of(node)]


def names_in(tree: ast.AST) -> set[str]:
    """Return the names that a program reads."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def walk(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes in a tree, in the order of the text, which is not that of :func:`ast.walk`."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(list(ast.iter_child_nodes(node)))


def replaced(tree: ast.AST, others: Mapping[ast.AST, ast.expr | list[ast.expr]]) -> ast.AST:
    """Return a copy of a tree with other nodes, or lists of them, in place of some."""
    return _Copier(others).visit(tree)


def filled(tree: ast.expr, values: Mapping[str, ast.expr]) -> ast.expr:
    """Return a copy of a tree with a copy of these values in the places of these names."""
    return replaced(tree, {node: replaced(values[place_of(node)], {}) for node in walk(tree)
                           if place_of(node) in values})


def outline(tree: ast.expr, without: Iterable[ast.AST]) -> str:
    """Return the text of a tree without some nodes."""
    return ast.unparse(replaced(tree, dict.fromkeys(without, place("#"))))


def shortened(tree: ast.expr) -> ast.expr:
    """Return a tree that computes the same in fewer words."""
    return _Shortener().visit(replaced(tree, {}))


def text_of(tree: ast.AST) -> str:
    """Return the text of a tree as net.py has it: strings have double quotes."""
    quoted = replaced(tree, {node: name_of(json.dumps(node.value, ensure_ascii=False)) for node in walk(tree)
                             if isinstance(node, ast.Constant) and isinstance(node.value, str)})
    return ast.unparse(ast.fix_missing_locations(quoted))   # It asks definitions and loops for their line.


def spliced(program: str, others: Mapping[ast.expr, str]) -> str:
    """Return the text of a program, with its comments, in which some nodes of its tree have other texts."""
    data = program.encode()
    starts = [0, *itertools.accumulate(len(line) for line in data.splitlines(keepends=True))]
    for node in sorted(others, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        begin, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        data = data[:begin] + others[node].encode() + data[end:]
    return data.decode()


class _Copier(ast.NodeTransformer):
    """Copies a tree with other nodes in place of those in ``others``."""

    def __init__(self, others: Mapping[ast.AST, ast.expr | list[ast.expr]]):
        self.others = others

    def visit(self, node: ast.AST) -> Any:
        if node in self.others:
            return self.others[node]
        if not node._fields:   # An operator is the same everywhere.
            return node
        fields = {field: list(value) if isinstance(value, list) else value for field, value in ast.iter_fields(node)}
        return self.generic_visit(type(node)(**fields))


class _Shortener(ast.NodeTransformer):
    """Writes what several converters make together in fewer words, in place."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Undo the cast of a condition, and leave out a reshape that another one follows."""
        self.generic_visit(node)
        if function_of(node) == "torch.where" and _is_cast_condition(node.args[0]):
            node.args[0] = node.args[0].left.func.value
        elif method_of(node) == "reshape" == method_of(node.func.value) and all(map(_is_number, node.args)):
            node.func.value = node.func.value.func.value
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Write ones that are multiplied by a number as one call."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Mult) and _is_number(node.right) and function_of(node.left) == "torch.ones_like":
            return call_of("torch.full_like", [*node.left.args, node.right])
        return node


def _is_cast_condition(node: ast.expr) -> bool:
    """Return whether it is a comparison, cast to the type of some data, which is compared with 0."""
    return (isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotEq) and method_of(node.left) == "to"
            and ast.unparse(node.comparators[0]) == "0" and isinstance(node.left.func.value, ast.Compare)
            and isinstance(node.left.args[0], ast.Attribute) and node.left.args[0].attr == "dtype")


def function_of(node: ast.expr) -> str:
    """Return the name of the function that is called, such as ``torch.where``. It is empty for what is no such call."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) and _is_name(node.func) else ""


def _is_name(node: ast.expr) -> bool:
    """Return whether it is a name, with attributes or without."""
    return isinstance(node, ast.Name) or isinstance(node, ast.Attribute) and _is_name(node.value)


def method_of(node: ast.expr) -> str:
    """Return the name of the method that is called. It is empty for what is no such call."""
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""


def _is_number(node: ast.expr) -> bool:
    """Return whether it is a number, which may be negative."""
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))


def _leftmost(node: ast.expr) -> ast.expr:
    """Return the operand that the text of an expression begins with."""
    while isinstance(node, (ast.BinOp, ast.Compare)):
        node = node.left
    return node
