"""Write docs/matrix.json from the counts of ``tests/matrix_recorder.py``: ``tools/matrix.py FILE``.

``make docs`` turns that file into the tables of docs/matrix.md.
"""
from __future__ import annotations

import collections
import itertools
import json
import pathlib
import sys
from collections.abc import Iterator

from gluonops.contract import registry
from gluonops.contract.op import Op

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA = ROOT / "docs" / "matrix.json"
sys.path.insert(0, str(ROOT))   # benchmarks/ is no installed package
from benchmarks.harness import results  # noqa: E402

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


def condense(counts: list) -> dict:
    """What the page needs of the counts.

    Returns
    -------
    dict
        ``operators``: of each operator the number of tests by value, and of different combinations as
        ``combinations``. ``lacking``: for each pair of values, the operators that can have it and have no test of it.
    """
    tests, having = by_value(counts), by_pair(counts)
    combinations = collections.Counter(operator for operator, *_ in counts)
    operators = {name: {**tests[name], "combinations": combinations[name]} for name in sorted(tests)}
    lacking = {f"{left}, {right}": sorted(able(left, right) - having[frozenset((left, right))])
               for left, right in pairs()}
    return {"operators": operators, "lacking": {pair: names for pair, names in lacking.items() if names}}


def pairs() -> Iterator[tuple[str, str]]:
    """Every two values of different axes."""
    for rows, columns in itertools.combinations(AXES, 2):
        yield from itertools.product(AXES[rows], AXES[columns])


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def operators_table(operators: dict) -> Iterator[str]:
    """The table by operator."""
    columns = (*AXES["backend"], *AXES["dtype"])
    yield row("operator", *columns, "combinations")
    yield "|---" * (len(columns) + 2) + "|"
    for name, tests in operators.items():
        op = registry.get(name).op
        cells = [tests.get(column, 0) if can_have(op, column) else "-" for column in columns]
        yield row(name, *cells, tests["combinations"])


def pair_tables(lacking: dict) -> Iterator[str]:
    """A table for each pair of axes."""
    for rows, columns in itertools.combinations(AXES, 2):
        yield row(f"{rows}, {columns}", *AXES[columns])
        yield "|---" * (len(AXES[columns]) + 1) + "|"
        for left in AXES[rows]:
            yield row(left, *(pair_cell(left, right, lacking) for right in AXES[columns]))
        yield ""


def pair_cell(left: str, right: str, lacking: dict) -> str:
    """How many operators have a test of a pair, of those that can."""
    can = len(able(left, right))
    found = can - len(lacking.get(f"{left}, {right}", ()))
    return str(found or "") if reason(left, right) else f"{found} of {can}"


def able(left: str, right: str) -> set[str]:
    """The operators that can have both values."""
    return {name for name, entry in registry.entries().items()
            if can_have(entry.op, left) and can_have(entry.op, right)}


def gaps(lacking: dict) -> Iterator[str]:
    """The pairs that an operator can have, and has no test of, without a reason."""
    for left, right in pairs():
        names = lacking.get(f"{left}, {right}")
        if names and not reason(left, right):
            yield f"- {left}, {right}: {', '.join(names)}"


def page(data: dict) -> str:
    """The tables of the page, from what :func:`condense` returns."""
    operators, lacking = data["operators"], data["lacking"]
    total = sum(tests[backend] for tests in operators.values() for backend in AXES["backend"] if backend in tests)
    combinations = sum(tests["combinations"] for tests in operators.values())
    reasons = [f"- {text}" for text in REASONS]
    return "\n".join([f"The last run counted {total:,} tests of {combinations:,} combinations.", "",
                      OPERATORS, *operators_table(operators), "", PAIRS, *reasons, "", *pair_tables(lacking),
                      "## Gaps", "Pairs that an operator could have, and has no test of:", "",
                      *(list(gaps(lacking)) or ["- none"]), ""])


def main() -> None:
    file, = sys.argv[1:]
    results.save(DATA, condense(json.loads(pathlib.Path(file).read_text(encoding="utf-8"))))
    print(f"{DATA} is written")


if __name__ == "__main__":
    main()
