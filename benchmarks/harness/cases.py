"""The cases that follow from the declarations of operators: for the CPU, a GPU, and two commits.

An operator that ``benchmarks/operators`` does not declare has the cases of its suite in ``tests/ops``, and one of a
typical size.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from .declaration import DECLARED, Declaration, Row

FLOATS = ("float32", "float16", "float64")
INTEGERS = ("uint8", "int8", "int32", "int64")
LABELS = ("int32", "uint8")   # the types of class indices beyond float32
NODES = 64                    # operators in a chain
LONGEST = 5                   # numbers of an attribute that are in a case's name


@dataclasses.dataclass(frozen=True)
class Case:
    """An operator at one shape and dtype of its data.

    ``more``: shapes of the inputs that do not follow from the data's. ``label`` is the dtype of class indices.
    ``request`` says whether what is computed is written or added to what is there. ``offset``: so many elements behind
    an aligned address every tensor starts. ``nodes`` say how many operators there are in a chain.
    """
    op: str
    shape: tuple
    dtype: str = "float32"
    attrs: dict = dataclasses.field(default_factory=dict)
    more: dict = dataclasses.field(default_factory=dict)
    label: str = "float32"
    request: str = "write"
    offset: int = 0
    nodes: int = 1

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
        if self.nodes > 1:
            words.append("per node")
        return " ".join(words)

    @property
    def title(self) -> str:
        return title({"name": self.name, "shape": self.shape, "dtype": self.dtype})


def title(record: dict) -> str:
    """The name of a case with the shape and dtype of its data."""
    return f"{record['name']} ({_dimensions(record['shape'])}) {record['dtype']}"


def _attribute(key, value):
    if isinstance(value, tuple):
        return _dimensions(value) if len(value) <= LONGEST else f"{key} of {len(value)}"
    return value if isinstance(value, str) else f"{key}={value}"


def _dimensions(shape):
    return "x".join(map(str, shape))


def declared(op: str) -> Declaration:
    """What is declared of an operator."""
    from .. import operators  # noqa: F401  (they declare themselves)

    return DECLARED.get(op, Declaration)()


def with_rows(op: str) -> Declaration:
    """The same, with rows for what has none; they follow from the operator's suite and contract. Needs gluonops."""
    from gluonops.bench.cases import typical

    from . import suites

    declaration = declared(op)
    if not declaration.SMALL:
        declaration.TYPICAL = [row(op, case.shapes, case.attrs) for case in suites.get(op).cases]
        declaration.SMALL = declaration.TYPICAL[:1]
    if not (declaration.CPU and declaration.GPU):
        large = typical(op)
        timed = row(op, large.shapes.values(), large.attrs)
        declaration.CPU, declaration.GPU = declaration.CPU or [timed], declaration.GPU or [timed]
    return declaration


def row(op: str, shapes: Iterable[tuple], attrs: dict) -> Row:
    """A row with the shapes of all inputs."""
    from gluonops.contract import registry

    first, *others = registry.get(op).op.inputs
    shape, *more = map(tuple, shapes)
    return Row(shape, dict(attrs), {arg.name: shape for arg, shape in zip(others, more)})


def on_cpu(ops: Iterable[str], quick: bool = False) -> Iterator[Case]:
    """The cases that are timed beside the peers; the small ones if ``quick``."""
    for op in ops:
        declaration = with_rows(op)
        for one in declaration.SMALL[:1] if quick else declaration.CPU:
            yield case(op, one)
        for one in declaration.CHAINED:
            yield case(op, one, nodes=NODES)


def of_commits(ops: Iterable[str]) -> Iterator[Case]:
    """The first case of an operator's suite, whose time is the cost of a call, and its rows."""
    from . import suites

    for op in ops:
        first, declaration = suites.get(op).cases[0], with_rows(op)
        for one in (row(op, first.shapes, first.attrs), *declaration.CPU, *declaration.COMMITS):
            yield case(op, one)


def on_gpu(ops: Iterable[str], quick: bool = False) -> Iterator[Case]:
    """The cases that are timed on a GPU; small ones for every path of every kernel if ``quick``."""
    from gluonops.contract import registry

    for op in ops:
        if quick:
            yield from _small(op, registry.get(op).op.types)
        else:
            yield from (case(op, one) for one in with_rows(op).GPU)


def _small(op: str, dtypes: dict) -> Iterator[Case]:
    """Every row in every dtype that its list covers."""
    declaration = with_rows(op)
    for dtype in FLOATS:
        for one in declaration.TYPICAL:
            yield case(op, one, dtype)
    for dtype in INTEGERS:
        if dtype in dtypes["T"]:
            for one in declaration.SMALL if declaration.INTEGERS is None else declaration.INTEGERS:
                yield case(op, one, dtype)
    for one in declaration.VARIANTS:
        yield case(op, one)
    for one in declaration.SMALL:
        yield case(op, one, request="add")
        yield case(op, one, offset=1)
        yield case(op, one, "float16", request="add", offset=3)
    if "L" in dtypes:
        for label in LABELS:
            for one in declaration.SMALL:
                yield case(op, one, label=label)


def case(op: str, one: Row, dtype: str | None = None, **how) -> Case:
    """The case of a row, in its own dtype unless another is given."""
    return Case(op, one.shape, dtype or one.dtype, one.attrs, one.more, **how)
