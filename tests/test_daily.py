"""The table of what runs every day names what exists, and leaves out no backend, dtype, request, case or mode."""
import itertools

import daily
import numpy as np
import op_suite
import pytest
from gluonops.contract import registry

SUITES = {name: op_suite.suite_of(name) for name in registry.entries()}
AXES = ("dtype", "label_dtype", "request_", "backend", "mode")


def axes_of(suite, *names):
    """The values of some axes; integers have no gradient, so there are none beside a request."""
    axes = {name: suite.axes(name) for name in names}
    if "request_" in axes:
        axes["dtype"] = [dtype for dtype in axes["dtype"] if np.dtype(dtype).kind == "f"]
    return axes


def test_the_table_names_what_exists():
    values = {name: {value for suite in SUITES.values() for value in suite.axes(name)} for name in AXES}
    values["operator"] = set(SUITES)
    for check, rows in daily.DAILY.items():
        assert any(hasattr(suite, check) for suite in SUITES.values()), check
        for axis, named in (item for row in rows for item in row.items()):
            assert set(named) <= values[axis] if axis != "case" else named == daily.FIRST, (check, axis)


@pytest.mark.parametrize("name", SUITES)
def test_every_request_in_every_backend(name):
    """Where a kernel adds, it does so for every dtype. MXNet and the custom operators add for VARIED."""
    axes = axes_of(SUITES[name], "dtype", "request_", "backend")
    chosen = daily.combinations("test_requests", name, axes)
    assert len(chosen) == len(set(chosen)), "each of them once"
    kernels = {"native", "cuda"} & set(axes["backend"])
    own = [*kernels, "custom"] if name not in daily.VARIED else axes["backend"]
    assert {(request, backend) for _, request, backend in chosen} >= {*itertools.product(axes["request_"], own)}
    assert {backend for _, request, backend in chosen if request == "write"} == set(axes["backend"])
    assert {(dtype, backend) for dtype, request, backend in chosen if request == "add"} >= {
        *itertools.product(axes["dtype"], kernels)}


@pytest.mark.parametrize("name", SUITES)
def test_every_case_with_every_implementation_and_every_dtype_in_every_backend(name):
    """``custom`` runs the kernels of ``native``, or the reference."""
    axes = axes_of(SUITES[name], "case", "dtype", "backend", "mode")
    chosen = daily.combinations("test_output_and_gradient", name, axes)
    assert len({(case.id, backend) for case, _, backend, _ in chosen if backend != "custom"}) == (
        len(axes["case"]) * len(set(axes["backend"]) - {"custom"}))
    assert {(dtype, backend) for _, dtype, backend, _ in chosen} == {*itertools.product(axes["dtype"], axes["backend"])}


def test_every_mode_in_every_backend():
    for name in daily.VARIED:
        axes = axes_of(SUITES[name], "case", "dtype", "backend", "mode")
        chosen = daily.combinations("test_output_and_gradient", name, axes)
        assert {test[2:] for test in chosen} == {*itertools.product(axes["backend"], axes["mode"])}


def test_a_row_takes_every_value_of_the_axes_that_it_leaves_out(monkeypatch):
    monkeypatch.setitem(daily.DAILY, "check", ({"case": daily.FIRST, "mode": ("b",)}, {"dtype": (2, 9)}))
    axes = {"case": ("x", "y"), "dtype": (1, 2), "mode": ("a", "b")}
    assert daily.combinations("check", "mish", axes) == [
        ("x", 1, "b"), ("x", 2, "b"), ("x", 2, "a"), ("y", 2, "a"), ("y", 2, "b")]
    assert daily.combinations("another", "mish", {"dtype": (1, 2)}) == [(1,), (2,)]


def test_a_row_for_some_operators(monkeypatch):
    monkeypatch.setitem(daily.DAILY, "check", ({"dtype": (1,)}, {"operator": ("mish",)}))
    assert daily.combinations("check", "mish", {"dtype": (1, 2)}) == [(1,), (2,)]
    assert daily.combinations("check", "gelu", {"dtype": (1, 2)}) == [(1,)]
