"""The inputs of a case, the results that NumPy computes, and the comparison with them.

NumPy's results are those of the operator's oracle in ``tests/ops``. Of more than about four million elements a
sample is compared, where the rows of the first axis are independent: some of them, the first and the last among them;
all other elements have to be numbers.
"""
import math
import types
from typing import Optional

import numpy as np

from ..common import suites
from .cases import rows as rows_of

TOLERANCE = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-12}   # of the value and of the largest value
PERIOD = 8388593     # a prime: large tensors repeat so many random numbers, out of step with every row
COMPARED = 1 << 22   # elements


def inputs(case: dict) -> dict:
    """What the user puts in, head gradient included, and the kernels' tables; name -> array."""
    rng, attrs = np.random.RandomState(0), types.SimpleNamespace(**case["attrs"])
    shapes = {name: case["arrays"][name][0] for name in case["inputs"]}
    drawn = {}
    for module in (suites.oracle(case["op"]), rows_of(case["op"])):
        if hasattr(module, "draw"):
            drawn.update(module.draw(attrs, shapes, rng))

    given = {}
    for name in [*case["inputs"], "output_grad"]:
        if name not in case["arrays"]:
            continue
        shape, dtype = case["arrays"][name]
        if name in drawn:
            given[name] = drawn[name].astype(dtype)
        elif name in case["classes"]:
            given[name] = _labels(rng, shape, case["classes"][name], attrs).astype(dtype)
        else:
            given[name] = _numbers(rng, shape, dtype)
    return {**given, **{name: np.array(values) for name, values in case["tables"].items()}}


def labels(case: dict) -> dict:
    """The class indices among the inputs, without the others: name -> array."""
    rng, attrs = np.random.RandomState(0), types.SimpleNamespace(**case["attrs"])
    return {name: _labels(rng, case["arrays"][name][0], classes, attrs).astype(case["arrays"][name][1])
            for name, classes in case["classes"].items()}


def _numbers(rng, shape, dtype):
    if np.dtype(dtype).kind != "f":
        return rng.randint(0 if dtype == "uint8" else -100, 100, shape).astype(dtype)
    numbers = rng.standard_normal(min(math.prod(shape), PERIOD)).astype(dtype)
    return np.resize(numbers, shape)


def _labels(rng, shape, classes, attrs):
    return suites.draw_labels(rng, shape, classes, getattr(attrs, "ignore_label", None))


def before(case: dict) -> dict:
    """What is in the arrays that a case adds to, by name: small whole numbers."""
    if case["request"] != "add":
        return {}
    rng, written = np.random.RandomState(1), [name for p in case["passes"].values() for name in p["written"]]
    return {name: rng.randint(0, 5, shape).astype(dtype)
            for name, (shape, dtype) in case["arrays"].items() if name in written}


def sample(case: dict) -> Optional[np.ndarray]:
    """Which of the first axis are compared: their numbers in order, or None for all."""
    shape, declared = case["shape"], rows_of(case["op"])
    each, most = math.prod(shape[1:]), getattr(declared, "COMPARED", COMPARED)
    independent = hasattr(declared, "independent") and declared.independent(case["attrs"], len(shape))
    if not independent or each * shape[0] <= most:
        return None
    count = max(3, most // each)
    if count >= shape[0]:
        return None
    return np.unique(np.append(np.random.RandomState(2).randint(0, shape[0], count), [0, shape[0] - 1]))


def expected(case: dict, given: dict, rows: Optional[np.ndarray] = None) -> dict:
    """Every output and gradient by name, in float64 where they are no integers; of those rows alone."""
    accurate = {}
    for name in given.keys() - case["tables"].keys():
        array = part(case, given[name], rows)
        accurate[name] = array.astype("float64") if array.dtype.kind == "f" else array
    oracle, attrs = suites.oracle(case["op"]), types.SimpleNamespace(**case["attrs"])
    arrays = [accurate[name] for name in case["inputs"]]

    results = oracle.forward(attrs, *arrays)
    if "backward" in case["passes"]:
        gradients = oracle.backward(attrs, accurate.get("output_grad"), *arrays)
        results.update({f"{name}_grad": gradient for name, gradient in gradients.items()})
    return results


def part(case: dict, array: np.ndarray, rows: Optional[np.ndarray]) -> np.ndarray:
    """The rows of an array that are compared; all of an array that has no row for every row of the data."""
    return array[rows] if _sampled(case, array, rows) else array


def _sampled(case, array, rows):
    return rows is not None and array.shape[0] == case["shape"][0]


def differs(case: dict, name: str, got: np.ndarray, wanted: np.ndarray, rows: Optional[np.ndarray] = None,
            start: Optional[np.ndarray] = None) -> Optional[str]:
    """How an array differs from the expected one, or None; ``start`` is its old value if the request is add."""
    shape, _ = case["arrays"][name]
    if list(got.shape) != list(shape):
        return f"{name} has shape {tuple(got.shape)}; expected {tuple(shape)}"
    if rows is not None and got.dtype.kind == "f" and np.isnan(got).any():
        return f"{name} has {int(np.isnan(got).sum())} NaN of {got.size}"

    sampled = _sampled(case, got, rows)
    got = part(case, got, rows)
    if start is not None:
        wanted = wanted + start
    moves = name in getattr(rows_of(case["op"]), "EXACT", ()) and start is None
    if got.dtype.kind != "f" or moves:
        close = got == wanted.astype(got.dtype)
    else:
        tolerance = TOLERANCE[case["dtype"]]
        largest = max(float(np.abs(wanted).max()), 1e-30)
        close = np.isclose(got.astype("float64"), wanted, tolerance, tolerance * largest)
    if close.all():
        return None

    first = tuple(map(int, np.unravel_index(int(np.argmin(close)), got.shape)))
    place = (int(rows[first[0]]), *first[1:]) if sampled else first
    return (f"{name} is {float(got[first]):.6g} at {place}; expected {float(wanted[first]):.6g}; "
            f"{int((~close).sum())} of {got.size} differ")
