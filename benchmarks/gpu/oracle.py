"""The inputs of the cases of benchmarks/gpu.py, what NumPy makes of them, and how results are compared with that.

Of more than about four million elements a sample is compared: some of the rows, images or samples (whatever the first
axis counts), the first and the last among them; all other elements have to be numbers.
"""
import math
import pathlib
import sys
import types

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
import oracles  # noqa: E402

TOLERANCE = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-12}   # of the value and of the largest value
MOVES = ("reorg", "tile", "abs")
PERIOD = 8388593               # a prime: large tensors repeat so many random numbers, out of step with every row
COMPARED = {"region_loss": 1 << 17}   # elements; NumPy goes through its boxes one by one
WHOLE = ("centers", "centers_grad", "seen")   # what a sample shares


def inputs(case):
    """What the user puts in, head gradient included, and the kernels' tables; name -> array."""
    rng, attrs, found = np.random.RandomState(0), types.SimpleNamespace(**case["attrs"]), {}
    for name in ("data", "centers", "output_grad"):
        if name in case["arrays"]:
            found[name] = _numbers(rng, *case["arrays"][name])
    if "label" in case["arrays"]:
        found["label"] = _label(rng, case, attrs, *case["arrays"]["label"])
    if "truth" in case["arrays"]:
        (batch, truths, _), dtype = case["arrays"]["truth"]
        found["truth"] = oracles.get(case["op"]).draw_ground_truth(rng, attrs.anchors, attrs.classes, batch, truths,
                                           case["shape"][2:]).astype(dtype)
        found["seen"] = np.array([20], case["arrays"]["seen"][1])
    return {**found, **{name: np.array(values) for name, values in case["tables"].items()}}


def _numbers(rng, shape, dtype):
    if np.dtype(dtype).kind != "f":
        return rng.randint(0 if dtype == "uint8" else -100, 100, shape).astype(dtype)
    numbers = rng.standard_normal(min(math.prod(shape), PERIOD)).astype(dtype)
    return np.resize(numbers, shape)


def _label(rng, case, attrs, shape, dtype):
    if not getattr(attrs, "sparse_label", True):
        weights = rng.rand(*shape)
        return (weights / weights.sum(attrs.axis, keepdims=True)).astype(dtype)
    classes = case["arrays"]["centers"][0][0] if "centers" in case["arrays"] else case["shape"][attrs.axis]
    label = rng.randint(0, classes, shape)
    if getattr(attrs, "ignore_label", None) is not None:
        label = np.where(rng.rand(*shape) < 0.3, attrs.ignore_label, label)
    return label.astype(dtype)


def before(case):
    """What is in the arrays that a case adds to, by name: small whole numbers."""
    if case["request"] != "add":
        return {}
    rng, written = np.random.RandomState(1), [name for p in case["passes"].values() for name in p["written"]]
    return {name: rng.randint(0, 5, shape).astype(dtype)
            for name, (shape, dtype) in case["arrays"].items() if name in written}


def sample(case):
    """Which of the first axis are compared: their numbers in order, or None for all."""
    shape, attrs = case["shape"], case["attrs"]
    each, most = math.prod(shape[1:]), COMPARED.get(case["op"], 1 << 22)
    mixes = (case["op"] == "center_loss" or isinstance(attrs.get("tiles"), (tuple, list))
             or "axis" in attrs and attrs["axis"] % len(shape) == 0 or attrs.get("normalization", "null") != "null")
    if mixes or each * shape[0] <= most:
        return None
    count = max(3, most // each)
    if count >= shape[0]:
        return None
    return np.unique(np.append(np.random.RandomState(2).randint(0, shape[0], count), [0, shape[0] - 1]))


def expected(case, given, rows=None):
    """Every output and gradient by name, in float64 where they are no integers; of those rows alone."""
    wide = {}
    for name in given.keys() - case["tables"].keys():
        array = part(name, given[name], rows)
        wide[name] = array.astype("float64") if array.dtype.kind == "f" else array
    oracle, attrs = oracles.get(case["op"]), types.SimpleNamespace(**case["attrs"])
    inputs = [wide[name] for name in case["inputs"]]
    results = oracle.forward(attrs, *inputs)
    if "backward" in case["passes"]:
        gradients = oracle.backward(attrs, wide.get("output_grad"), *inputs)
        results.update({f"{name}_grad": gradient for name, gradient in gradients.items()})
    return results


def part(name, array, rows):
    """The rows of an array that are compared."""
    return array if rows is None or name in WHOLE else array[rows]


def differs(case, name, got, wanted, rows=None, start=None):
    """What is wrong with an array, or None; ``start`` is what was in it where it was added to."""
    shape, _ = case["arrays"][name]
    if list(got.shape) != list(shape):
        return f"{name} has shape {tuple(got.shape)}; expected {tuple(shape)}"
    if rows is not None and got.dtype.kind == "f" and np.isnan(got).any():
        return f"{name} has {int(np.isnan(got).sum())} NaN of {got.size}"
    got, dtype = part(name, got, rows), got.dtype
    wanted = wanted + (0 if start is None else start)
    exact = dtype.kind != "f" or (case["op"] in MOVES and start is None and (case["op"], name) != ("tile", "data_grad"))
    if exact:
        close = got == wanted.astype(dtype)
    else:
        tolerance = TOLERANCE[case["dtype"]]
        largest = max(float(np.abs(wanted).max()), 1e-30)
        close = np.isclose(got.astype("float64"), wanted, tolerance, tolerance * largest)
    if close.all():
        return None
    first = np.unravel_index(int(np.argmin(close)), got.shape)
    place = tuple(map(int, first)) if rows is None or name in WHOLE else (int(rows[first[0]]), *map(int, first[1:]))
    return (f"{name} is {float(got[first]):.6g} at {place}; expected {float(wanted[first]):.6g}; "
            f"{int((~close).sum())} of {got.size} differ")
