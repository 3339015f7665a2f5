"""What the benchmarks take from ``tests``: the suites and oracles of the operators."""
import importlib
import pathlib
import sys
import types

TESTS = pathlib.Path(__file__).resolve().parents[2] / "tests"


def get(op: str) -> type:
    """The suite of an operator; needs pytest, which it imports."""
    return from_tests("op_suite").suite_of(op)


def from_tests(module: str) -> types.ModuleType:
    """A module of the folder ``tests``."""
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))
    return importlib.import_module(module)
