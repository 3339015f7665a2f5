"""Runs an operator on arrays in every backend and every way, and compares all with the oracle."""
import contextlib
import functools
import os
import unittest.mock

import fuzz_contract as contracts
import gluonops as gops
import long_sums
import mxnet as mx
import numpy as np
from fuzz_cases import FEW_BITS, LONG
from gluonops.backends import native
from gluonops.contract import errors
from op_suite import TOLERANCE, Case

BACKENDS = ("custom", "reference", "native", "builtin")   # the suites name them so
PLACES = 4   # at most so many elements of an array become special, or so many labels bad
CHECK = "GLUONOPS_CHECK_LABELS"


# -- arrays ------------------------------------------------------------------------------------------------------
def draw(case):
    """The suite's ordinary inputs, with special values and labels that are no classes; then a head gradient."""
    suite, rng = contracts.suite(case.op), np.random.RandomState(case.seed)
    arrays = suite.draw(Case("fuzz", case.shapes, case.attrs), case.dtype, rng, case.label_dtype)
    arrays = [np.asarray(array).reshape(shape) for array, shape in zip(arrays, case.shapes)]
    ordinary = contracts.ordinary_inputs(case.op)
    counts = contracts.classes(case.op, contracts.parse(case.op, case.attrs), case.shapes)
    for name, array in zip(contracts.input_names(case.op), arrays):
        if name in counts:
            for kind in case.bad_labels:
                _sprinkle(array, _bad_label(kind, array.dtype, counts[name]), rng)
        elif name not in ordinary:
            for kind in case.specials:
                _make_special(array, kind, rng)
    return arrays


def _sprinkle(array, value, rng):
    if value is None or not array.size:
        return
    places = rng.randint(0, array.size, rng.randint(1, PLACES + 1))
    array.reshape(-1)[places] = value


def _make_special(array, kind, rng):
    """A few elements, or all, in place; integers have extremes only."""
    limits = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.finfo(array.dtype)
    if kind == FEW_BITS:
        array[...] = long_sums.few_bits(array) if array.dtype.kind == "f" else array
    elif kind == "equal":
        array[...] = array.reshape(-1)[:1].sum() if array.size else 0
    elif kind == "huge" and array.dtype.kind == "f":
        array *= array.dtype.type(1000)
    elif array.dtype.kind in "iu":
        _sprinkle(array, {"zero": 0, "max": limits.max, "huge": limits.max - 1}.get(kind, limits.min), rng)
    else:
        _sprinkle(array, {"zero": 0.0, "negative_zero": -0.0, "denormal": limits.smallest_subnormal * 3,
                          "max": limits.max}.get(kind) if kind not in ("inf", "-inf", "nan") else float(kind), rng)


def _bad_label(kind, dtype, classes):
    """A label that is no class, as the dtype can hold it; None where it cannot."""
    if dtype.kind == "f":
        return {"below": -1, "above": classes, "far_above": min(1e30, np.finfo(dtype).max),
                "far_below": max(-1e30, np.finfo(dtype).min), "fraction": 0.5, "nan": np.nan, "inf": np.inf}[kind]
    limits = np.iinfo(dtype)
    value = {"below": -1, "above": classes, "far_above": limits.max, "far_below": limits.min}.get(kind)
    return value if value is not None and limits.min <= value <= limits.max else None


# -- the ways ----------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def backend(name):
    """A backend; "reference" is custom where there is no C++ library."""
    with contextlib.ExitStack() as stack:
        if name == "reference":
            stack.enter_context(unittest.mock.patch.object(native, "reason", lambda: "a test hides it"))
        stack.enter_context(gops.backend("custom" if name == "reference" else name))
        yield


def in_suite(case, arrays, head, name, mode):
    """Output and gradients by name, in a mode of the suite's."""
    suite = contracts.suite(case.op)
    with backend(name):
        return suite.run(Case("fuzz", case.shapes, case.attrs), arrays, head, "custom" if name == "reference" else name,
                         mode)


def bound(case, arrays, head, name, request):
    """The same through ``simple_bind`` of typed variables; what the gradients held before is taken off again."""
    suite, names = contracts.suite(case.op), contracts.input_names(case.op)
    with backend(name):
        variables = [mx.sym.var(arg, dtype=array.dtype) for arg, array in zip(names, arrays)]
        graph = suite.function(*variables, **case.attrs)
    executor = graph.simple_bind(mx.cpu(), grad_req=request, type_dict={arg: a.dtype for arg, a in zip(names, arrays)},
                                 **dict(zip(names, case.shapes)))
    for arg, array in zip(names, arrays):
        executor.arg_dict[arg][:] = mx.nd.array(array, dtype=array.dtype)
    gradients = {arg: array for arg, array in executor.grad_dict.items() if array is not None}
    for array in gradients.values():
        array[:] = 1 if request == "add" else np.nan
    output = executor.forward(is_train=True)[0]
    if request != "null":
        executor.backward([mx.nd.array(head, dtype=output.dtype)])
    return output.asnumpy(), {arg: array.asnumpy() for arg, array in gradients.items()}


def ways(case, arrays, head):
    """(backend, way, function that runs it, what is added to gradients) of all that should give the same numbers."""
    empty = any(0 in shape for shape in case.shapes)
    needs_types = case.dtype in contracts.suite(case.op).needs_types
    mode = "static" if case.static else "hybridized"
    for name in BACKENDS:
        yield name, "imperative", lambda name=name: in_suite(case, arrays, head, name, "imperative"), 0
        if name == "reference" or (name == "builtin" and empty):   # MXNet's own operators refuse those in graphs
            continue
        if name != "builtin" or not needs_types:   # a block without parameters is a graph of unknown types
            yield name, mode, lambda name=name: in_suite(case, arrays, head, name, mode), 0
        yield (name, f"simple_bind {case.request}", lambda name=name: bound(case, arrays, head, name, case.request),
               1 if case.request == "add" else 0)


# -- the verdict -------------------------------------------------------------------------------------------------
def check(case):
    """What is wrong, a list of (where, how, details); None where the contract or the oracle has no answer."""
    typed = contracts.parse(case.op, case.attrs)
    if typed is None:   # a case from before the contract refused it
        return None
    with mx.util.np_shape(any(not shape or 0 in shape for shape in case.shapes)), unittest.mock.patch.dict(
            os.environ, {CHECK: "0"}), np.errstate(all="ignore"):
        arrays = draw(case)
        if not _holds_ignored_label(case, arrays, typed):
            return None
        wide = _widened(arrays)
        suite = contracts.suite(case.op)
        try:
            shape = suite.oracle(typed, *wide).shape
        except (ValueError, ZeroDivisionError):   # There is no largest or mean of no classes.
            return None
        head = np.asarray(np.random.RandomState(case.seed ^ 1).randn(*shape)).astype(case.dtype)
        expected = suite.expected(Case("fuzz", case.shapes, case.attrs), arrays, head)
        found, defined = [], not set(case.specials) & set(suite.undefined)
        amplification = functools.lru_cache(None)(lambda name: suite.amplification(typed, name, *wide))
        of_output = functools.lru_cache(None)(lambda name: suite.output_amplification(typed, *wide))
        for name, way, run, added in ways(case, arrays, head):
            compared = _compare(case, name, run, expected, added, of_output, amplification)
            found += [(f"{name} {way}", *what) for what in compared
                      if defined or what[0].startswith("raises")]
        if _has_long_sums(case):
            found += _lost_digits(case, arrays, head, expected, max(amplification("native"), of_output("native")))
        if _holds_bad_labels(case, arrays, typed):
            os.environ[CHECK] = "1"
            found += _unchecked(case, arrays, head)
    return found


def _has_long_sums(case):
    """Whether there are such, and nothing else that float32 rounds; and no order, as in Lovász's loss."""
    longest = max((max(shape, default=0) for shape in case.shapes), default=0)
    return (case.op in long_sums.CASES and case.op not in dict(long_sums.ORDERED) and case.dtype == "float32"
            and longest >= min(LONG) and not case.bad_labels and set(case.specials) <= {FEW_BITS})


def _lost_digits(case, arrays, head, expected, amplification):
    """The backends that are less exact than MXNet's own operators; small numbers count as much as large ones."""
    def deviations(name):
        output, gradients = in_suite(case, arrays, head, name, "imperative")
        got, right = {"output": output, **gradients}, {"output": expected[0], **expected[1]}
        return {key: long_sums.deviation(got[key], right[key]) for key in right if right[key].any()}

    of_builtin = deviations("builtin")
    for name in BACKENDS:
        for key, pair in long_sums.lost(deviations(name), of_builtin, TOLERANCE["float32"] * amplification).items():
            yield f"{name} imperative", f"{key} loses digits", "{:.1e}, builtin {:.1e}".format(*pair)


def _widened(arrays):
    return [array.astype("float64") if array.dtype.kind == "f" else array for array in arrays]


def _compare(case, name, run, expected, added, of_output, amplification):
    try:
        output, gradients = run()
    except Exception as error:
        yield raised(error)
        _forget()
        return
    wanted, wanted_gradients = expected
    if output.dtype != np.dtype(case.dtype):
        yield "output has the wrong dtype", str(output.dtype)
    exact = contracts.suite(case.op).exact
    yield from deviation("output", output, wanted, case.dtype, name, exact, of_output)
    if np.dtype(case.dtype).kind != "f":
        return
    for arg, gradient in gradients.items():
        if arg in wanted_gradients or not np.isnan(gradient).all():   # simple_bind with null keeps what was there
            want = wanted_gradients.get(arg, np.zeros(gradient.shape))
            yield from deviation(f"gradient of {arg}", gradient, want + added, case.dtype, name, exact and not added,
                                 amplification)


def _forget():
    """Let what still runs fail now, so that the next run's error is its own."""
    with contextlib.suppress(Exception):
        mx.nd.waitall()
    errors._from_bodies.clear()
    errors._mentioned.clear()


def _holds_bad_labels(case, arrays, typed):
    counts = contracts.classes(case.op, typed, case.shapes)
    for name, array in zip(contracts.input_names(case.op), arrays):
        if name in counts:
            wide = array.astype("float64")
            good = (wide >= 0) & (wide < counts[name]) & (wide == np.floor(wide))
            if getattr(typed, "ignore_label", None) is not None:
                good |= wide == typed.ignore_label
            if not good.all():
                return True
    return False


def _holds_ignored_label(case, arrays, typed):
    """Whether labels that are numbers, not classes, can be the ignored one; float32 rounds 2^24 + 1."""
    ignored, classes = getattr(typed, "ignore_label", None), contracts.classes(case.op, typed, case.shapes)
    return ignored is None or all(float(array.dtype.type(ignored)) == ignored for name, array
                                  in zip(contracts.input_names(case.op), arrays)
                                  if name == "label" and name not in classes and array.dtype.kind == "f")


def _unchecked(case, arrays, head):
    """The ways in which labels that are no classes pass although they are checked."""
    for name, way, run, _ in ways(case, arrays, head):
        if name == "builtin" and way != "imperative":   # MXNet's own operators do not look
            continue
        try:
            run()
        except Exception as error:
            if f"gluonops.{case.op}: " not in str(error) or "expected a whole number" not in str(error):
                yield f"{name} {way}", "a bad label raises another error", str(error)[:500]
            _forget()
        else:
            yield f"{name} {way}", "a bad label passes the check", ""


def raised(error):
    """What an exception says, its last line first: there MXNet has the reason."""
    lines = str(error).strip().splitlines() or [""]
    return f"raises {type(error).__name__}: {lines[-1][:100]}", lines[0][:200]


def deviation(what, got, expected, dtype, name, exact, amplification=lambda name: 1.0):
    """(how, details) of where an array is not what it should be: its shape, NaNs, infinities, numbers.

    What is rounded on the way may be ``amplification(name)`` times as large as what is compared.
    """
    if got.shape != expected.shape:
        yield f"{what} has the wrong shape", f"{got.shape}, expected {expected.shape}"
        return
    if got.dtype.kind in "iu":
        if (got != expected.astype(got.dtype)).any():
            yield f"{what} is wrong", _first(got != expected.astype(got.dtype), got, expected)
        return
    got, largest = got.astype("float64"), float(np.finfo(dtype).max)
    near = np.abs(expected) > largest / 16   # rounding and the order of sums decide whether it still fits
    expected = np.where(np.abs(expected) > largest, np.sign(expected) * np.inf, expected)
    for wrong, text in ((np.isnan(got) & ~np.isnan(expected) & ~near, "is NaN"),
                        (np.isnan(expected) & ~np.isnan(got), "is not NaN"),
                        (np.isinf(got) & ~np.isinf(expected) & ~np.isnan(expected) & ~near, "is infinite"),
                        (np.isinf(expected) & np.isfinite(got) & ~near, "is finite")):
        if wrong.any():
            yield f"{what} {text}", _first(wrong, got, expected)
    finite = np.isfinite(got) & np.isfinite(expected) & ~near
    tolerance = 0 if exact else TOLERANCE.get((_kernel(name), dtype)) or TOLERANCE[dtype]
    scale = max(1.0, np.abs(expected[finite]).max()) if finite.any() else 1.0
    wrong = finite & (np.abs(got - expected) > tolerance * (scale + np.abs(expected)))
    if wrong.any():
        wrong &= np.abs(got - expected) > tolerance * (amplification(name) * scale + np.abs(expected))
    if exact:
        wrong |= finite & (np.signbit(got) != np.signbit(expected))
    if wrong.any():
        yield f"{what} is wrong", _first(wrong, got, expected)


def _kernel(name):
    return "custom" if name == "reference" else name


def _first(wrong, got, expected):
    place = tuple(int(index) for index in np.argwhere(wrong)[0])
    return f"{got[place]:.6g} at {place}, expected {expected[place]:.9g} ({int(wrong.sum())} of {wrong.size})"
