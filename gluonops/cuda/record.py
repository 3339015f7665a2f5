"""What a CUDA kernel is launched with, which follows from the contract: its record, its parameters, and their values.

``mx.rtc`` passes pointers and numbers only. So each kernel that it launches, ``<op>_forward``, has them as its
parameters, puts them into the record, and calls ``forward(const <Op>Args<T> &args)`` of ``kernel.cu``, or the function
that the contract names. Besides what :mod:`.arguments` has, CUDA's record has the requests of the tensors.
"""
from __future__ import annotations

import ast
import math
import re
import types
import typing
from collections.abc import Iterator

import numpy as np

from ..contract.arguments import Arguments, attribute_type, attributes, derived_numbers, enumerations, written
from ..contract.attributes import Attr, Choice, IntOrTuple
from ..contract.declarations import Array, Launch, Number, accumulator
from ..contract.expressions import expression
from ..contract.op import Op

C_TYPES = {**Arguments.C_TYPES, "float16": "__half"}
MEMORY_TYPES = {"uint16": "unsigned short", "uint32": "unsigned", "uint64": "unsigned long long", **C_TYPES}


# -- the members ---------------------------------------------------------------------------------------------------
class Member(typing.NamedTuple):
    """A member of the record that is no tensor."""

    name: str
    parameters: tuple[tuple[str, str], ...]   # types, with type variables, and names of the kernel's
    values: dict[str, str]                    # what the member, or its members, are set to
    # Returns the value of each parameter, a number or a tuple of floats, from the value in Python.
    arguments: typing.Callable[[typing.Any], tuple]


# The parameters, values and arguments of a :class:`Member` by the type of the member. {} stands for its name.
_MEMBER_KINDS = {
    "int64_t": ((("int64_t", "{}"),), {"": "{}"}, lambda value: (int(value),)),
    "bool": ((("int64_t", "{}"),), {"": "{} != 0"}, lambda value: (int(value),)),
    "double": ((("double", "{}"),), {"": "{}"}, lambda value: (float(value),)),
    "A": ((("double", "{}"),), {"": "A({})"}, lambda value: (float(value),)),
    "Optional<int64_t>": ((("int64_t", "{}_has_value"), ("int64_t", "{}")),
                          {".has_value": "{}_has_value != 0", ".value": "{}"},
                          lambda value: (int(value is not None), int(value or 0))),
    "Optional<double>": ((("int64_t", "{}_has_value"), ("double", "{}")),
                         {".has_value": "{}_has_value != 0", ".value": "{}"},
                         lambda value: (int(value is not None), float(value or 0))),
    "List<double>": ((("const double *", "{}"), ("int64_t", "{}_count")), {".values": "{}", ".count": "{}_count"},
                     lambda value: (value or (0.0,), len(value or ()))),
    "Weights<A>": ((("const A *", "{}"), ("double", "{}_sum"), ("int64_t", "{}_has_value")),
                   {".values": "{0}_has_value ? {0} : 0", ".sum": "{}_sum"},
                   lambda value: (value or (1.0,), math.fsum(value or ()), int(value is not None))),
}


def _member(name: str, c_type: str) -> Member:
    parameters, values, arguments = _MEMBER_KINDS[c_type]
    return Member(name, tuple((kind, text.format(name)) for kind, text in parameters),
                  {part: text.format(name) for part, text in values.items()}, arguments)


def _member_of_attribute(op: Op, attr: Attr) -> Member:
    c_type = attribute_type(op, attr)
    if isinstance(attr.kind, Choice):
        return Member(attr.name, (("int64_t", attr.name),), {"": f"{c_type}({attr.name})"},
                      lambda word: (attr.kind.words.index(word),))
    return _member(attr.name, c_type)


def _member_of_number(name: str, number: Number) -> Member:
    if number.count:
        parameters = tuple(("int64_t", f"{name}{i}") for i in range(number.count))
        return Member(name, parameters, {f"[{i}]": f"{name}{i}" for i in range(number.count)}, tuple)
    return _member(name, C_TYPES.get(number.dtype, number.dtype))


def _derived(op: Op) -> dict[str, Number]:
    """Return the derived numbers of CUDA's record. A number that C++ computes with ``derive`` is not among them."""
    numbers = derived_numbers(op, {**op.derived, **op.cuda.derived})
    return {name: number for name, number in numbers.items() if number.expression or name in op.cuda.derived}


def _attributes(op: Op) -> list[Attr]:
    """Return the attributes of CUDA's record, without tuples of repeat counts, which derived numbers replace."""
    return [attr for attr in attributes(op) if not isinstance(attr.kind, IntOrTuple)]


def members(op: Op) -> tuple[Member, ...]:
    """Return the dimensions, attributes and derived numbers of CUDA's record."""
    return (*[_member(name, "int64_t") for name in op.dims],
            *[_member_of_attribute(op, attr) for attr in _attributes(op)],
            *[_member_of_number(name, number) for name, number in _derived(op).items()])


def read(op: Op, direction: str) -> list[str]:
    """Return the names of the tensors that a kernel reads."""
    return [arg.name for arg in op.inputs] if direction == "forward" else list(op.backward)


def written_name(tensor: typing.Any, direction: str) -> str:
    """Return the name of what a kernel writes for a tensor."""
    return tensor.name if direction == "forward" else f"{tensor.name}_grad"


def scratch(op: Op, direction: str) -> list[Array]:
    """Return the scratch memory of a pass."""
    return [array for array in op.cuda.scratch if array.direction in (None, direction)]


def _is_struct(array: Array) -> bool:
    """Return whether the elements of an array are structs of ``kernel.cu``."""
    return array.dtype not in ("T", "A", *MEMORY_TYPES)


def _variable(dtype: str) -> str:
    """Return the type variable of a tensor's elements.

    Where an attribute decides between T and another one, it is the other one, which then stands for T as well.
    """
    tree = expression(dtype).tree
    return tree.id if isinstance(tree, ast.Name) else tree.body.id


def _variable_of(op: Op, name: str) -> str:
    """Return the type of the elements of a tensor or of its gradient."""
    return _variable(next(tensor.dtype for tensor in op.tensors if name in (tensor.name, f"{tensor.name}_grad")))


# -- the text ------------------------------------------------------------------------------------------------------
def parameters(op: Op, direction: str) -> list[tuple[str, str]]:
    """Return the type and the name of each parameter of a kernel, in order. The types have the type variables."""
    tensors = written(op, direction)
    pairs = [(f"const {_variable_of(op, name)} *", name) for name in read(op, direction)]
    pairs += [(f"{_variable(tensor.dtype)} *", written_name(tensor, direction)) for tensor in tensors]
    pairs += [("double *", array.name) for array in scratch(op, direction)]
    pairs += [("int", f"{written_name(tensor, direction)}_request") for tensor in tensors]
    if op.cuda.steps:
        pairs.append(("int64_t", "step"))
    return pairs + [parameter for member in members(op) for parameter in member.parameters]


class CudaArguments(Arguments):
    """The record in CUDA: a template over all type variables, with the words of launches and the tensors' requests."""

    C_TYPES = MEMORY_TYPES

    def __init__(self, op: Op):
        super().__init__(op)
        self.variables = tuple(op.types)
        self.attributes = _attributes(op)
        self.derived = _derived(op)
        self.scratch = op.cuda.scratch

    @property
    def type(self) -> str:
        """The struct, with its template parameters."""
        return f"{self.name}<{', '.join(self.variables)}>"

    def _own(self) -> Iterator[str]:
        yield "typedef T Data;"
        if self.op.cuda.steps:
            yield f"enum Step {{ {', '.join(self.op.cuda.steps)} }};"
            yield "int64_t step;"
        names = [written_name(tensor, direction) for direction in ("forward", "backward")
                 for tensor in written(self.op, direction)]
        yield f"int {', '.join(f'{name}_request' for name in names)};"

    def _pointer(self, name: str, dtype: str, const: str = "") -> str:
        return f"{const}{_variable(dtype)} *{name};"

    def _gradient_dtype(self, dtype: str) -> str:
        return dtype


def declaration(op: Op) -> str:
    """Return the text of the record, with the enumerations of attributes and the structs in memory in front."""
    names = dict.fromkeys(array.dtype for array in op.cuda.scratch if _is_struct(array))
    structs = [f"{'template <typename A> ' if name.endswith('<A>') else ''}struct {name.replace('<A>', '')};"
               for name in names]
    return "\n".join([*enumerations(op), *structs, *CudaArguments(op).declaration(), ""])


def kernels(op: Op) -> str:
    """Return the text of the kernels that ``mx.rtc`` launches, behind ``kernel.cu``."""
    return "\n".join(line for direction in ("forward", "backward") for line in _kernel(op, direction))


def _kernel(op: Op, direction: str) -> list[str]:
    bounds = getattr(op.cuda, f"{direction}_bounds")
    call = getattr(op.kernels, direction) if op.kernels else f"{direction}(args)"
    declared = [_text(c_type).replace("*", "*__restrict__ ") + ("" if "*" in c_type else " ") + name
                for c_type, name in parameters(op, direction)]
    record = CudaArguments(op)
    lines = [f"args.{name} = {value};" for name, value in _values(op, direction, record)]
    lines += [f'static_assert(sizeof(*args.{array.name}) <= {8 * array.numbers}, "It needs more numbers in its Array");'
              for array in scratch(op, direction) if _is_struct(array)]
    return [record.template(),
            f"__global__ void {f'__launch_bounds__({bounds}) ' if bounds else ''}{op.name}_{direction}(",
            *[f"    {parameter}," for parameter in declared[:-1]], f"    {declared[-1]})", "{",
            f"    {record.type} args = {{}};", *[f"    {line}" for line in lines], f"    {call};", "}", ""]


def _values(op: Op, direction: str, record: CudaArguments) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each member of the record that a pass has."""
    outputs = [out.name for out in op.outputs]
    for name in read(op, direction):
        is_written_in_forward = name in outputs
        yield name, f"const_cast<{_text(_variable_of(op, name))} *>({name})" if is_written_in_forward else name
    for tensor in written(op, direction):
        name = written_name(tensor, direction)
        yield name, name
        yield f"{name}_request", f"{name}_request"
    for array in scratch(op, direction):
        c_type = _text(record.c_type(array.dtype)).replace(f"<{_text('A')}>", f"<typename {record.type}::A>")
        yield array.name, f"reinterpret_cast<{c_type} *>({array.name})"
    if op.cuda.steps:
        yield "step", "step"
    for member in members(op):
        for part, value in member.values.items():
            yield f"{member.name}{part}", _text(value)


def _text(text: str) -> str:
    """Return a text as it is written outside of the record, where A has no name."""
    return re.sub(r"\bA\b", "typename Accumulator<T>::type", text)


def signature(op: Op, direction: str, dtypes: dict[str, str]) -> str:
    """Return the parameters of a kernel as ``mx.rtc`` spells them.

    ``dtypes`` has the dtype of each type variable, ``"A"`` included.
    """
    spelled = {variable: C_TYPES[dtype] for variable, dtype in dtypes.items()}
    parts = []
    for c_type, name in parameters(op, direction):
        c_type = re.sub(r"\w+", lambda word: spelled.get(word[0], word[0]), c_type)
        parts.append(f"{c_type}{'' if '*' in c_type else ' '}{name}")
    return ", ".join(parts)


def table_dtypes(op: Op, dtypes: dict[str, str]) -> dict[str, str]:
    """Return the dtype of the array for each parameter that is a tuple of numbers."""
    c_types = {name: c_type for member in members(op) for c_type, name in member.parameters if "*" in c_type}
    return {name: dtypes["A"] if " A " in c_type else "float64" for name, c_type in c_types.items()}


# -- what fills it -------------------------------------------------------------------------------------------------
class Plan(typing.NamedTuple):
    """What a pass launches, except for the tensors and their requests."""

    launch: Launch
    steps: tuple[int, ...]   # the argument ``step`` of each launch, which has none if there are no words for steps
    scratch: dict[str, int]  # the size of each array of scratch memory, in float64
    # The parameters behind ``step``. A tuple is an array in device memory.
    arguments: dict[str, int | float | tuple[float, ...]]


def plan(op: Op, direction: str, attrs: tuple, shapes: dict[str, tuple], dtype: str) -> Plan:
    """Return the plan of a pass. ``shapes`` has the shape of every tensor, and ``dtype`` is that of the data."""
    numbers = _numbers(op, attrs, shapes)
    launch = getattr(op.cuda, direction)(types.SimpleNamespace(**numbers, dtype=dtype))
    arguments = {}
    for member in members(op):
        arguments.update(zip([name for _, name in member.parameters], member.arguments(numbers[member.name])))
    values = {**numbers, **op.constants, "splits": launch.splits}
    sizes = {array.name: _float64s(array, expression(array.size)(values), dtype) for array in scratch(op, direction)}
    steps = tuple(op.cuda.steps.index(step) for step in launch.steps) or (0,)
    return Plan(launch, steps, sizes, arguments)


def _numbers(op: Op, attrs: tuple, shapes: dict[str, tuple]) -> dict:
    """Return every number of the record by name. An attribute in ``counts`` has a number for each index afterwards."""
    numbers = {**attrs._asdict(), **op.dim_sizes(attrs, shapes)}
    for name, dimension in op.counts.items():
        weights = numbers[name]
        if weights is not None and len(weights) == 1:
            numbers[name] = weights * numbers[dimension]
    tensors = {name: types.SimpleNamespace(ndim=len(shape), size=math.prod(shape), samples=math.prod(shape[:1]))
               for name, shape in ((arg.name, shapes[arg.name]) for arg in op.inputs)}
    computed = op.cuda.derive(attrs, shapes) if op.cuda.derive else {}
    values = {**tensors, **op.constants, **numbers}
    for name, number in _derived(op).items():
        numbers[name] = values[name] = expression(number.expression)(values) if number.expression else computed[name]
    return numbers


def _float64s(array: Array, size: int, dtype: str) -> int:
    """Return how many float64 have room for an array of scratch memory. There is at least one."""
    item = {"T": dtype, "A": accumulator(dtype)}.get(array.dtype, array.dtype)
    item_bytes = np.dtype(item).itemsize if item in MEMORY_TYPES else 8 * array.numbers
    return max(1, math.ceil(size * item_bytes / 8))
