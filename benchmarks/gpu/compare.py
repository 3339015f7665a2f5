"""The inputs of a case, the results that NumPy computes, and the comparison with them.

NumPy's results are those of the operator's oracle in ``tests/ops``. Of more than about four million elements a
sample is compared, where the rows of the first axis are independent: some of them, the first and the last among them;
all other elements have to be numbers.
"""
import math
import types
from typing import Optional

import numpy as np

from ..harness import inputs as drawn
from ..harness import suites
from ..harness.cases import declared

TOLERANCE = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-12}   # shares of the value and of the largest value


def inputs(case: dict) -> dict:
    """What the user puts in, head gradient included, and the kernels' tables; name -> array."""
    arrays = drawn.draw(case["op"], case["attrs"], case["arrays"], case["classes"], [*case["inputs"], "output_grad"])
    return {**arrays, **{name: np.array(values, case["arrays"][name][1]) for name, values in case["tables"].items()}}


def before(case: dict) -> dict:
    """What is in the arrays that a case adds to, by name: small whole numbers."""
    if case["request"] != "add":
        return {}
    rng, written = np.random.RandomState(1), [name for p in case["passes"].values() for name in p["written"]]
    return {name: rng.randint(0, 5, shape).astype(dtype)
            for name, (shape, dtype) in case["arrays"].items() if name in written}


def sample(case: dict) -> Optional[np.ndarray]:
    """Which of the first axis are compared: their numbers in order, or None for all."""
    shape, declaration = case["shape"], declared(case["op"])
    count = max(3, declaration.COMPARED // math.prod(shape[1:]))
    if count >= shape[0] or not declaration.independent(case["attrs"], len(shape)):
        return None
    return np.unique(np.append(np.random.RandomState(2).randint(0, shape[0], count), [0, shape[0] - 1]))


def expected(case: dict, inputs: dict, rows: Optional[np.ndarray] = None) -> dict:
    """Every output and gradient by name, in float64 where they are no integers; of those rows alone."""
    accurate = {}
    for name in inputs.keys() - case["tables"].keys():
        array = part(case, inputs[name], rows)
        accurate[name] = array.astype("float64") if array.dtype.kind == "f" else array
    oracle, attrs = suites.from_tests("oracles").get(case["op"]), types.SimpleNamespace(**case["attrs"])
    arrays = [accurate[name] for name in case["inputs"]]

    results = oracle.forward(attrs, *arrays)
    if "backward" in case["passes"]:
        gradients = oracle.backward(attrs, accurate.get("output_grad"), *arrays)
        results.update({f"{name}_grad": gradient for name, gradient in gradients.items()})
    return results


def part(case: dict, array: np.ndarray, rows: Optional[np.ndarray]) -> np.ndarray:
    """The rows of an array that are compared; all of an array that has no row for every row of the data."""
    return array if rows is None or array.shape[0] != case["shape"][0] else array[rows]


def differs(case: dict, name: str, got: np.ndarray, wanted: np.ndarray, rows: Optional[np.ndarray] = None,
            start: Optional[np.ndarray] = None) -> Optional[str]:
    """How an array differs from the expected one, or None; ``start`` is its old value if the request is add."""
    shape, _ = case["arrays"][name]
    if list(got.shape) != list(shape):
        return f"{name} has shape {tuple(got.shape)}; expected {tuple(shape)}"
    if rows is not None and got.dtype.kind == "f" and np.isnan(got).any():
        return f"{name} has {int(np.isnan(got).sum())} NaN of {got.size}"

    whole, got = got, part(case, got, rows)
    if start is not None:
        wanted = wanted + start
    moves = name in declared(case["op"]).EXACT and start is None
    if got.dtype.kind != "f" or moves:
        close = got == wanted.astype(got.dtype)
    else:
        tolerance = TOLERANCE[case["dtype"]]
        largest = max(float(np.abs(wanted).max()), 1e-30)
        close = np.isclose(got.astype("float64"), wanted, tolerance, tolerance * largest)
    if close.all():
        return None

    first = tuple(map(int, np.unravel_index(int(np.argmin(close)), got.shape)))
    place = first if got is whole else (int(rows[first[0]]), *first[1:])
    return (f"{name} is {float(got[first]):.6g} at {place}; expected {float(wanted[first]):.6g}; "
            f"{int((~close).sum())} of {got.size} differ")
