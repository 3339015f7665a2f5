"""The cases: large ones to be timed, and small ones for every path of every kernel.

An operator's rows are in the module ``rows/<op>.py``, which imports neither gluonops nor MXNet: a machine with a GPU
may have neither. The module may have

``TYPICAL``
    rows that every float type goes through;
``SMALL``
    odd little rows, which are also added to, offset, and given labels of integers;
``INTEGERS``
    rows for the integer types, where the operator takes them; those of ``SMALL`` unless given;
``VARIANTS``
    rows for what the attributes bring, in float32;
``LARGE``
    rows to be timed;
``draw(attrs, shapes, rng)``
    inputs by name in place of those that the oracle, or plain random numbers, would give;
``ALL_OUTPUTS``
    attributes with which the function returns every output that it can;
``EXACT``
    the names of results that have to be equal to NumPy's, because elements only move;
``COMPARED``
    how many elements NumPy computes at most;
``independent(attrs, ndim)``
    whether a result depends on its own row of the first axis alone: then some rows can be compared without the others;
``DECIDING``
    pass -> how many of its first launches decide what later ones do: the model executes all blocks of these;
``LIGER``
    whether Liger-Kernel has a function that does the same as that of torch;
``TARGETS``
    see :class:`Target`.

torch's functions are in :mod:`benchmarks.common.torch_peers`.
"""
import dataclasses
import types
from collections.abc import Iterable, Iterator
from typing import Optional

from ..common import suites

FLOATS = ("float32", "float16", "float64")
INTEGERS = ("uint8", "int8", "int32", "int64")
LABELS = ("int32", "uint8")   # the types of class indices beyond float32


@dataclasses.dataclass(frozen=True)
class Row:
    """A shape of the data, attributes, and the shapes of inputs that do not follow from the data's."""
    shape: tuple
    attrs: dict = dataclasses.field(default_factory=dict)
    more: dict = dataclasses.field(default_factory=dict)
    dtype: str = "float32"


@dataclasses.dataclass(frozen=True)
class Target:
    """``at_least``: of the speed of the peer, which for copy is that of a copy of as many bytes."""
    part: str
    than: str
    at_least: float


# Of an operator that only moves its data.
AS_FAST_AS_A_COPY = [
    Target("forward", "copy", 0.9),
    Target("backward", "copy", 0.9),
    Target("forward", "torch", 1),
    Target("both", "torch", 1),
]

# Of an operator that computes while it moves its data.
COMPUTING = 0.85
NEARLY_AS_FAST_AS_A_COPY = [Target("forward", "copy", COMPUTING), Target("backward", "copy", COMPUTING)]


@dataclasses.dataclass(frozen=True)
class Case:
    """An operator at one shape and dtype of its data.

    ``more``: shapes of the inputs that do not follow from the data's. ``label``: the dtype of class indices.
    ``request``: whether what is computed is written or added to what is there. ``offset``: so many elements behind an
    aligned address every tensor starts.
    """
    op: str
    shape: tuple
    dtype: str = "float32"
    attrs: dict = dataclasses.field(default_factory=dict)
    more: dict = dataclasses.field(default_factory=dict)
    label: str = "float32"
    request: str = "write"
    offset: int = 0

    @property
    def name(self) -> str:
        words = [self.op, *(_attribute(key, value) for key, value in self.attrs.items())]
        words += [f"{name} {_dimensions(shape)}" for name, shape in self.more.items()]
        if self.label != "float32":
            words.append(f"label {self.label}")
        if self.request == "add":
            words.append("add")
        if self.offset:
            words.append(f"offset {self.offset}")
        return " ".join(words)


def _attribute(key, value):
    if isinstance(value, tuple):
        return _dimensions(value)
    return value if isinstance(value, str) else f"{key}={value}"


def _dimensions(shape):
    return "x".join(map(str, shape))


def rows(op: str) -> types.ModuleType:
    """The rows of an operator, from its module; an empty module if it has none."""
    return suites.rows_of(__package__, op) or types.ModuleType(op)


def cases(quick: bool = False, ops: Optional[Iterable[str]] = None) -> list[Case]:
    """Every case of every operator that has CUDA kernels.

    Parameters
    ----------
    quick : bool, default False
        Small cases with odd sizes, to find memory errors, not to measure speed.
    ops : iterable of str, optional
        Only these operators.
    """
    from gluonops.core import registry

    result = []
    for op, entry in registry.entries().items():
        if entry.op.cuda is not None and (ops is None or op in ops):
            declared = suites.rows_of(__package__, op) or derived(op)
            result += _quick(op, entry.op.types, declared) if quick else _large(op, declared)
    return result


def _large(op: str, declared: types.ModuleType) -> Iterator[Case]:
    for row in declared.LARGE:
        yield Case(op, row.shape, row.dtype, row.attrs, row.more)


def _quick(op: str, dtypes: dict, declared: types.ModuleType) -> Iterator[Case]:
    """Every row in every dtype that its list covers."""
    def case(row, dtype="float32", **how):
        return Case(op, row.shape, dtype, row.attrs, row.more, **how)

    for dtype in FLOATS:
        for row in declared.TYPICAL:
            yield case(row, dtype)
    for dtype in INTEGERS:
        if dtype in dtypes["T"]:
            for row in getattr(declared, "INTEGERS", declared.SMALL):
                yield case(row, dtype)
    for row in getattr(declared, "VARIANTS", ()):
        yield case(row)
    for row in declared.SMALL:
        yield case(row, request="add")
        yield case(row, offset=1)
        yield case(row, "float16", request="add", offset=3)
    if "L" in dtypes:
        for label in LABELS:
            for row in declared.SMALL:
                yield case(row, label=label)


def derived(op: str) -> types.ModuleType:
    """Rows of an operator that declares none: the cases of its suite, and one of a typical size."""
    from gluonops.bench.cases import typical
    from gluonops.core import registry

    contract, suite = registry.get(op).op, suites.get(op)
    first = contract.inputs[0].name

    def row(shapes, attrs):
        others = {name: tuple(shape) for name, shape in shapes.items() if name != first}
        return Row(tuple(shapes[first]), dict(attrs), others)

    small = []
    for case in suite.cases:
        shapes = {arg.name: shape for arg, shape in zip(contract.inputs, case.shapes)}
        small.append(row(shapes, case.attrs))
    large = typical(op)
    made = types.ModuleType(op)
    made.TYPICAL, made.SMALL, made.LARGE = small, small[:1], [row(large.shapes, large.attrs)]
    return made
