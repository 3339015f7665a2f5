"""Writes the C++ that follows from the contracts: ``<op>.h`` and ``<op>.cc`` of each operator, and what is compiled.

From ``ops/<op>/contract.py`` follow, in ``<op>.h``, the struct of the attributes and the record of a kernel's
arguments; in ``<op>.cc``, the dispatch over dtypes and instruction sets; and in ``operators.cc``, the one file that
includes lib_api.h, parsing, types, shapes, error conditions, checks of values and registration. A file
``kernels<i>.cc`` includes the ``.cc`` of several operators: reading the headers takes as long as a small operator.
A ``kernel.cc`` has the kernels::

    namespace GLUONOPS_TARGET { template <typename T> void forward(const XArgs<T> &args); }   // and backward

and, if a derived number is not an expression, outside of that namespace ::

    template <typename T> void derive(const XAttrs &attrs, Arrays inputs, XArgs<T> &args);

Beside it, ``record.inl`` has the structs, if any, that the contract names as types of memory or of derived numbers.

Contracts are read without importing gluonops, which needs MXNet. They need Python only. ``setup.py`` and ``python -m
gluonops.native.build`` run this file.
"""
from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import pathlib
import re
import sys
import textwrap
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["contracts", "generate"]

PACKAGE = pathlib.Path(__file__).resolve().parent.parent
TYPES = {"float16": ("FLOAT16", "Half"), "float32": ("FLOAT32", "float"), "float64": ("FLOAT64", "double"),
         "uint8": ("UINT8", "uint8_t"), "int8": ("INT8", "int8_t"), "int32": ("INT32", "int32_t"),
         "int64": ("INT64", "int64_t")}
C_TYPES = {"bool": "bool", **{dtype: c_type for dtype, (_, c_type) in TYPES.items()}}
INDENT = "    "
WIDTH = 116


def generate(folder: pathlib.Path, package: pathlib.Path = PACKAGE,
             names: Iterable[str] | None = None) -> list[pathlib.Path]:
    """Write the C++ of every operator that has a ``kernel.cc``.

    Parameters
    ----------
    folder : Path
        Folder of the files. A file that would not change is not written. Files of other operators are removed.
    package : Path
        Folder of the package with the operators.
    names : iterable of str, optional
        The operators. The default is all of them.

    Returns
    -------
    list of Path
        The ``kernels<i>.cc``. ``operators.cc`` is beside them.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    operators = []
    loaded = contracts(package)
    for op in loaded.operators:
        kernel = package / "ops" / op.name / "kernel.cc"
        if not kernel.is_file() or (names is not None and op.name not in names):
            continue
        operator = Operator(op, loaded)
        operator.has_structs = kernel.with_name("record.inl").is_file()
        operators.append(operator)
    texts = {"operators.cc": registrations(operators)}
    for operator in operators:
        texts.update({f"{operator.op.name}.h": operator.header(), f"{operator.op.name}.cc": operator.source()})
    units = {f"kernels{i}.cc": "".join(f'#include "generated/{name}.cc"\n' for name in unit)
             for i, unit in enumerate(families(package, [operator.op.name for operator in operators]))}
    for name, text in {**texts, **units}.items():
        _write(folder / name, text)
    for path in folder.iterdir():
        if path.suffix in (".h", ".cc") and path.name not in texts and path.name not in units:
            path.unlink()
    return [folder / name for name in units]


def families(package: pathlib.Path, names: list[str]) -> list[list[str]]:
    """The operators of each unit: those that share a folder of kernels, which the compiler then reads once."""
    found = {}
    for name in names:
        kernel = (package / "ops" / name / "kernel.cc").read_text(encoding="utf-8")
        folder = re.search(r'#include "\.\./(_\w+)/(?!labels)', kernel)
        found.setdefault(folder and folder.group(1), []).append(name)
    return sorted(found.values(), key=len, reverse=True)   # the longest compilation first


def registrations(operators: list[Operator]) -> str:
    """The text of ``operators.cc``: the operators as MXNet sees them."""
    return "\n".join([
        "// Written from the contracts by gluonops/native/generate.py: edit those.",
        '#include "native/mxnet/operator.h"',
        *[f'#include "generated/{operator.op.name}.h"' for operator in operators], "",
        "namespace gluonops {", "namespace {", "",
        *[line for operator in operators for line in [*operator.registration(), ""]],
        "}  // namespace", "}  // namespace gluonops", ""])


class Contracts(typing.NamedTuple):
    """Contracts, and the modules ``core.contract``, ``core.record`` and ``core.shapes`` of their classes."""
    operators: list
    core: types.ModuleType
    record: types.ModuleType
    shapes: types.ModuleType


def contracts(package: pathlib.Path = PACKAGE) -> Contracts:
    """The contract of every operator below ``package``, sorted by name."""
    root = "_gluonops_contracts"
    with _bare_packages(root, package):
        names = sorted(path.parent.name for path in (package / "ops").glob("[!_]*/contract.py"))
        operators = [importlib.import_module(f"{root}.ops.{name}.contract").OP for name in names]
        core = importlib.import_module(f"{root}.core.contract")
        record = importlib.import_module(f"{root}.core.record")
        shapes = importlib.import_module(f"{root}.core.shapes")
        return Contracts(operators, core, record, shapes)


@contextlib.contextmanager
def _bare_packages(root: str, package: pathlib.Path) -> Iterator[None]:
    """Make the package importable as ``root`` inside the ``with`` block, without running any ``__init__.py``."""
    operators = sorted(path for path in (package / "ops").iterdir() if path.is_dir())
    folders = [package, package / "core", package / "ops", *operators]
    try:
        for folder in folders:
            module = types.ModuleType(".".join([root, *folder.relative_to(package).parts]))
            module.__path__ = [str(folder)]
            sys.modules[module.__name__] = module
        yield
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == root]:
            del sys.modules[name]


def _write(path: pathlib.Path, text: str) -> None:
    """Write a file in one step, so that another process never reads half of it. An equal file is left alone."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def c_type(dtype: str) -> str:
    """The C++ type of a dtype. Other names stand for themselves."""
    return C_TYPES.get(dtype, dtype)


def quoted(text: str) -> str:
    """A C++ string literal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def listed(items: Iterable[str]) -> str:
    """Items separated by commas."""
    return ", ".join(items)


def indented(lines: Iterable[str], levels: int = 1) -> list[str]:
    """Lines with an indent, except for empty ones."""
    return [INDENT * levels + line if line else "" for line in lines]


def function(signature: str, body: Iterable[str]) -> list[str]:
    """A C++ function."""
    return [signature, "{", *indented(body), "}"]


def wrapped(opening: str, items: Iterable[str], closing: str) -> list[str]:
    """``opening item, item, ... closing``, on several lines if it does not fit on one."""
    line = opening + listed(items) + closing
    if len(line) <= WIDTH:
        return [line]
    body = textwrap.wrap(listed(items), WIDTH - 8, break_long_words=False, break_on_hyphens=False)
    return [opening, *indented(body, 2), closing]


# -- attributes ----------------------------------------------------------------------------------------------------
def kind_name(kind: object) -> str:
    """The name of a kind's class. The classes themselves are loaded again for every build."""
    return type(kind).__name__


def number(value: float | None) -> str:
    """A number, or infinity for None."""
    return "INFINITY" if value is None else repr(float(value))


class Attribute:
    """The C++ of an attribute: its declaration and its parsing."""

    def __init__(self, attr: Any, operator: str, record: types.ModuleType):
        self.name = attr.name
        self.attr, self.operator, self.record = attr, operator, record
        self.kind = attr.kind
        self.default = attr.default
        self.type = kind_name(attr.kind)
        if not hasattr(self, f"_parse_{self.type}"):
            raise ValueError(f"{self.name}: an attribute of kind {self.type} has no form in C++")

    def enumeration(self) -> list[str]:
        """The enumeration of a choice, or nothing."""
        return [self.record.enumeration(self.operator, self.attr), ""] if self.type == "Choice" else []

    def word(self, word: str) -> str:
        """The C++ of a word of a choice."""
        return f"{self.record.enumeration_of(self.operator, self.attr)}::{self.record.camel(word)}"

    def declaration(self) -> str:
        """The member, with its default."""
        return getattr(self, f"_declare_{self.type}")()

    def parsing(self) -> str:
        """The expression that parses it from the strings of a graph."""
        return getattr(self, f"_parse_{self.type}")()

    def _declare_Int(self) -> str:
        return f"int64_t {self.name} = {self.default};"

    def _parse_Int(self) -> str:
        low = "" if self.kind.low is None else f", {self.kind.low}"
        return f'given.integer("{self.name}", attrs.{self.name}{low})'

    def _declare_Float(self) -> str:
        return f"double {self.name} = {float(self.default)!r};"

    def _parse_Float(self) -> str:
        return f'given.number("{self.name}", attrs.{self.name}, {self._bounds(self.kind, self.kind.expected)})'

    @staticmethod
    def _bounds(kind: Any, expected: str) -> str:
        """The bounds of a Float, and what an error says of them."""
        low = "-INFINITY" if kind.low is None else number(kind.low)
        above = "-INFINITY" if kind.above is None else number(kind.above)
        below = number(kind.below)
        return f"{{{quoted(expected)}, {low}, {above}, {below}}}"

    def _declare_Bool(self) -> str:
        return f"bool {self.name} = {str(self.default).lower()};"

    def _parse_Bool(self) -> str:
        return f'given.boolean("{self.name}", attrs.{self.name})'

    def _declare_Choice(self) -> str:
        enumeration = self.record.enumeration_of(self.operator, self.attr)
        return f"{enumeration}::Value {self.name} = {self.word(self.default)};"

    def _parse_Choice(self) -> str:
        choices = listed([quoted(word) for word in self.kind.words])
        enumeration = self.record.enumeration_of(self.operator, self.attr)
        return f'{enumeration}::Value(given.choice("{self.name}", int(attrs.{self.name}), {{{choices}}}))'

    def _declare_Optional(self) -> str:
        if kind_name(self.kind.kind) == "Pairs":
            return f"std::vector<double> {self.name};   // empty for None"
        if kind_name(self.kind.kind) == "Numbers":
            default = "" if self.default is None else f" = {{{{{listed(map(repr, self.default))}}}}}"
            return f"std::optional<std::vector<double>> {self.name}{default};"
        item = "double" if kind_name(self.kind.kind) == "Float" else "int64_t"
        default = "" if self.default is None else f" = {self.default}"
        return f"std::optional<{item}> {self.name}{default};"

    def _parse_Optional(self) -> str:
        if kind_name(self.kind.kind) == "Pairs" and self.default is None:
            return f'given.optional_pairs("{self.name}")'
        if kind_name(self.kind.kind) == "Numbers":
            item = self.kind.kind.item
            bounds = f"{{{quoted(self.kind.kind.expected)}, {number(item.low)}}}"
            return f'given.optional_numbers("{self.name}", attrs.{self.name}, {bounds})'
        if kind_name(self.kind.kind) == "Float":
            bounds = self._bounds(self.kind.kind, self.kind.expected)
            return f'given.optional_number("{self.name}", attrs.{self.name}, {bounds})'
        if kind_name(self.kind.kind) != "Int":
            raise ValueError(f"{self.name}: in C++ an optional attribute is a number or a tuple of numbers")
        low = "" if self.kind.kind.low is None else f", {self.kind.kind.low}"
        return f'given.optional_integer("{self.name}", attrs.{self.name}{low})'

    def _declare_IntOrTuple(self) -> str:
        is_tuple = isinstance(self.default, tuple)
        values = self.default if is_tuple else (self.default,)
        return f"Integers {self.name} = {{{str(is_tuple).lower()}, {{{listed(map(str, values))}}}}};"

    def _parse_IntOrTuple(self) -> str:
        return f'given.integers("{self.name}", attrs.{self.name}, {self.kind.item.low})'

    def _declare_Pairs(self) -> str:
        return f"std::vector<double> {self.name} = {{{listed(map(repr, self.default))}}};"

    def _parse_Pairs(self) -> str:
        return f'given.pairs("{self.name}", attrs.{self.name})'


# -- expressions ---------------------------------------------------------------------------------------------------
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=",
           ast.Gt: ">", ast.GtE: ">=", ast.And: "&&", ast.Or: "||"}


class Translator(ast.NodeVisitor):
    """Translates an expression of a contract to C++. Names in ``locals_`` are variables, all others attributes."""

    def __init__(self, attributes: dict[str, Attribute], locals_: Iterable[str] = ()):
        self.attributes = attributes
        self.locals = set(locals_)

    def __call__(self, expression: Any) -> str:
        return self.visit(expression.tree)

    def _operand(self, node: ast.AST) -> str:
        text = self.visit(node)
        return f"({text})" if isinstance(node, (ast.BinOp, ast.BoolOp, ast.IfExp, ast.Compare)) else text

    def visit_Constant(self, node: ast.AST) -> str:
        if isinstance(node.value, bool):
            return str(node.value).lower()
        if isinstance(node.value, str):
            return quoted(node.value)
        return repr(node.value)

    def visit_Name(self, node: ast.AST) -> str:
        return node.id if node.id in self.locals else f"attrs.{node.id}"

    def visit_Attribute(self, node: ast.AST) -> str:
        return f"{node.value.id}_ndim"

    def visit_UnaryOp(self, node: ast.AST) -> str:
        return ("!" if isinstance(node.op, ast.Not) else "-") + self._operand(node.operand)

    def visit_BoolOp(self, node: ast.AST) -> str:
        operands = []
        for value in node.values:
            text = self.visit(value)
            needs_brackets = isinstance(value, (ast.BoolOp, ast.IfExp))
            operands.append(f"({text})" if needs_brackets else text)
        return f" {_BINARY[type(node.op)]} ".join(operands)

    def visit_BinOp(self, node: ast.AST) -> str:
        return f"{self._operand(node.left)} {_BINARY[type(node.op)]} {self._operand(node.right)}"

    def visit_IfExp(self, node: ast.AST) -> str:
        return f"{self._operand(node.test)} ? {self._operand(node.body)} : {self._operand(node.orelse)}"

    def visit_Compare(self, node: ast.AST) -> str:
        left = node.left
        pairs = []
        for operator, right in zip(node.ops, node.comparators):
            pairs.append(self._comparison(left, operator, right))
            left = right
        return " && ".join(pairs)

    def _comparison(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> str:
        if isinstance(operator, (ast.Is, ast.IsNot)):
            negation = "!" if isinstance(operator, ast.Is) else ""
            return f"{negation}{self.visit(left)}.has_value()"
        if isinstance(right, ast.Constant) and isinstance(right.value, str):
            choice = self.attributes[left.id].word(right.value)
            return f"{self.visit(left)} {_BINARY[type(operator)]} {choice}"
        return f"{self._operand(left)} {_BINARY[type(operator)]} {self._operand(right)}"

    def visit_Call(self, node: ast.AST) -> str:
        argument = node.args[0]
        if node.func.id == "floor":
            return f"floor({self.visit(argument)})"
        if node.func.id == "is_tuple":
            return f"{self.visit(argument)}.is_tuple"
        values = ".values" if self.attributes[argument.id].type == "IntOrTuple" else ""
        return f"int64_t({self.visit(argument)}{values}.size())"


class SizeTranslator(Translator):
    """Translates to integers that do not overflow. A list of pairs counts as their number."""

    def visit_Name(self, node: ast.AST) -> str:
        if self.attributes[node.id].type == "Pairs":
            return f"pairs_in(attrs.{node.id})"
        values = ".values[0]" if self.attributes[node.id].type == "IntOrTuple" else ""
        return f"Wide(attrs.{node.id}{values})"


# -- an operator ---------------------------------------------------------------------------------------------------
class Operator:
    """Writes the two files of one operator."""

    def __init__(self, op: Any, read: Contracts):
        self.op = op
        self.camel = read.record.camel(op.name)
        self.core = read.core
        self.records = read.record
        self.shapes = read.shapes
        self.attributes = {attr.name: Attribute(attr, op.name, read.record) for attr in op.attrs}
        self.condition = Translator(self.attributes)
        self.size = SizeTranslator(self.attributes)
        self.record = Record(self)
        self.has_structs = False   # whether the record has structs of the operator's own

    # The header: the types that kernel.cc takes.
    def header(self) -> str:
        """The text of ``<op>.h``."""
        guard = f"GLUONOPS_GENERATED_{self.op.name.upper()}_H_"
        enumerations = [line for attribute in self.attributes.values() for line in attribute.enumeration()]
        return self._text([
            self._origin(), f"// {self.op.name}: {self.op.summary}.", f"#ifndef {guard}", f"#define {guard}", "",
            '#include "native/mxnet/call.h"', '#include "native/kernel.h"', "", "namespace gluonops {", "",
            *enumerations,
            "// The attributes of a node, with their defaults.", f"struct {self.camel}Attrs {{",
            *indented([a.declaration() for a in self.attributes.values()]), "};", "",
            *self._arguments(), "", "}  // namespace gluonops", "", f"#endif  // {guard}"])

    def _arguments(self) -> list[str]:
        """What a kernel gets, and the functions that call the kernels."""
        structs = [f'#include "ops/{self.op.name}/record.inl"', ""] if self.has_structs else []
        return [*structs, *self.record.declaration(), "", f"{self._entry('forward')};", f"{self._entry('backward')};"]

    def _entry(self, direction: str) -> str:
        """The signature of the function that calls the kernel of a pass for the type of the data."""
        arrays = {"forward": ("inputs", "outputs"), "backward": ("grads", "inputs", "outputs", "results")}[direction]
        given = listed([f"Arrays {name}" for name in arrays])
        return f"void {self.op.name}_{direction}(const {self.camel}Attrs &attrs, {given})"

    def _origin(self) -> str:
        return f"// Written from gluonops/ops/{self.op.name}/contract.py by gluonops/native/generate.py: edit those."

    @staticmethod
    def _text(lines: Iterable[str]) -> str:
        return "\n".join(lines) + "\n"

    # The source: kernel.cc and the dispatch.
    def source(self) -> str:
        """The text of ``<op>.cc``."""
        return self._text([
            self._origin(), f'#include "ops/{self.op.name}/kernel.cc"', "", "namespace gluonops {", "",
            *self._dispatch(), "}  // namespace gluonops"])

    def _dispatch(self) -> list[str]:
        """The kernels of this instruction set; and, in one of the units, the functions that call the best ones."""
        lines = ["// The kernels for this instruction set.", "namespace GLUONOPS_TARGET {", ""]
        for direction in ("forward", "backward"):
            signature = f"void {self.op.name}_{direction}"
            lines += ["template <typename T>",
                      f"{signature}(const {self.camel}Args<T> &args) {{ {direction}<T>(args); }}",
                      *self._per_type(f"template {signature}(const {self.camel}Args<{{}}> &);"), ""]
        lines += ["}  // namespace GLUONOPS_TARGET", "", "#ifdef GLUONOPS_ENTRY",
                  "#ifdef GLUONOPS_ALL_TARGETS"]
        for target in ("avx2", "avx512"):
            for direction in ("forward", "backward"):
                signature = f"void {self.op.name}_{direction}(const {self.camel}Args<T> &)"
                lines.append(f"namespace {target} {{ template <typename T> {signature}; }}")
        lines += ["#endif", "", *self.record.filling(), ""]
        for direction in ("forward", "backward"):
            lines += [*self._target_dispatch(direction), "", *self.record.call(direction), "",
                      *self._type_dispatch(direction), ""]
        return [*lines, "#endif"]

    def _per_type(self, line: str) -> list[str]:
        """A line for the C++ type of each dtype of the data. Some units are for float32 alone: see build.py."""
        others = [line.format(name) for _, name in self._c_types() if name != "float"]
        return [line.format("float"), *(["#ifndef GLUONOPS_FLOAT32_ALONE", *others, "#endif"] if others else [])]

    def _c_types(self) -> list[tuple[str, str]]:
        """(MXNet's label, C++ type) of each dtype of the data."""
        return [TYPES[dtype] for dtype in self.op.types["T"]]

    def _target_dispatch(self, direction: str) -> list[str]:
        """The function that calls the kernel of the best instruction set that this processor has."""
        call = f"{self.op.name}_{direction}(args)"
        signature = f"inline void {self.op.name}_{direction}(const {self.camel}Args<T> &args)"
        return ["template <typename T>", signature, "{", "#ifdef GLUONOPS_ALL_TARGETS",
                *indented(["if constexpr (std::is_same<T, float>::value)", f"{INDENT}if (target() == AVX512)",
                           f"{INDENT * 2}return avx512::{call};",
                           "if (target() != BASE)", f"{INDENT}return avx2::{call};"]),
                "#endif", *indented([f"GLUONOPS_TARGET::{call};"]), "}"]

    def _type_dispatch(self, direction: str) -> list[str]:
        """The function that calls the kernel for the type of the data."""
        signature = self._entry(direction)
        given = signature[signature.index("("):].replace(f"const {self.camel}Attrs &", "").replace("Arrays ", "")
        cases = [f"case {label}: return {self.op.name}_{direction}<{name}>{given};" for label, name in self._c_types()]
        return function(signature, ["switch (inputs[0].type) {", *cases, "}"])

    def registration(self) -> list[str]:
        """The operator as MXNet sees it, and its registration."""
        op = self.op
        return [
            f"struct {self.camel}Operator {{", *indented([
                f"typedef {self.camel}Attrs Attrs;",
                f'static constexpr const char *NAME = "{op.name}";',
                f"enum {{ INPUTS = {len(op.inputs)}, OUTPUTS = {len(op.outputs)} }};", "",
                *self._attributes(), "", *self._parse(), "", *self._tensors(), "", *self._types(), "", *self._shapes(),
                "", *self._forward(), "", *self._backward(),
            ]), "};", "", f"GLUONOPS_REGISTER_OP({op.graph_name}, {self.camel}Operator)"]

    def _attributes(self) -> list[str]:
        names = listed([quoted(name) for name in self.attributes])
        return function("static std::vector<const char *> attributes()", wrapped("return {", [names], "};"))

    def _parse(self) -> list[str]:
        body = ["Attrs attrs;"]
        body += [f"attrs.{name} = {a.parsing()};" for name, a in self.attributes.items()]
        for refused in self.op.refused:
            if not refused.reads_ndim:
                body += self._refusal(refused)
        return function("static Attrs parse(const Attributes &given)", [*body, "return attrs;"])

    def _refusal(self, refused: Any) -> list[str]:
        condition = self.condition(self.core.expression(refused.when))
        return [f"if ({condition})", f"{INDENT}refuse(NAME,",
                *indented([f"{self._filled(refused.what)},", f"{self._filled(refused.remedy)});"], 4)]

    def _filled(self, text: str) -> str:
        """The C++ expression of a text with the values of the expressions in braces."""
        parts = self.core._PLACE.split(text)
        pieces = []
        for i, part in enumerate(parts):
            is_expression = i % 2 == 1
            if is_expression:
                pieces.append(f"value_text({self.condition(self.core.expression(part))})")
            elif part:
                pieces.append(quoted(part))
        first, *others = pieces
        if others and first.startswith('"'):
            first = f"std::string({first})"
        return " + ".join([first, *others])

    def _tensors(self) -> list[str]:
        pairs = [f"{{{quoted(t.name)}, {self._variable(t.dtype)}}}" for t in self.op.tensors]
        return function("static Tensors tensors(const Attrs &attrs)", wrapped("return {", pairs, "};"))

    def _variable(self, text: str) -> str:
        tree = self.core.expression(text).tree
        if isinstance(tree, ast.Name):
            return f"'{tree.id}'"
        return f"{self.condition.visit(tree.test)} ? '{tree.body.id}' : '{tree.orelse.id}'"

    def _types(self) -> list[str]:
        variables = [f"{{'{variable}', {{{listed([TYPES[dtype][0] for dtype in dtypes])}}}}}"
                     for variable, dtypes in self.op.types.items()]
        body = wrapped("static const TypeVariables variables = {", variables, "};")
        return function("static const TypeVariables &types()", [*body, "return variables;"])

    # Shapes.
    def _shapes(self) -> list[str]:
        body = [f"const int {arg.name}_ndim = ndims[{i}];" for i, arg in enumerate(self.op.inputs)
                if self._reads_ndim(arg.name, first=i == 0)]
        for rule in self.op.rules:
            lines = self._rule(rule)
            if rule.when is not None:
                lines = [f"if ({self.condition(rule.when)}) {{", *indented(lines), "}"]
            body += lines
        return function("static Shapes shapes(const Attrs &attrs, const std::vector<int> &ndims)", body)

    def _reads_ndim(self, tensor: str, first: bool) -> bool:
        """Whether the shapes need the number of dimensions of an input."""
        conditions = [rule.when.text for rule in self.op.rules if rule.when]
        conditions += [refused.when for refused in self.op.refused]
        if any(f"{tensor}.ndim" in text for text in conditions):
            return True
        terms = [term for rule in self.op.rules for term in rule.first]
        return first and any(isinstance(term, self.shapes.Group) for term in terms)

    def _rule(self, rule: Any) -> list[str]:
        lines = self._groups(rule)
        for tensor, terms in rule.patterns.items():
            lines += [f"// {tensor}: {rule.texts[tensor]}", *self._pattern(f"const Pattern {tensor} = ", terms, ";")]
        for refused in self.op.refused:
            if refused.reads_ndim:
                lines += self._refusal(refused)
        whole = "{}"
        if rule.whole:
            lines += self._pattern("const Pattern whole = ", rule.whole, ";")
            whole = "whole"
        tensors = listed([tensor.name for tensor in self.op.tensors])
        texts = {**self.op.remedies, **rule.remedies}
        remedies = listed([f"{{{quoted(name)}, {quoted(text)}}}" for name, text in texts.items()])
        counts = listed([f"{{{quoted(name)}, {quoted(dimension)}, number_of(attrs.{name})}}"
                         for name, dimension in self.op.counts.items()])
        return [*lines, f"return {{{{{tensors}}}, {whole}, {{{remedies}}}, {{{counts}}}}};"]

    def _groups(self, rule: Any) -> list[str]:
        """The variables that hold the dimensions of the groups, from the first pattern."""
        first, tensor = rule.first, self.op.inputs[0].name
        groups = [term for term in first if isinstance(term, self.shapes.Group)]
        at = [term.axis for term in first if isinstance(term, self.shapes.At)]
        if at:
            axis, = at
            normalized = f"normalized_axis(NAME, attrs.{axis}, {tensor}_ndim, {quoted(tensor)})"
            return [f"const int64_t {axis} = {normalized};",
                    self._group_dims(groups[0], "0", axis),
                    self._group_dims(groups[1], f"{axis} + 1", f"{tensor}_ndim")]
        if not groups:
            return []
        begin = next(i for i, term in enumerate(first) if isinstance(term, self.shapes.Group))
        behind = len(first) - 1 - begin
        end = f"{tensor}_ndim - {behind}" if behind else f"{tensor}_ndim"
        return [self._group_dims(groups[0], begin, end)]

    @staticmethod
    def _group_dims(group: Any, begin: str | int, end: str) -> str:
        return f"const Pattern {_variable_of(group)} = group({quoted(group.name)}, {begin}, {end});"

    def _pattern(self, opening: str, terms: tuple, closing: str) -> list[str]:
        if not any(isinstance(term, self.shapes.Group) for term in terms):
            return _itemized(opening + "{", [self._dim(term) for term in terms], "}" + closing)
        parts = [self._group(term) if isinstance(term, self.shapes.Group) else f"{{{self._dim(term)}}}"
                 for term in terms]
        if len(parts) == 1:
            return [opening + parts[0] + closing]
        return _itemized(opening + "joined({", parts, "})" + closing)

    def _group(self, term: Any) -> str:
        variable = _variable_of(term)
        if term.counts is None:
            return variable
        counts = f"attrs.{term.counts}.values"
        if term.axis is not None:
            counts = f"counts_at(NAME, attrs.{term.counts}, attrs.{term.axis}, {variable})"
        return f"repeated(NAME, {variable}, {quoted(term.counts)}, {counts})"

    def _dim(self, term: Any) -> str:
        if isinstance(term, self.shapes.At):
            return f"named({quoted(term.name)})"
        if isinstance(term, self.shapes.Sized):
            label = f", {quoted(term.size.text)}" if term.size.names else ""
            return f"fixed(NAME, {self.size(term.size)}{label})"
        if term.mul is None and term.div is None:
            return f"named({quoted(term.name)})"
        return f"named({quoted(term.name)}, {quoted(term.text)}, {self._factor(term.mul)}, {self._factor(term.div)})"

    def _factor(self, expression: Any) -> str:
        return "{}" if expression is None else f"factor(NAME, {quoted(expression.text)}, {self.size(expression)})"

    # The two passes.
    def _forward(self) -> list[str]:
        checks = [line for arg in self.op.inputs if arg.values for line in self._check(arg)]
        if checks:
            checks = ["if (checking_values()) {", *indented(checks), "}"]
        return function("static void forward(const Attrs &attrs, Arrays inputs, Arrays outputs)",
                        [*checks, f"{self.op.name}_forward(attrs, inputs, outputs);"])

    def input(self, tensor: str) -> str:
        """The C++ expression for an input."""
        return f"inputs[{[arg.name for arg in self.op.inputs].index(tensor)}]"

    def _check(self, arg: Any) -> list[str]:
        if type(arg.values).__name__ == "Rows":
            return self._check_rows(arg)
        values = arg.values
        ignore = f", attrs.{values.ignore}, {quoted(values.ignore)}" if values.ignore else ""
        size = self.record.size(self.op.rules[-1], values.dimension)
        call = f"check_indices(NAME, {quoted(arg.name)}, {self.input(arg.name)}, {size}{ignore});"
        if values.when is None:
            return [call]
        return [f"if ({self.condition(self.core.expression(values.when))})", INDENT + call]

    def _check_rows(self, arg: Any) -> list[str]:
        rows = arg.values
        translator = Translator(self.attributes, rows.columns)
        columns = [f"const double {column} = row[{i}];" for i, column in enumerate(rows.columns)]
        valid = translator(self.core.expression(rows.valid)).split(" && ")
        axes = listed([quoted(axis) for axis in rows.axes])
        return ["const auto valid = [&](const double *row) {", *indented([*columns, *_conjunction(valid)]), "};",
                f"check_rows(NAME, {quoted(arg.name)}, {self.input(arg.name)}, valid, {{{{{axes}}},",
                *indented([f"{self._filled(rows.expected)},", f"{quoted(rows.remedy)}}});"], 2)]

    def _backward(self) -> list[str]:
        arrays = ("grads", "inputs", "outputs", "results")
        return function(f"static void backward(const Attrs &attrs, {listed([f'Arrays {name}' for name in arrays])})",
                        [f"{self.op.name}_backward(attrs, {listed(arrays)});", *self._cleared()])

    def _negated(self, text: str) -> str:
        tree = self.core.expression(text).tree
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
            return self.condition.visit(tree.operand)
        return f"!({self.condition.visit(tree)})"

    def _cleared(self) -> list[str]:
        """Zeros for the inputs that have no gradient."""
        lines = []
        for i, arg in enumerate(self.op.inputs):
            if arg.gradient is True:
                continue
            clear = f"clear(results[{i}]);"
            if arg.gradient:
                lines += [f"if ({self._negated(arg.gradient)})", *indented([clear])]
            else:
                lines.append(clear)
        return lines


class NumberTranslator(Translator):
    """Translates a derived number, an expression over the names in ``types``; see :class:`Record`."""

    def __init__(self, operator: Operator):
        super().__init__(operator.attributes)
        self.operator = operator
        self.types = {}   # of what is no attribute: name -> dtype
        self.types_of_names = operator.records.known_types(operator.op)   # in expressions

    def visit_Name(self, node: ast.AST) -> str:
        if node.id in self.types:
            return f"args.{node.id}"
        if node.id not in self.attributes:
            raise ValueError(f"{self.operator.op.name}: {node.id!r} is neither an attribute nor a number")
        is_optional = self.attributes[node.id].type == "Optional"
        return f"*attrs.{node.id}" if is_optional else f"attrs.{node.id}"

    def visit_Attribute(self, node: ast.AST) -> str:
        return f"{self.operator.input(node.value.id)}.{node.attr}()"

    def visit_Compare(self, node: ast.AST) -> str:
        if isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            negation = "!" if isinstance(node.ops[0], ast.Is) else ""
            return f"{negation}attrs.{node.left.id}.has_value()"
        return super().visit_Compare(node)

    def visit_BinOp(self, node: ast.AST) -> str:
        left, right = self._operand(node.left), self._operand(node.right)
        if isinstance(node.op, ast.FloorDiv):
            if "float64" in (self.type(node.left), self.type(node.right)):
                raise ValueError(f"{self.operator.op.name}: {ast.unparse(node)} divides numbers that are not whole")
            return f"{left} / {right}"
        if isinstance(node.op, ast.Div):
            return f"double({self.visit(node.left)}) / double({self.visit(node.right)})"
        return f"{left} {_BINARY[type(node.op)]} {right}"

    def visit_Call(self, node: ast.AST) -> str:
        if node.func.id in ("min", "max"):
            return f"std::{node.func.id}<{c_type(self.type(node))}>({listed(map(self.visit, node.args))})"
        if node.func.id in ("cos", "sin"):
            return f"{node.func.id}({self.visit(node.args[0])})"
        if node.func.id == "len" and self.attributes[node.args[0].id].type == "Optional":
            return f"int64_t(attrs.{node.args[0].id}->size())"
        return super().visit_Call(node)

    def type(self, node: ast.AST) -> str:
        """The dtype of an expression: bool, int64 or float64."""
        return self.operator.records.dtype_of(node, self.types_of_names)


class Record:
    """The C++ of a kernel's arguments: the struct ``<Op>Args``, and the functions that fill it and call the kernel."""

    def __init__(self, operator: Operator):
        self.operator = operator
        self.op = operator.op
        self.core = operator.core
        self.shapes = operator.shapes
        self.args = f"{operator.camel}Args<T>"
        self.attributes = [operator.attributes[attr.name] for attr in operator.records.attributes(self.op)]
        self.dims = self.op.dims
        self.number = NumberTranslator(operator)
        self.number.types.update(dict.fromkeys([*self.dims, *self.op.constants], "int64"))
        self.derived = {}   # name -> dtype, and the expression's C++ or None
        for name, dtype in operator.records.dtypes_of_derived(self.op, self.op.derived).items():
            text = self.op.derived[name]
            text = text if isinstance(text, str) else text.expression
            self.derived[name] = dtype, text and self.number(self.core.expression(text))
            self.number.types[name] = dtype
            self.number.types_of_names[name] = dtype if dtype in ("bool", "int64") else "float64"
        self.scratch = [(array, self.number(self.core.expression(array.size))) for array in self.op.scratch]

    # The struct.
    def declaration(self) -> list[str]:
        """The struct. NVRTC reads it too."""
        members = [*self._constants(), *self._tensors(), *self._sizes(), *self._attributes(), *self._numbers(),
                   *self._arrays()]
        return ["// The arguments of a kernel, which computes in A. What a pass neither reads nor writes is null.",
                "template <typename T>", f"struct {self.operator.camel}Args {{",
                *indented(["typedef typename Accumulator<T>::type A;", *members]), "};"]

    def _constants(self) -> list[str]:
        return [f"static const int64_t {name} = {value};" for name, value in self.op.constants.items()]

    def _tensors(self) -> list[str]:
        lines = [self._tensor(arg.name, arg.dtype, "const ") for arg in self.op.inputs]
        lines += [self._tensor(out.name, out.dtype, "", out.doc) for out in self.op.outputs]
        dtypes = {f"{out.name}_grad": out.dtype for out in self.op.outputs}
        lines += [self._tensor(name, dtypes[name], "const ", "backward reads it") for name in self._head_gradients()]
        return lines + [f"T *{arg.name}_grad;   // backward writes it" for arg in self._with_gradient()]

    @staticmethod
    def _tensor(name: str, dtype: str, const: str, doc: str = "") -> str:
        is_typed = dtype in ("T", "A")
        declared = f"{const}{dtype} *{name};" if is_typed else f"AnyArray {name};"
        return f"{declared}   // {doc}" if doc else declared

    def _head_gradients(self) -> list[str]:
        return [f"{out.name}_grad" for out in self.op.outputs if f"{out.name}_grad" in self.op.backward]

    def _with_gradient(self) -> list:
        return [arg for arg in self.op.inputs if arg.gradient]

    def _sizes(self) -> list[str]:
        return [f"int64_t {listed(self.dims)};"] if self.dims else []

    def _attributes(self) -> list[str]:
        return [f"{self._type(attribute)} {attribute.name};" for attribute in self.attributes]

    def _type(self, attribute: Attribute) -> str:
        return self.operator.records.attribute_type(self.op, attribute.attr)

    def _numbers(self) -> list[str]:
        return [f"{c_type(dtype)} {name};{self._origin_of(name)}" for name, (dtype, _) in self.derived.items()]

    def _origin_of(self, name: str) -> str:
        given = self.op.derived[name]
        text = given if isinstance(given, str) else given.expression
        return f"   // {text}" if text else "   // from derive()"

    def _arrays(self) -> list[str]:
        return [f"{c_type(array.dtype)} *{array.name};   // {array.size}" for array, _ in self.scratch]

    # What fills it.
    def filling(self) -> list[str]:
        """The function that sets what follows from the attributes and the shapes."""
        body = [f"{self.args} args = {{}};", *self._set_sizes()]
        body += [f"args.{attribute.name} = {self._attribute(attribute)};" for attribute in self.attributes]
        for name, (dtype, value) in self.derived.items():
            if value:
                body.append(f"args.{name} = {f'A({value})' if dtype == 'A' else value};")
        if not all(value for _, value in self.derived.values()):
            body.append("derive(attrs, inputs, args);")
        body += self._allocated(None)
        if any("A(" in line or "<A>" in line for line in body):
            body.insert(0, f"typedef typename {self.args}::A A;")
        signature = f"{self.args} {self.op.name}_args(const {self.operator.camel}Attrs &attrs, Arrays inputs, " \
                    "Workspace &memory)"
        return ["template <typename T>", *function(signature, [*body, "return args;"])]

    def _set_sizes(self) -> list[str]:
        """The lines that set the sizes. They depend on the declaration of the shapes that holds, or not."""
        lines = []
        per_rule = [[f"args.{name} = {self.size(rule, name)};" for name in self.dims] for rule in self.op.rules]
        if any("axis," in line or "axis +" in line for rule in per_rule for line in rule):
            axis = next(term.axis for term in self.op.rules[0].first if isinstance(term, self.shapes.At))
            lines.append(f"const int64_t axis = inputs[0].axis(attrs.{axis});")
        if all(rule == per_rule[0] for rule in per_rule):
            return lines + per_rule[0]
        ndims = [f"const int {arg.name}_ndim = int(inputs[{i}].ndim());" for i, arg in enumerate(self.op.inputs)
                 if any(rule.when and f"{arg.name}.ndim" in rule.when.text for rule in self.op.rules)]
        lines += ndims
        for i, (rule, sizes) in enumerate(zip(self.op.rules, per_rule)):
            condition = f"if ({self.operator.condition(rule.when)}) " if rule.when else ""
            lines += [f"{'} else ' if i else ''}{condition}{{", *indented(sizes)]
        return [*lines, "}"]

    def size(self, rule: Any, name: str) -> str:
        """The expression for the size of a dimension or a group, from an input that has it."""
        for i, arg in enumerate(self.op.inputs):
            terms = rule.patterns[arg.name]
            for place, term in enumerate(terms):
                if self.core.bare_name(term) == name:
                    return f"inputs[{i}].{self._size_at(terms, place)}"
        raise ValueError(f"{self.op.name}: no input has the bare dimension {name!r}")

    def _size_at(self, terms: tuple, place: int) -> str:
        """The member of an input that is the size of a term."""
        term, behind = terms[place], len(terms) - 1 - place
        groups = [i for i, other in enumerate(terms) if isinstance(other, self.shapes.Group)]
        if isinstance(term, self.shapes.At):
            return f"along(attrs.{term.axis})"
        if len(groups) == 2:
            return "product(0, axis)" if place == groups[0] else "product(axis + 1, inputs[0].ndim())"
        if isinstance(term, self.shapes.Group):
            return f"product({place}, inputs[0].ndim() - {behind})"
        is_in_front = not groups or place < groups[0]
        return f"along({place if is_in_front else place - len(terms)})"

    def _attribute(self, attribute: Attribute) -> str:
        """The value of an attribute's member."""
        name = f"attrs.{attribute.name}"
        if attribute.name in self.op.counts:
            return f"weights_of<A>({name}, args.{self.op.counts[attribute.name]}, memory)"
        kind = self._type(attribute)
        if kind.startswith("Optional"):
            return f"{{{name}.has_value(), {name}.value_or(0)}}"
        if kind.startswith("List"):
            values = f"{name}.values" if attribute.type == "IntOrTuple" else name
            return f"{{{values}.data(), int64_t({values}.size())}}"
        return name

    def _allocated(self, direction: str | None) -> list[str]:
        return [f"args.{array.name} = memory.zeros<{c_type(array.dtype)}>({size});" for array, size in self.scratch
                if array.direction == direction]

    def call(self, direction: str) -> list[str]:
        """The function that fills the arguments of a pass and calls its kernel."""
        signature = self.operator._entry(direction)
        body = [f"{self.args} args = {self.op.name}_args<T>(attrs, inputs, memory);",
                *[f"args.{name} = {value};" for name, value in self._tensors_of(direction)],
                *self._allocated(direction)]
        if any("<A>" in line or "<const A>" in line for line in body):
            body.insert(0, f"typedef typename {self.args}::A A;")
        return ["template <typename T>", *function(signature, ["Workspace memory;", *body,
                                                               f"{self.op.name}_{direction}(args);"])]

    def _tensors_of(self, direction: str) -> list[tuple[str, str]]:
        """(member, value) of the tensors of a pass."""
        read = [tensor.name for tensor in self.op.tensors] if direction == "forward" else self.op.backward
        given = [(arg.name, self._value(f"inputs[{i}]", arg.dtype, "const "))
                 for i, arg in enumerate(self.op.inputs) if arg.name in read]
        given += [(out.name, self._value(f"outputs[{i}]", out.dtype, ""))
                  for i, out in enumerate(self.op.outputs) if out.name in read]
        if direction == "forward":
            return given
        heads = [(f"{out.name}_grad", self._value(f"grads[{i}]", out.dtype, "const "))
                 for i, out in enumerate(self.op.outputs) if f"{out.name}_grad" in read]
        return heads + given + [(f"{arg.name}_grad", f"results[{i}].as<T>()")
                                for i, arg in enumerate(self.op.inputs) if arg.gradient]

    @staticmethod
    def _value(view: str, dtype: str, const: str) -> str:
        return f"{view}.as<{const}{dtype}>()" if dtype in ("T", "A") else f"{view}.any()"


def _itemized(opening: str, items: Iterable[str], closing: str) -> list[str]:
    """As :func:`wrapped`, but with one item per line if they do not fit on one line."""
    line = opening + listed(items) + closing
    if len(line) <= WIDTH:
        return [line]
    return [opening, *indented([f"{item}," for item in items]), closing]


def _variable_of(group: Any) -> str:
    return f"{group.name or 'other'}_dims"


def _conjunction(conditions: list[str]) -> list[str]:
    """``return a && b;``, with one condition per line."""
    first, *others = conditions
    lines = [f"return {first}", *[f"       && {condition}" for condition in others]]
    return [*lines[:-1], f"{lines[-1]};"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line ``generate.py FOLDER``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="where the files go")
    generate(parser.parse_args(arguments).folder)


if __name__ == "__main__":
    main()
