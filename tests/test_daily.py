"""The table of what runs every day names what exists, and leaves out no backend, dtype, request, case or mode."""
import itertools

import daily
import numpy as np
import op_suite
import pytest
from gluonops.contract import registry

SUITES = {name: op_suite.suite_of(name) for name in registry.entries()}
AXES = ("dtype", "request_", "backend", "mode")


def axes_of(suite, *names):
    """The values of some axes; integers have no gradient, so there are none beside a request."""
    axes = {name: suite.axes(name) for name in names}
    if "request_" in axes:
        axes["dtype"] = [dtype for dtype in axes["dtype"] if np.dtype(dtype).kind == "f"]
    return axes


def test_the_table_names_what_exists():
    values = {name: {value for suite in SUITES.values() for value in suite.axes(name)} for name in AXES}
    for check, rows in daily.DAILY.items():
        assert any(hasattr(suite, check) for suite in SUITES.values()), check
        for axis, named in (item for row in rows for item in row.items()):
            assert set(named) <= values[axis] if axis != "case" else named == daily.FIRST, (check, axis)


@pytest.mark.parametrize("name", SUITES)
def test_every_dtype_with_every_request_in_every_backend(name):
    axes = axes_of(SUITES[name], "dtype", "request_", "backend")
    found = daily.combinations("test_requests", axes)
    assert sorted(found) == sorted(itertools.product(*axes.values())), "each of them once"


@pytest.mark.parametrize("name", SUITES)
def test_every_case_dtype_and_mode_in_every_backend(name):
    axes = axes_of(SUITES[name], "case", "dtype", "backend", "mode")
    found = daily.combinations("test_output_and_gradient", axes)
    places = {axis: place for place, axis in enumerate(axes)}
    for axis in ("case", "dtype", "mode"):
        pairs = {(test[places[axis]].id if axis == "case" else test[places[axis]], test[places["backend"]])
                 for test in found}
        assert len(pairs) == len(axes[axis]) * len(axes["backend"]), axis


def test_a_row_takes_every_value_of_the_axes_that_it_leaves_out(monkeypatch):
    monkeypatch.setitem(daily.DAILY, "check", ({"case": daily.FIRST, "mode": ("b",)}, {"dtype": (2, 9)}))
    axes = {"case": ("x", "y"), "dtype": (1, 2), "mode": ("a", "b")}
    assert daily.combinations("check", axes) == [
        ("x", 1, "b"), ("x", 2, "b"), ("x", 2, "a"), ("y", 2, "a"), ("y", 2, "b")]
    assert daily.combinations("another", {"dtype": (1, 2)}) == [(1,), (2,)]
