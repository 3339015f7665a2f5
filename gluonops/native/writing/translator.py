"""Translates the expressions of a contract to C++."""
from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from ...contract.arguments import Arguments, camel, enumeration_of, types_of_names
from ...contract.attributes import IntOrTuple, Optional, Pairs
from ...contract.declarations import Number
from ...contract.expressions import PLACEHOLDER, Expression, dtype_of, expression
from ...contract.op import Op
from .text import INDENT, indented, listed, quoted

OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=",
             ast.Gt: ">", ast.GtE: ">=", ast.And: "&&", ast.Or: "||"}


class Translator(ast.NodeVisitor):
    """Translates an expression. Names in ``locals_`` are variables, all others attributes."""

    def __init__(self, op: Op, locals_: Iterable[str] = ()):
        self.op = op
        self.attributes = {attr.name: attr for attr in op.attrs}
        self.locals = set(locals_)

    def __call__(self, text: str | Expression) -> str:
        return self.visit((expression(text) if isinstance(text, str) else text).tree)

    def filled(self, text: str) -> str:
        """Return the C++ expression for a text in which the values of the expressions in braces are filled in."""
        pieces = [f"value_text({self(part)})" if i % 2 else quoted(part)   # every second one is an expression
                  for i, part in enumerate(PLACEHOLDER.split(text)) if part]
        first, *others = pieces
        if others and first.startswith('"'):
            first = f"std::string({first})"
        return " + ".join([first, *others])

    def refusals(self, reads_ndim: bool) -> Iterator[str]:
        """Yield the lines that refuse combinations of attributes, with or without numbers of dimensions."""
        for refused in self.op.refused:
            if refused.reads_ndim == reads_ndim:
                yield from [f"if ({self(refused.when)})", f"{INDENT}refuse(NAME,"]
                yield from indented([f"{self.filled(refused.what)},", f"{self.filled(refused.remedy)});"], 4)

    def is_a(self, node: ast.Name, kind: type) -> bool:
        """Return whether a name is that of an attribute of this kind."""
        return isinstance(self.attributes[node.id].kind, kind)

    def _operand(self, node: ast.AST) -> str:
        text = self.visit(node)
        return f"({text})" if isinstance(node, (ast.BinOp, ast.BoolOp, ast.IfExp, ast.Compare)) else text

    def visit_Constant(self, node: ast.Constant) -> str:
        if isinstance(node.value, bool):
            return str(node.value).lower()
        return quoted(node.value) if isinstance(node.value, str) else repr(node.value)

    def visit_Name(self, node: ast.Name) -> str:
        return node.id if node.id in self.locals else f"attrs.{node.id}"

    def visit_Attribute(self, node: ast.Attribute) -> str:
        return f"{node.value.id}_ndim"

    def visit_UnaryOp(self, node: ast.UnaryOp) -> str:
        return ("!" if isinstance(node.op, ast.Not) else "-") + self._operand(node.operand)

    def visit_BoolOp(self, node: ast.BoolOp) -> str:
        operands = [f"({self.visit(value)})" if isinstance(value, (ast.BoolOp, ast.IfExp)) else self.visit(value)
                    for value in node.values]
        return f" {OPERATORS[type(node.op)]} ".join(operands)

    def visit_BinOp(self, node: ast.BinOp) -> str:
        return f"{self._operand(node.left)} {OPERATORS[type(node.op)]} {self._operand(node.right)}"

    def visit_IfExp(self, node: ast.IfExp) -> str:
        return f"{self._operand(node.test)} ? {self._operand(node.body)} : {self._operand(node.orelse)}"

    def visit_Compare(self, node: ast.Compare) -> str:
        operands = [node.left, *node.comparators]
        return " && ".join(map(self._comparison, operands, node.ops, operands[1:]))

    def _comparison(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> str:
        if isinstance(operator, (ast.Is, ast.IsNot)):
            negation = "!" if isinstance(operator, ast.Is) else ""
            return f"{negation}attrs.{left.id}.has_value()"
        if isinstance(right, ast.Constant) and isinstance(right.value, str):
            word = f"{enumeration_of(self.op.name, self.attributes[left.id])}::{camel(right.value)}"
            return f"{self.visit(left)} {OPERATORS[type(operator)]} {word}"
        return f"{self._operand(left)} {OPERATORS[type(operator)]} {self._operand(right)}"

    def visit_Call(self, node: ast.Call) -> str:
        argument = node.args[0]
        if node.func.id in ("floor", "cos", "sin"):
            return f"{node.func.id}({self.visit(argument)})"
        if node.func.id == "is_tuple":
            return f"{self.visit(argument)}.is_tuple"
        values = ".values" if self.is_a(argument, IntOrTuple) else ""
        return f"int64_t({self.visit(argument)}{values}.size())"


class SizeTranslator(Translator):
    """Translates to integers that do not overflow. A list of pairs stands for the number of its pairs."""

    def visit_Name(self, node: ast.Name) -> str:
        if self.is_a(node, Pairs):
            return f"Wide(int64_t(attrs.{node.id}.size() / 2))"
        values = ".values[0]" if self.is_a(node, IntOrTuple) else ""
        return f"Wide(attrs.{node.id}{values})"


class NumberTranslator(Translator):
    """Translates a derived number, an expression over attributes and over the other members of the record."""

    def __init__(self, op: Op, derived: Mapping[str, Number]):
        super().__init__(op)
        self.members = {name: f"args.{name}" for name in (*op.dims, *derived)}
        self.members.update((name, name) for name in op.constants)
        self.types = types_of_names(op, derived)

    def visit_Name(self, node: ast.Name) -> str:
        if node.id in self.members:
            return self.members[node.id]
        if node.id not in self.attributes:
            raise ValueError(f"{self.op.name}: {node.id!r} is neither an attribute nor a number")
        return f"*attrs.{node.id}" if self.is_a(node, Optional) else f"attrs.{node.id}"

    def visit_Attribute(self, node: ast.Attribute) -> str:
        return f"{input_of(self.op, node.value.id)}.{node.attr}()"

    def visit_BinOp(self, node: ast.BinOp) -> str:
        if isinstance(node.op, ast.FloorDiv):
            if "float64" in (dtype_of(node.left, self.types), dtype_of(node.right, self.types)):
                raise ValueError(f"{self.op.name}: {ast.unparse(node)} divides numbers that are not whole")
            return f"{self._operand(node.left)} / {self._operand(node.right)}"
        if isinstance(node.op, ast.Div):
            return f"double({self.visit(node.left)}) / double({self.visit(node.right)})"
        return super().visit_BinOp(node)

    def visit_Call(self, node: ast.Call) -> str:
        if node.func.id in ("min", "max"):
            c_type = Arguments.c_type(dtype_of(node, self.types))
            return f"std::{node.func.id}<{c_type}>({listed(map(self.visit, node.args))})"
        if node.func.id == "len" and self.is_a(node.args[0], Optional):
            return f"int64_t(attrs.{node.args[0].id}->size())"
        return super().visit_Call(node)


def input_of(op: Op, tensor: str) -> str:
    """Return the C++ expression for an input."""
    return f"inputs[{[arg.name for arg in op.inputs].index(tensor)}]"
