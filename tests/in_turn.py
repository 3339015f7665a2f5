"""Tests that take their values in turn, where pytest makes a test of each with ``parametrize``.

pytest, its workers and the fixtures need 3 to 5 ms for a test, which is more than many values need. Each turn is as
good as alone: names, recorded errors, NumPy's random numbers, the folder and patches start anew. What fails is printed.
"""
from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator

import pytest


@dataclasses.dataclass(frozen=True, eq=False)
class Column:
    """What one argument of a test is in turn: the numbers in a column of rows that belong together."""
    rows: tuple
    place: int


def columns(rows: list[tuple]) -> list[Column]:
    """Return the columns of rows, for ``metafunc.parametrize``."""
    rows = tuple(map(tuple, rows))
    return [Column(rows, place) for place in range(len(rows[0]))]


def in_turn(names: str, values) -> pytest.MarkDecorator:
    """Return what stands for ``pytest.mark.parametrize(names, values)``, in one test.

    Parameters
    ----------
    names : str
        The names of arguments, between commas.
    values : iterable
        The values of the argument, or a tuple for each combination of several arguments. Several decorators of a test
        give every combination of their values.
    """
    names = [name.strip() for name in names.split(",")]
    rows = [value if len(names) > 1 else (value,) for value in values]
    return pytest.mark.parametrize(names, [columns(rows)], ids=["each"])


def turns(arguments: dict) -> list[dict] | None:
    """Return the arguments of each turn of a test, or None if it takes nothing in turn."""
    columns_by_name = {name: value for name, value in arguments.items() if isinstance(value, Column)}
    if not columns_by_name:
        return None
    tables = list({id(column.rows): column.rows for column in columns_by_name.values()}.values())
    return [{name: chosen[id(column.rows)][column.place] for name, column in columns_by_name.items()}
            for chosen in (dict(zip(map(id, tables), rows)) for rows in itertools.product(*tables))]


@contextlib.contextmanager
def own(arguments: dict, number: int) -> Iterator[dict]:
    """Give a turn a folder and patches of its own, and no output of the turns before it."""
    with pytest.MonkeyPatch.context() as patches:
        result = {**arguments}
        if "monkeypatch" in arguments:
            result["monkeypatch"] = patches
        if "tmp_path" in arguments:
            result["tmp_path"] = arguments["tmp_path"] / str(number)
            result["tmp_path"].mkdir()
        for captured in {"capsys", "capfd"} & set(arguments):
            arguments[captured].readouterr()
        yield result
