"""The page of what the operators' tests vary has every operator, backend and dtype; and what it counts."""
import json
import pathlib
import runpy

import matrix_recorder
import op_suite
import pytest
from gluonops.contract import registry

ROOT = pathlib.Path(__file__).parents[1]
TEST = ["abs", "native", "static", "int8", "write", "prime"]


@pytest.fixture(scope="module")
def matrix():
    return runpy.run_path(str(ROOT / "tools" / "matrix.py"))


def table_of(page):
    """The cells of the page's first table, by operator and column."""
    lines = page.split("## By operator")[1].split("## By pair")[0].splitlines()
    titles, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    return {name: dict(zip(titles[1:], cells)) for name, *cells in rows}


def test_the_page_has_tests_of_every_backend_and_dtype(matrix):
    table = table_of(matrix["page"](json.loads((ROOT / "docs" / "matrix.json").read_text(encoding="utf-8"))))
    assert list(table) == list(registry.entries()), "run: make matrix"
    for name, cells in table.items():
        op = registry.get(name).op
        for column in (*matrix["AXES"]["backend"], *matrix["AXES"]["dtype"]):
            if matrix["can_have"](op, column):
                assert cells[column] not in ("0", "-"), f"{name} has no test of {column}. Run: make matrix"
            else:
                assert cells[column] == "-", f"{name} has no {column} any more. Run: make matrix"


def test_the_dtypes_of_every_operator_have_a_column(matrix):
    declared = {dtype for entry in registry.entries().values() for dtype in entry.op.types["T"]}
    assert declared == set(matrix["AXES"]["dtype"])


def test_every_check_that_takes_a_backend_is_counted():
    checks = {name for name, check in vars(op_suite.OpSuite).items()
              if name.startswith("test_") and "backend" in check.__code__.co_varnames[:check.__code__.co_argcount]}
    assert checks - {"test_refused_imperative"} == set(matrix_recorder.CHECKS)


@pytest.mark.parametrize("shape, expected", [((7, 1), "size 1 and prime"), ((4, 1), "size 1"), ((4, 7), "prime"),
                                             ((4, 9, 2, 3), "other"), ((25,), "other"), ((5,), "prime")])
def test_shape_classes(shape, expected):
    assert matrix_recorder.shape_class(shape) == expected


def test_what_a_test_varies():
    suite = op_suite.suite_of("reorg")
    case = op_suite.Case("one", ((1, 4, 2, 2),))
    parameters = {"backend": "native", "case": case, "dtype": "float16", "mode": "static"}
    assert matrix_recorder.combination(suite, "test_output_and_gradient", parameters) == (
        "reorg", "native", "static", "float16", "write", "size 1")
    parameters = {"backend": "cuda", "dtype": "float64", "request_": "add"}
    assert matrix_recorder.combination(suite, "test_requests", parameters)[1:5] == (
        "cuda", "executor", "float64", "add")
    parameters = {"backend": "cuda", "dtype": "int8"}
    assert matrix_recorder.combination(suite, "test_offset_view", parameters)[3:] == ("int8", "forward", "offset")


def test_what_the_page_counts(matrix):
    counts = [[*TEST, 3], ["abs", "native", "static", "float32", "add", "size 1 and prime", 4]]
    data = matrix["condense"](counts)
    page = matrix["page"](data)
    assert "7 tests of 2 combinations" in page
    cells = table_of(page)["abs"]
    assert cells["native"] == "7" and cells["int8"] == "3" and cells["float16"] == "0" and cells["combinations"] == "2"
    operators = len(registry.entries())
    assert f"| native | 0 of {operators} | 0 of {operators} | 1 of {operators} |" in page   # its modes
    gaps = list(matrix["gaps"](data["lacking"]))
    assert [gap for gap in gaps if gap.startswith("- native, int8: ")] == ["- native, int8: reorg, tile"]
    assert not any(gap.startswith(("- int8, write", "- module, add")) for gap in gaps)   # these have reasons
    lovasz = [gap for gap in gaps if "lovasz_softmax" in gap]
    assert lovasz and not any(gap.startswith("- cuda") for gap in lovasz)   # it has no CUDA kernel
