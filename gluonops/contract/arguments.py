"""The record of a kernel's arguments, ``struct <Op>Args``, which follows from the contract.

It has the names of the contract: tensors, dimensions, attributes, derived numbers and memory. :class:`Arguments` is the
record in C++, which ``gluonops/native/writing`` fills; :class:`.record.CudaArguments` is the one in CUDA. A build reads
this module, so it needs neither MXNet nor NumPy.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from .attributes import Attr, Choice, Float, Int, IntOrTuple, Optional, Pairs
from .declarations import Array, Number
from .expressions import dtype_of, expression
from .op import Op


def camel(name: str) -> str:
    """Return a name in camel case: ``SoftmaxOutput`` for ``softmax_output``."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def enumeration_of(op_name: str, attr: Attr) -> str:
    """Return the name of the enumeration of an attribute that is a choice."""
    return camel(f"{op_name}_{attr.name}")


def enumerations(op: Op) -> list[str]:
    """Return the enumerations of the attributes that are choices. In kernels their words are numbers as well."""
    return [f"struct {enumeration_of(op.name, attr)} {{ enum Value {{ {', '.join(map(camel, attr.kind.words))} }}; }};"
            for attr in op.attrs if isinstance(attr.kind, Choice)]


def attribute_type(op: Op, attr: Attr) -> str:
    """Return the C++ type of an attribute's member."""
    if attr.name in op.counts:
        return "Weights<A>"
    if isinstance(attr.kind, Choice):
        return f"{enumeration_of(op.name, attr)}::Value"
    if isinstance(attr.kind, IntOrTuple):
        return "List<int64_t>"
    kind = attr.kind.kind if isinstance(attr.kind, Optional) else attr.kind
    if isinstance(kind, Pairs):
        return "List<double>"
    item = {Int: "int64_t", Float: "double"}.get(type(kind), "bool")
    return f"Optional<{item}>" if isinstance(attr.kind, Optional) else item


def attributes(op: Op) -> list[Attr]:
    """Return the attributes that kernels have.

    An attribute with the name of an output is left out, because it only says whether functions return that output.
    """
    tensors = [tensor.name for tensor in op.tensors]
    return [attr for attr in op.attrs if attr.name not in tensors]


def types_of_names(op: Op, derived: Mapping[str, Number]) -> dict[str, str]:
    """Return the dtype, in expressions, of each dimension, constant, attribute and derived number."""
    types = {name: number.dtype if number.dtype in ("bool", "int64") else "float64" for name, number in derived.items()}
    for attr in attributes(op):
        kind = attr.kind.kind if isinstance(attr.kind, Optional) else attr.kind
        types[attr.name] = {"Int": "int64", "IntOrTuple": "int64", "Bool": "bool"}.get(type(kind).__name__, "float64")
    return {**types, **dict.fromkeys([*op.dims, *op.constants], "int64")}


def derived_numbers(op: Op, declared: dict[str, str | Number]) -> dict[str, Number]:
    """Return the derived numbers. One that is only an expression gets the dtype that follows from it."""
    numbers = {}
    for name, number in declared.items():
        if isinstance(number, str):
            try:
                dtype = dtype_of(expression(number).tree, types_of_names(op, numbers))
            except ValueError as error:
                raise ValueError(f"{op.name}: {error}") from None
            number = Number("A" if dtype == "float64" else dtype, number)
        numbers[name] = number
    return numbers


def constants(numbers: Iterable[tuple[str, int]]) -> str:
    """Return the text in front of a family's files: the numbers that the contract and the kernels share."""
    return f"enum {{ {', '.join(f'{name} = {value}' for name, value in numbers)} }};"


def written(op: Op, direction: str) -> tuple:
    """Return the tensors that a kernel writes: the outputs, or in backward the inputs that can have a gradient."""
    return op.outputs if direction == "forward" else tuple(arg for arg in op.inputs if arg.gradient)


class Arguments:
    """The record of an operator's kernels in C++: a struct, which is a template over ``variables``.

    ``attributes``, ``derived`` and ``scratch`` are what it takes over from the contract.
    """

    C_TYPES = {"float16": "Half", "float32": "float", "float64": "double", "uint8": "uint8_t", "int8": "int8_t",
               "int32": "int32_t", "int64": "int64_t"}

    def __init__(self, op: Op):
        self.op = op
        self.name = f"{camel(op.name)}Args"
        self.variables: tuple[str, ...] = ("T",)
        self.attributes = attributes(op)
        self.derived = derived_numbers(op, op.derived)
        self.scratch: tuple[Array, ...] = op.scratch

    @classmethod
    def c_type(cls, dtype: str) -> str:
        """Return the C++ type of a dtype. A name that is no dtype stands for itself."""
        return cls.C_TYPES.get(dtype, dtype)

    def template(self) -> str:
        """Return the line ``template <...>`` of the declaration, and of all that depends on the same types."""
        return f"template <{', '.join(f'typename {variable}' for variable in self.variables)}>"

    def declaration(self) -> list[str]:
        """Return the lines of the struct."""
        members = ["typedef typename Accumulator<T>::type A;", *self._own(), *self._tensors(), *self._numbers(),
                   *self._memory()]
        return ["// The arguments of a kernel, which computes in A. What a pass neither reads nor writes is null.",
                self.template(), f"struct {self.name} {{", *[f"    {member}" for member in members], "};"]

    def _own(self) -> Iterable[str]:
        """Return the members that only the record in CUDA has."""
        return ()

    def _tensors(self) -> Iterator[str]:
        for arg in self.op.inputs:
            yield self._pointer(arg.name, arg.dtype, "const ")
        for out in self.op.outputs:
            yield f"{self._pointer(out.name, out.dtype)}   // {out.doc}"
        for out in self.op.outputs:
            if f"{out.name}_grad" in self.op.backward:
                yield f"{self._pointer(f'{out.name}_grad', out.dtype, 'const ')}   // backward reads it"
        for arg in written(self.op, "backward"):
            yield f"{self._pointer(f'{arg.name}_grad', self._gradient_dtype(arg.dtype))}   // backward writes it"

    def _pointer(self, name: str, dtype: str, const: str = "") -> str:
        """Return the member of a tensor. Only the data's type and A are known when the kernels are compiled."""
        return f"{const}{dtype} *{name};" if dtype in ("T", "A") else f"AnyArray {name};"

    def _gradient_dtype(self, dtype: str) -> str:
        """Return the dtype of a gradient, from that of its input."""
        return "T"

    def _numbers(self) -> Iterator[str]:
        """Yield the members of the dimensions, the attributes and the derived numbers."""
        if self.op.dims:
            yield f"int64_t {', '.join(self.op.dims)};"
        for attr in self.attributes:
            if isinstance(attr.kind, Choice):   # a family's files name the words
                yield f"typedef {enumeration_of(self.op.name, attr)} {camel(attr.name)};"
            yield f"{attribute_type(self.op, attr)} {attr.name};"
        for name, number in self.derived.items():
            length = f"[{number.count}]" if number.count else ""
            yield f"{self.c_type(number.dtype)} {name}{length};   // {number.expression or 'from derive()'}"

    def _memory(self) -> Iterator[str]:
        for array in {array.name: array for array in self.scratch}.values():
            yield f"{self.c_type(array.dtype)} *{array.name};   // {array.size}"
