"""Expressions over attributes, as contracts write them: ``mode == 'darknet' and not reverse``.

An expression is data: Python evaluates it here, and ``gluonops/native/generate.py`` translates the same syntax tree to
C++. Names stand for attributes and, in derived numbers, for dimensions and for each other. There are numbers, strings,
None, comparisons, ``and``, ``or``, ``not``, ``+ - * / //``, ``a if condition else b``, ``tensor.ndim``, ``tensor.size``
(the number of its elements), ``tensor.samples`` (the size of its first axis) and the functions in ``FUNCTIONS``.
"""
from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Mapping
from typing import Any

_NODES = (ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp, ast.Add, ast.Sub,
          ast.Mult, ast.Div, ast.FloorDiv, ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is,
          ast.IsNot, ast.IfExp, ast.Name, ast.Load, ast.Constant, ast.Attribute, ast.Call)
FUNCTIONS = {"len": len, "floor": math.floor, "is_tuple": lambda value: isinstance(value, tuple), "min": min,
             "max": max, "cos": math.cos, "sin": math.sin}
# All names that an expression sees besides its values.
_GLOBALS = {"__builtins__": {}, **FUNCTIONS}
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")   # an expression in a text


class Expression:
    """One expression; call it with a mapping of names to values.

    - ``text``: the expression in Python's own spacing.
    - ``names``: the names for which it needs values.

    The constructor raises a ValueError if the text is not an expression, or uses more of Python than this module names.
    """

    def __init__(self, text: str):
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except SyntaxError as error:
            raise ValueError(f"{text!r} is not an expression") from error
        for node in ast.walk(tree):
            if not isinstance(node, _NODES):
                raise ValueError(f"{text!r}: {type(node).__name__} is not allowed in a contract")
            if isinstance(node, ast.Attribute) and node.attr not in ("ndim", "size", "samples"):
                raise ValueError(f"{text!r}: a tensor has .ndim, .size and .samples only")
        self.tree = tree.body
        self.text = ast.unparse(tree)
        identifiers = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        self.names = frozenset(identifiers - set(FUNCTIONS))
        self._code = compile(tree, "<contract>", "eval")

    def __call__(self, values: Mapping[str, Any]) -> Any:
        return eval(self._code, _GLOBALS, values)   # the syntax tree was checked above


@functools.cache
def expression(text: str) -> Expression:
    """Return the expression in a text. It is parsed once, so that equal texts are one object."""
    return Expression(text)


def fill_in(text: str, values: dict) -> str:
    """Return a text such as ``"axis is {axis}"`` with the values of the expressions in braces."""
    return PLACEHOLDER.sub(lambda match: str(expression(match[1])(values)), text)


def dtype_of(node: ast.AST, types: Mapping[str, str]) -> str:
    """Return the dtype of an expression: bool, int64 or float64, from that of each name.

    Raise a ValueError if a name has none.
    """
    if isinstance(node, ast.Constant):
        return {bool: "bool", int: "int64"}.get(type(node.value), "float64")
    if isinstance(node, ast.Name):
        if node.id not in types:
            raise ValueError(f"{node.id!r} is neither an attribute nor a number")
        return types[node.id]
    if isinstance(node, (ast.Compare, ast.BoolOp)):
        return "bool"
    if isinstance(node, ast.UnaryOp):
        return "bool" if isinstance(node.op, ast.Not) else dtype_of(node.operand, types)
    if isinstance(node, ast.Attribute):
        return "int64"
    if isinstance(node, ast.Call) and node.func.id not in ("min", "max"):
        return {"len": "int64", "floor": "int64", "is_tuple": "bool"}.get(node.func.id, "float64")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return "float64"
    if isinstance(node, ast.Call):
        parts = node.args
    else:
        parts = (node.body, node.orelse) if isinstance(node, ast.IfExp) else (node.left, node.right)
    dtypes = {dtype_of(part, types) for part in parts}
    return "float64" if "float64" in dtypes else "int64" if "int64" in dtypes else "bool"
