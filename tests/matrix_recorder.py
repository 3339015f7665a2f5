"""A pytest plugin of ``make matrix``: counts the operators' tests that pass, by what they vary.

``--matrix FILE`` names the JSON file of the counts: ``[operator, backend, mode, dtype, request, shape, count]``.
"""
from __future__ import annotations

import collections
import json
import pathlib

import numpy as np
import pytest

# What a check of OpSuite does where none of its parameters says it. Its shape is the one of its case.
CHECKS = {
    "test_output_and_gradient": {},
    "test_hand_computed": {"mode": "imperative", "dtype": "float32"},
    "test_finite_differences_of_the_reference": {"mode": "imperative", "dtype": "float64"},
    "test_requests": {"mode": "executor"},
    "test_requests_of_arrays": {"dtype": "float32"},
    "test_input_used_twice": {"dtype": "float32"},
    "test_input_used_often": {"mode": "static", "dtype": "float32", "request": "add"},
    "test_offset_view": {"mode": "executor", "shape": "offset"},
    "test_module": {"mode": "module", "dtype": "float32"},
    "test_label_dtypes": {"mode": "imperative", "dtype": "float32"},
    "test_empty_batch": {"mode": "imperative", "shape": "empty"},
    "test_shapes_change_from_call_to_call": {"mode": "hybridized", "dtype": "float32", "request": "forward"},
}
AXES = ("backend", "mode", "dtype", "request", "shape")
PROPERTY = "matrix"   # pytest's workers send it as this property of a report.
_counts = collections.Counter()


def pytest_addoption(parser):
    parser.addoption("--matrix", type=pathlib.Path, required=True, help="write the counts of the operators' tests here")


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup(item):
    suite = getattr(item, "cls", None)
    if hasattr(suite, "axes") and item.originalname in CHECKS:
        item.user_properties.append((PROPERTY, combination(suite, item.originalname, item.callspec.params)))


def combination(suite: type, check: str, parameters: dict) -> tuple[str, ...]:
    """The operator of a test and its value of each axis."""
    values = {"request": "write", "shape": shape_class(first_shape(suite, parameters)), **CHECKS[check]}
    for parameter, value in parameters.items():
        axis = parameter.rstrip("_")   # request_: pytest has a fixture named request
        if axis in AXES:
            values[axis] = value
    if np.dtype(values["dtype"]).kind != "f":
        values["request"] = "forward"   # integers have no gradient
    return suite.name, *(values[axis] for axis in AXES)


def first_shape(suite: type, parameters: dict) -> tuple[int, ...]:
    """The shape of a test's first input."""
    if "row" in parameters:
        return np.shape(parameters["row"].inputs[0])
    return parameters.get("case", suite.cases[0]).shapes[0]


def shape_class(shape: tuple[int, ...]) -> str:
    """``size 1`` if a size is 1, ``prime`` if one is a prime from 5 on, ``size 1 and prime``, or ``other``."""
    classes = []
    if 1 in shape:
        classes.append("size 1")
    if any(map(is_larger_prime, shape)):
        classes.append("prime")
    return " and ".join(classes) or "other"


def is_larger_prime(size: int) -> bool:
    """Whether it is a prime from 5 on."""
    return size >= 5 and all(size % factor for factor in range(2, size))


def pytest_runtest_logreport(report):
    if report.when == "call" and report.passed:
        _counts.update(tuple(cell) for name, cell in report.user_properties if name == PROPERTY)


def pytest_sessionfinish(session):
    if hasattr(session.config, "workerinput"):   # a worker: its reports are counted by the process that began it
        return
    counts = [[*cell, count] for cell, count in sorted(_counts.items())]
    session.config.getoption("matrix").write_text(json.dumps(counts), encoding="utf-8")
