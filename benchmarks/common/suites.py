"""What the benchmarks take from ``tests/ops``: the suites and oracles of the operators."""
import importlib
import pathlib
import sys
import types
from typing import Any, Optional

import numpy as np

TESTS = pathlib.Path(__file__).resolve().parents[2] / "tests"


def get(op: str) -> type:
    """The suite of an operator; needs pytest, which it imports."""
    return from_tests("op_suite").suite_of(op)


def oracle(op: str) -> types.ModuleType:
    """The oracle of an operator; needs NumPy alone."""
    return from_tests("oracles").get(op)


def draw_labels(*arguments) -> np.ndarray:
    """See ``tests/oracles.py``."""
    return from_tests("oracles").draw_labels(*arguments)


def from_tests(module: str) -> types.ModuleType:
    """A module of the folder ``tests``."""
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))
    return importlib.import_module(module)


def rows_of(package: str, op: str) -> Optional[Any]:
    """The module ``<package>.rows.<op>`` in which an operator declares rows of its own, or None."""
    name = f"{package}.rows.{op}"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None
