"""The suites of the operators in ``tests/ops``: where the rows of an operator that declares none come from."""
import dataclasses
import importlib
import math
import pathlib
import sys
import types
from typing import Any, Optional

import numpy as np

TESTS = pathlib.Path(__file__).resolve().parents[2] / "tests"
ELEMENTS = 4_000_000   # of the data of a derived row


def get(op: str) -> type:
    """The suite of an operator; needs pytest, which it imports."""
    return _from_tests("op_suite").suite_of(op)


def oracle(op: str) -> types.ModuleType:
    """The oracle of an operator; needs NumPy alone."""
    return _from_tests("oracles").get(op)


def draw_labels(*arguments) -> np.ndarray:
    """See ``tests/oracles.py``."""
    return _from_tests("oracles").draw_labels(*arguments)


def _from_tests(module: str) -> types.ModuleType:
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))
    return importlib.import_module(module)


@dataclasses.dataclass(frozen=True)
class Sized:
    """An operator's case at some size: the shape of every input by name, and the attributes."""
    shapes: dict[str, tuple[int, ...]]
    attrs: dict[str, Any]


def enlarged(op: str, elements: int = ELEMENTS) -> Sized:
    """The first case of an operator's suite, with a batch so large that the data has about so many elements.

    The batch is the first axis of the data, and of every other input that is as long there.
    """
    from gluonops.core import registry

    contract, case = registry.get(op).op, get(op).cases[0]
    shapes = {arg.name: tuple(shape) for arg, shape in zip(contract.inputs, case.shapes)}
    data = case.shapes[0]
    batch = max(1, elements // math.prod(data)) * data[0]
    larger = {name: (batch, *shape[1:]) if shape[0] == data[0] else shape for name, shape in shapes.items()}
    contract.infer_shape(contract.parse(case.attrs), larger)
    return Sized(larger, dict(case.attrs))


def rows_of(package: str, op: str) -> Optional[Any]:
    """The module ``<package>.rows.<op>`` in which an operator declares rows of its own, or None."""
    name = f"{package}.rows.{op}"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None
