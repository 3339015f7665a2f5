"""Writes an operator as MXNet sees it: parsing, types, shapes, error conditions, checks of values, and registration."""
from __future__ import annotations

import ast

from ...contract.arguments import camel
from ...contract.declarations import Arg, ValidRows
from ...contract.expressions import expression
from ...contract.op import Op
from .cpp_attributes import parsing
from .patterns import Patterns, size_of
from .text import INDENT, function, indented, itemized, listed, of_attrs, quoted
from .translator import Translator, input_of


class OperatorTable:
    """Writes the namespace with an operator's functions and its table, and what registers it."""

    def __init__(self, op: Op):
        self.op = op
        self.condition = Translator(op)

    def lines(self) -> list[str]:
        """Return the namespace and its registration."""
        op, space = self.op, f"{self.op.name}_operator"
        check, clear = self._check(), self._clear()
        table = [f"const Operator OPERATOR = {{NAME, {len(op.inputs)}, {len(op.outputs)},",
                 f"{INDENT}attributes, parse, tensors, types, shapes,",
                 f"{INDENT}{'check' if check else 'nullptr'}, {'clear' if clear else 'nullptr'},",
                 f"{INDENT}{op.name}_forward, {op.name}_backward}};"]
        functions = [self._attributes(), self._parse(), self._tensors(), self._types(), Patterns(op).lines(),
                     check, clear]
        return [f"namespace {space} {{", "", f"typedef {camel(op.name)}Attrs Attrs;",
                f'const char NAME[] = "{op.name}";', "",
                *[line for lines in functions if lines for line in [*lines, ""]], *table, "",
                f"}}  // namespace {space}", "", f"GLUONOPS_REGISTER_OP({op.graph_name}, {space}::OPERATOR)"]

    def _attributes(self) -> list[str]:
        names = [quoted(attr.name) for attr in self.op.attrs]
        return function("static std::vector<const char *> attributes()", itemized("return {", names, "};"))

    def _parse(self) -> list[str]:
        body = ["const auto made = std::make_shared<Attrs>();"]
        if self.op.attrs:
            body.append("Attrs &attrs = *made;")
        body += [f"attrs.{attr.name} = {parsing(self.op.name, attr)};" for attr in self.op.attrs]
        body += [*self.condition.refusals(reads_ndim=False), "return made;"]
        return function("static AnyAttrs parse(const Attributes &node_attributes)", body)

    def _tensors(self) -> list[str]:
        pairs = [f"{{{quoted(t.name)}, {self._variable(t.dtype)}}}" for t in self.op.tensors]
        return of_attrs("static Tensors tensors", [], itemized("return {", pairs, "};"))

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

    def _check(self) -> list[str]:
        """Return the function that checks values, or nothing where no input restricts them."""
        checks = []
        for arg in self.op.inputs:
            if arg.values:
                checks += self._check_rows(arg) if isinstance(arg.values, ValidRows) else self._check_indices(arg)
        return of_attrs("static void check", ["Arrays inputs"], checks) if checks else []

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

    def _clear(self) -> list[str]:
        """Return the function that writes zeros for the inputs that have no gradient, or nothing where all have one."""
        lines = []
        for i, arg in enumerate(self.op.inputs):
            if isinstance(arg.gradient, str):
                lines += [f"if ({self._negated(arg.gradient)})", f"{INDENT}fill_with_zeros(results[{i}]);"]
            elif not arg.gradient:
                lines.append(f"fill_with_zeros(results[{i}]);")
        return of_attrs("static void clear", ["Arrays results"], lines) if lines else []

    def _negated(self, text: str) -> str:
        tree = expression(text).tree
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
            return self.condition.visit(tree.operand)
        return f"!({self.condition.visit(tree)})"
