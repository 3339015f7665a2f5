"""Write docs/matrix.md from the counts of ``tests/matrix_recorder.py``: ``tools/matrix.py FILE``."""
from __future__ import annotations

import collections
import itertools
import json
import pathlib
import sys
from collections.abc import Iterator

from gluonops.core import registry
from gluonops.core.contract import Op

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "matrix.md"

AXES = {
    "backend": ("custom", "reference", "native", "builtin", "cuda"),
    "mode": ("imperative", "hybridized", "static", "reloaded", "executor", "module"),
    "dtype": ("float16", "float32", "float64", "uint8", "int8", "int32", "int64"),
    "request": ("write", "add", "null"),
    "shape": ("size 1", "prime", "offset", "empty"),
}
KERNELS = {"native": "kernel.cc", "cuda": "kernel.cu"}
INTEGERS = AXES["dtype"][3:]

# Why some or all operators have no test of a pair of values: the values on its two sides.
REASONS = {
    "Integers have no gradient.": (INTEGERS, AXES["request"]),
    "Executors, modules, `add` and `null` run the first case of an operator: a kernel does not know of them.": (
        ("executor", "module", "add", "null"), ("size 1", "prime", "offset", "empty")),
    "A Module binds an executor, which runs every dtype and request.": (
        ("module",), ("float16", "float64", *INTEGERS, "add", "null")),
    "An array inside another is bound to an executor, because layers make their own.": (
        ("offset",), ("imperative", "hybridized", "static", "reloaded", "module")),
    "A batch of 0 is an imperative call, because MXNet's own operators do not take it in a graph.": (
        ("empty",), ("hybridized", "static", "reloaded", "executor", "module")),
}
HEAD = """\
# What the operators' tests vary

Every operator runs in each backend, mode, dtype, request and class of shapes. `make matrix` runs the checks that all
operators share (`tests/op_suite.py`), counts those that pass, and writes this page. Nearly all of them compare the
output and every gradient with the operator's oracle in float64.

- **Backends**: `reference` is `custom` without the C++ library, and `cuda` is `custom` with its CUDA kernels, run on
  the CPU.
- **Modes**: `static` is hybridized with static memory, `reloaded` is a graph that was written as JSON and read again,
  `executor` is a graph that is bound to arrays.
- **Requests** of the gradient: tests of integers have none.
- **Shapes** of the first input: `size 1` has a size of 1, `prime` one that is a prime from 5 on, `offset` begins inside
  a larger array, `empty` has a batch of 0. Others are in no column.
"""
OPERATORS = """\
## By operator
A cell is the number of tests. The first columns are backends, the others dtypes. `combinations` counts the different
ones of backend, mode, dtype, request and shape. A dash: the contract does not declare it.
"""
PAIRS = """\
## By pair
A cell says how many operators have a test of both values. `of` says how many can, and is left out where there is a
reason that not all do:
"""


def can_have(op: Op, value: str) -> bool:
    """Whether an operator can run with a value: a backend, a dtype, or another one."""
    if value in AXES["dtype"]:
        return value in op.types["T"]
    return KERNELS.get(value) not in op.unsupported


def reason(left: str, right: str) -> str | None:
    """Why no test has a pair of values; None if some should."""
    for text, (some, others) in REASONS.items():
        if (left in some and right in others) or (right in some and left in others):
            return text
    return None


def separate(values: list[str]) -> list[str]:
    """A test's values, of which a shape may have two."""
    *others, shapes = values
    return [*others, *shapes.split(" and ")]


def by_value(counts: list) -> dict[str, collections.Counter]:
    """The number of tests of each operator, by value."""
    tests = collections.defaultdict(collections.Counter)
    for operator, *values, count in counts:
        for value in separate(values):
            tests[operator][value] += count
    return tests


def by_pair(counts: list) -> dict[frozenset, set[str]]:
    """The operators that have a test of a pair of values."""
    having = collections.defaultdict(set)
    for operator, *values, _ in counts:
        for pair in itertools.combinations(separate(values), 2):
            having[frozenset(pair)].add(operator)
    return having


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def operators_table(counts: list) -> Iterator[str]:
    """The table by operator."""
    tests = by_value(counts)
    combinations = collections.Counter(operator for operator, *_ in counts)
    columns = (*AXES["backend"], *AXES["dtype"])
    yield row("operator", *columns, "combinations")
    yield "|---" * (len(columns) + 2) + "|"
    for name in registry.entries():
        op = registry.get(name).op
        cells = [tests[name][column] if can_have(op, column) else "-" for column in columns]
        yield row(name, *cells, combinations[name])


def pair_tables(counts: list) -> Iterator[str]:
    """A table for each pair of axes."""
    having = by_pair(counts)
    for rows, columns in itertools.combinations(AXES, 2):
        yield row(f"{rows}, {columns}", *AXES[columns])
        yield "|---" * (len(AXES[columns]) + 1) + "|"
        for left in AXES[rows]:
            yield row(left, *(pair_cell(left, right, having) for right in AXES[columns]))
        yield ""


def pair_cell(left: str, right: str, having: dict[frozenset, set[str]]) -> str:
    """How many operators have a test of a pair, of those that can."""
    found = len(having[frozenset((left, right))])
    if reason(left, right):
        return str(found or "")
    return f"{found} of {len(able(left, right))}"


def able(left: str, right: str) -> set[str]:
    """The operators that can have both values."""
    return {name for name, entry in registry.entries().items()
            if can_have(entry.op, left) and can_have(entry.op, right)}


def gaps(counts: list) -> Iterator[str]:
    """The pairs that an operator can have, and has no test of, without a reason."""
    having = by_pair(counts)
    for rows, columns in itertools.combinations(AXES, 2):
        for left, right in itertools.product(AXES[rows], AXES[columns]):
            missing = able(left, right) - having[frozenset((left, right))]
            if missing and not reason(left, right):
                yield f"- {left}, {right}: {', '.join(sorted(missing))}"


def page(counts: list) -> str:
    """The whole page."""
    total = sum(count for *_, count in counts)
    reasons = [f"- {text}" for text in REASONS]
    return "\n".join([HEAD, f"The last run counted {total:,} tests of {len(counts):,} combinations.", "",
                      OPERATORS, *operators_table(counts), "", PAIRS, *reasons, "", *pair_tables(counts),
                      "## Gaps", "Pairs that an operator could have, and has no test of:", "",
                      *(list(gaps(counts)) or ["- none"]), ""])


def main() -> None:
    file, = sys.argv[1:]
    PAGE.write_text(page(json.loads(pathlib.Path(file).read_text(encoding="utf-8"))), encoding="utf-8")
    print(f"{PAGE} is written")


if __name__ == "__main__":
    main()
