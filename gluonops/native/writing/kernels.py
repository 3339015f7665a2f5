"""What calls the kernels of an operator: its record, and the dispatch over dtypes and instruction sets."""
from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...contract.arguments import Arguments, attribute_type, camel, constants, enumerations
from ...contract.attributes import Attr, IntOrTuple
from ...contract.op import Op
from .cpp_attributes import declaration
from .patterns import size_of
from .text import INDENT, function, indented, listed, of_attrs
from .translator import NumberTranslator, Translator

DIRECTIONS = ("forward", "backward")
ARRAYS = {"forward": ("inputs", "outputs"), "backward": ("grads", "inputs", "outputs", "results")}


def unit(operators: list[Op]) -> str:
    """Return the text of a ``kernels<i>.cc``, which has the constants of its operators and includes their files.

    A constant that several operators have stands there once.
    """
    numbers = dict.fromkeys(item for op in operators for item in op.constants.items())
    front = f"namespace gluonops {{ {constants(numbers)} }}\n" if numbers else ""
    return front + "".join(f'#include "generated/{op.name}.cc"\n' for op in operators)


class Kernels:
    """Writes ``<op>.h`` and ``<op>.cc``. ``has_structs`` says whether the operator has a ``record.inl``."""

    def __init__(self, op: Op, has_structs: bool):
        self.op = op
        self.has_structs = has_structs
        self.camel = camel(op.name)
        self.record = Arguments(op)
        self.args = f"{self.record.name}<T>"
        self._accumulator = f"using A [[maybe_unused]] = typename {self.args}::A;"
        self.avx512 = [self.record.c_type(dtype) for dtype in op.avx512]
        translate = NumberTranslator(op, self.record.derived)
        self.derived = {}   # C++ by name, or None for a number that derive() sets
        for name, number in self.record.derived.items():
            value = number.expression and translate(number.expression)
            self.derived[name] = f"A({value})" if value and number.dtype == "A" else value
        self.sizes = {array: translate(array.size) for array in op.scratch}

    # The header has the types that kernel.cc takes.
    def header(self) -> str:
        """Return the text of ``<op>.h``."""
        structs = [f'#include "ops/{self.op.name}/record.inl"', ""] if self.has_structs else []
        return self._text([
            f"// {self.op.name}: {self.op.summary}.", "#pragma once", "",
            '#include "native/mxnet/call.h"', '#include "native/kernel.h"', "", "namespace gluonops {", "",
            *[line for enumeration in enumerations(self.op) for line in (enumeration, "")],
            "// The attributes of a node, with their defaults.", f"struct {self.camel}Attrs {{",
            *indented([declaration(self.op.name, attr) for attr in self.op.attrs]), "};", "",
            *structs, *self.record.declaration(), "", *[f"{self._entry_point(direction)};" for direction in DIRECTIONS],
            "", "}  // namespace gluonops"])

    def _text(self, lines: Iterable[str]) -> str:
        origin = f"// Written from gluonops/ops/{self.op.name}/contract.py by gluonops/native/generate.py: edit those."
        return "\n".join([origin, *lines, ""])

    def _entry_point(self, direction: str) -> str:
        """Return the signature of the function in the operator's table that calls the kernel of a pass."""
        return f"void {self.op.name}_{direction}({listed(['const void *attrs', *_arrays(direction)])})"

    # The source has kernel.cc, the kernels of this instruction set, and in one of the units what calls the best ones.
    def source(self) -> str:
        """Return the text of ``<op>.cc``."""
        lines = [*self._included(), "", "namespace gluonops {", "",
                 "// The kernels for this instruction set.", "namespace GLUONOPS_ISA {", "", *self._shared()]
        for direction in DIRECTIONS:
            name = f"{self.op.name}_{direction}"
            call = getattr(self.op.kernels, direction) if self.op.kernels else f"{direction}<T>(args)"
            lines += ["template <typename T>", *function(f"void {name}(const {self.args} &args)", [f"{call};"]),
                      *self._per_type(f"template void {name}(const {self.record.name}<{{}}> &);"), ""]
        lines += ["}  // namespace GLUONOPS_ISA", "", "#ifdef GLUONOPS_ENTRY", *self._filling(), ""]
        for direction in DIRECTIONS:
            lines += [*self._call(direction), "", *self._type_dispatch(direction), ""]
        return self._text([*lines, "#endif", "}  // namespace gluonops"])

    def _included(self) -> list[str]:
        """Return the lines that include the kernels, or the functions that they call."""
        if self.op.kernels is None:
            return [f'#include "ops/{self.op.name}/kernel.cc"']
        return [f'#include "generated/{self.op.name}.h"', f'#include "ops/{self.op.kernels.file}.h"']

    def _shared(self) -> list[str]:
        """Return the text that has the struct which the kernels name, if it is not the family's."""
        if self.op.kernels is None or self.op.kernels.shared is None:
            return []
        return ["namespace {", f'#include "ops/{self.op.kernels.shared}"', "}  // namespace", ""]

    def _per_type(self, line: str) -> list[str]:
        """Return a line for the C++ type of each dtype of the data. Units for AVX-512 have only some of the types."""
        others = [line.format(name) for _, name in self._c_types() if name not in self.avx512]
        return [*map(line.format, self.avx512), *(["#ifndef GLUONOPS_AVX512", *others, "#endif"] if others else [])]

    def _c_types(self) -> list[tuple[str, str]]:
        """Return MXNet's label and the C++ type of each dtype of the data."""
        return [(dtype.upper(), self.record.c_type(dtype)) for dtype in self.op.types["T"]]

    def _type_dispatch(self, direction: str) -> list[str]:
        """Return the function that calls the instance of the template for the type of the data."""
        arguments = listed(["attrs", *ARRAYS[direction]])
        cases = [f"case {label}: return {self.op.name}_{direction}<{name}>({arguments});"
                 for label, name in self._c_types()]
        return of_attrs(f"void {self.op.name}_{direction}", _arrays(direction),
                        ["switch (inputs[0].type) {", *cases, "}"], f"{self.camel}Attrs")

    # The functions that fill the record.
    def _filling(self) -> list[str]:
        """Return the function that sets the members which follow from the attributes and the shapes."""
        body = [f"{self.args} args = {{}};", *self._sizes()]
        body += [f"args.{attr.name} = {self._attribute(attr)};" for attr in self.record.attributes]
        body += [f"args.{name} = {value};" for name, value in self.derived.items() if value]
        if not all(self.derived.values()):
            body.append("derive(attrs, inputs, args);")
        body = [self._accumulator, *body, *self._allocated(None)]
        signature = f"{self.args} {self.op.name}_args(const {self.camel}Attrs &attrs, Arrays inputs, Workspace &memory)"
        return ["template <typename T>", *function(signature, [*body, "return args;"])]

    def _sizes(self) -> list[str]:
        """Return the lines that set the sizes.

        They ask which declaration of the shapes holds, unless the lines are the same for all of them.
        """
        op = self.op
        per_rule = [[f"args.{name} = {size_of(op, rule, name)};" for name in op.dims] for rule in op.rules]
        if all(rule == per_rule[0] for rule in per_rule):
            return per_rule[0]
        lines = [f"const int {arg.name}_ndim = int(inputs[{i}].ndim());" for i, arg in enumerate(op.inputs)
                 if any(rule.when and f"{arg.name}.ndim" in rule.when.text for rule in op.rules)]
        condition = Translator(op)
        for i, (rule, sizes) in enumerate(zip(op.rules, per_rule)):
            when = f"if ({condition(rule.when)}) " if rule.when else ""
            lines += [f"{'} else ' if i else ''}{when}{{", *indented(sizes)]
        return [*lines, "}"]

    def _attribute(self, attr: Attr) -> str:
        """Return the value of an attribute's member."""
        name, c_type = f"attrs.{attr.name}", attribute_type(self.op, attr)
        if attr.name in self.op.counts:
            return f"weights_of<A>({name}, args.{self.op.counts[attr.name]}, memory)"
        if c_type.startswith("Optional"):
            return f"{{{name}.has_value(), {name}.value_or(0)}}"
        if c_type.startswith("List"):
            values = f"{name}.values" if isinstance(attr.kind, IntOrTuple) else name
            return f"{{{values}.data(), int64_t({values}.size())}}"
        return name

    def _allocated(self, direction: str | None) -> list[str]:
        return [f"args.{array.name} = memory.zeros<{self.record.c_type(array.dtype)}>({size});"
                for array, size in self.sizes.items() if array.direction == direction]

    def _call(self, direction: str) -> list[str]:
        """Return the function that fills the record of a pass and calls the kernel of the best instruction set here."""
        name = f"{self.op.name}_{direction}"
        body = ["Workspace memory;", self._accumulator,
                f"{self.args} args = {self.op.name}_args<T>(attrs, inputs, memory);",
                *[f"args.{name} = {value};" for name, value in self._tensors_of(direction)],
                *self._allocated(direction)]
        has_kernel = " || ".join(f"std::is_same<T, {c_type}>::value" for c_type in self.avx512)
        signature = f"void {name}({listed([f'const {self.camel}Attrs &attrs', *_arrays(direction)])})"
        return [f"GLUONOPS_OF_EVERY_ISA(template <typename T> void {name}(const {self.args} &);)", "",
                "template <typename T>", signature, "{", *indented(body),
                "#ifdef GLUONOPS_ALL_ISAS",
                *indented([f"if constexpr ({has_kernel})", f"{INDENT}if (isa() == AVX512)",
                           f"{INDENT * 2}return avx512::{name}(args);",
                           "if (isa() != BASE)", f"{INDENT}return avx2::{name}(args);"]),
                "#endif", f"{INDENT}GLUONOPS_ISA::{name}(args);", "}"]

    def _tensors_of(self, direction: str) -> Iterator[tuple[str, str]]:
        """Yield the member and the value of each tensor of a pass."""
        op, is_forward = self.op, direction == "forward"
        read = [tensor.name for tensor in op.tensors] if is_forward else op.backward
        for i, out in enumerate(op.outputs):
            if f"{out.name}_grad" in read:
                yield f"{out.name}_grad", _value(f"grads[{i}]", out.dtype, "const ")
        for i, arg in enumerate(op.inputs):
            if arg.name in read:
                yield arg.name, _value(f"inputs[{i}]", arg.dtype, "const ")
        for i, out in enumerate(op.outputs):
            if out.name in read:
                yield out.name, _value(f"outputs[{i}]", out.dtype)
        for i, arg in enumerate(op.inputs):
            if arg.gradient and not is_forward:
                yield f"{arg.name}_grad", _value(f"results[{i}]", "T")


def _arrays(direction: str) -> list[str]:
    """Return the arguments of the functions of a pass, behind the attributes."""
    return [f"Arrays {name}" for name in ARRAYS[direction]]


def _value(view: str, dtype: str, const: str = "") -> str:
    return f"{view}.as<{const}{dtype}>()" if dtype in ("T", "A") else f"{view}.any()"
