"""The operator as MXNet sees it: parsing, types, shapes, error conditions, checks of values, and its registration."""
from __future__ import annotations

import ast

from ...contract.arguments import camel
from ...contract.declarations import Arg, Rows
from ...contract.expressions import expression
from ...contract.op import Op
from .attributes import parsing
from .expressions import Translator, input_of
from .shapes import Patterns, size_of
from .text import INDENT, function, indented, itemized, listed, quoted


class Registration:
    """Writes ``struct <Op>Operator`` and what registers it."""

    def __init__(self, op: Op):
        self.op = op
        self.condition = Translator(op)

    def lines(self) -> list[str]:
        """The struct and its registration."""
        op, name = self.op, camel(self.op.name)
        return [
            f"struct {name}Operator {{", *indented([
                f"typedef {name}Attrs Attrs;",
                f'static constexpr const char *NAME = "{op.name}";',
                f"enum {{ INPUTS = {len(op.inputs)}, OUTPUTS = {len(op.outputs)} }};", "",
                *self._attributes(), "", *self._parse(), "", *self._tensors(), "", *self._types(), "",
                *Patterns(op).lines(), "", *self._forward(), "", *self._backward(),
            ]), "};", "", f"GLUONOPS_REGISTER_OP({op.graph_name}, {name}Operator)"]

    def _attributes(self) -> list[str]:
        names = [quoted(attr.name) for attr in self.op.attrs]
        return function("static std::vector<const char *> attributes()", itemized("return {", names, "};"))

    def _parse(self) -> list[str]:
        body = ["Attrs attrs;"]
        body += [f"attrs.{attr.name} = {parsing(self.op.name, attr)};" for attr in self.op.attrs]
        body += [*self.condition.refusals(reads_ndim=False), "return attrs;"]
        return function("static Attrs parse(const Attributes &given)", body)

    def _tensors(self) -> list[str]:
        pairs = [f"{{{quoted(t.name)}, {self._variable(t.dtype)}}}" for t in self.op.tensors]
        return function("static Tensors tensors(const Attrs &attrs)", itemized("return {", pairs, "};"))

    def _variable(self, text: str) -> str:
        tree = expression(text).tree
        if isinstance(tree, ast.Name):
            return f"'{tree.id}'"
        return f"{self.condition.visit(tree.test)} ? '{tree.body.id}' : '{tree.orelse.id}'"

    def _types(self) -> list[str]:
        variables = [f"{{'{variable}', {{{listed(map(str.upper, dtypes))}}}}}"
                     for variable, dtypes in self.op.types.items()]
        body = itemized("static const TypeVariables variables = {", variables, "};")
        return function("static const TypeVariables &types()", [*body, "return variables;"])

    def _forward(self) -> list[str]:
        checks = []
        for arg in self.op.inputs:
            if arg.values:
                checks += self._check_rows(arg) if isinstance(arg.values, Rows) else self._check_indices(arg)
        if checks:
            checks = ["if (checking_values()) {", *indented(checks), "}"]
        return function("static void forward(const Attrs &attrs, Arrays inputs, Arrays outputs)",
                        [*checks, f"{self.op.name}_forward(attrs, inputs, outputs);"])

    def _check_indices(self, arg: Arg) -> list[str]:
        values = arg.values
        ignore = f", attrs.{values.ignore}, {quoted(values.ignore)}" if values.ignore else ""
        size = size_of(self.op, self.op.rules[-1], values.dimension)
        call = f"check_indices(NAME, {quoted(arg.name)}, {input_of(self.op, arg.name)}, {size}{ignore});"
        return [call] if values.when is None else [f"if ({self.condition(values.when)})", INDENT + call]

    def _check_rows(self, arg: Arg) -> list[str]:
        rows = arg.values
        columns = [f"const double {column} = row[{i}];" for i, column in enumerate(rows.columns)]
        first, *others = Translator(self.op, rows.columns)(rows.valid).split(" && ")
        valid = [f"return {first}", *[f"       && {condition}" for condition in others]]
        axes = listed([quoted(axis) for axis in rows.axes])
        return ["const auto valid = [&](const double *row) {",
                *indented([*columns, *valid[:-1], f"{valid[-1]};"]), "};",
                f"check_rows(NAME, {quoted(arg.name)}, {input_of(self.op, arg.name)}, valid, {{{{{axes}}},",
                *indented([f"{self.condition.filled(rows.expected)},", f"{quoted(rows.remedy)}}});"], 2)]

    def _backward(self) -> list[str]:
        arrays = ("grads", "inputs", "outputs", "results")
        return function(f"static void backward(const Attrs &attrs, {listed([f'Arrays {name}' for name in arrays])})",
                        [f"{self.op.name}_backward(attrs, {listed(arrays)});", *self._cleared()])

    def _cleared(self) -> list[str]:
        """Zeros for the inputs that have no gradient."""
        lines = []
        for i, arg in enumerate(self.op.inputs):
            if isinstance(arg.gradient, str):
                lines += [f"if ({self._negated(arg.gradient)})", f"{INDENT}clear(results[{i}]);"]
            elif not arg.gradient:
                lines.append(f"clear(results[{i}]);")
        return lines

    def _negated(self, text: str) -> str:
        tree = expression(text).tree
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
            return self.condition.visit(tree.operand)
        return f"!({self.condition.visit(tree)})"
