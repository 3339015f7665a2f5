"""The comparison of two commits: cases, turns and the table. No times are asserted."""
import pathlib

import fresh
import gluonops as gops
import pytest
from benchmarks.before_after import __main__ as before_after
from benchmarks.before_after import cases, measure

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_every_operator_has_a_call_and_a_larger_case():
    for op in gops.ops.list():
        sizes = [case.shapes[0] for case in cases.cases([op])]
        assert len(sizes) >= 2 and sizes[0] != sizes[1]
        assert sizes[0] == cases.suites.get(op).cases[0].shapes[0]


def test_an_operator_without_rows_has_a_case_of_a_typical_size(monkeypatch):
    monkeypatch.delitem(cases.ROWS, "abs")
    call, larger = cases.cases(["abs"])
    assert call.shapes == ((3, 4),) and larger.shapes == ((16, 256, 26, 26),)


def test_shapes_that_a_row_lacks_follow():
    row = cases.Row((2, 50, 3, 3), {**cases.VOC, "classes": 5}, {"truth": (2, 7, 5)})
    assert cases.input_shapes("region_loss", row) == ((2, 50, 3, 3), (2, 7, 5), (1,))


def test_ratios_are_of_medians_and_quartiles_of_rounds():
    assert before_after.compared([1e-6, 2e-6, 4e-6], [2e-6, 2e-6, 2e-6]) == ["2.0", "2.0", "1.000", "0.500 to 2.000"]
    assert before_after.compared([1e-6], [3e-6])[2:] == ["3.000", "3.000 to 3.000"]


def test_a_case_that_one_commit_lacks_has_no_ratio():
    case = cases.Case("abs", ((3, 4),), {}, "float32")
    times = dict.fromkeys(measure.PARTS, 1e-6)
    lines = before_after.table([case], [[None]], [[times]])
    assert len(lines) == 2 and lines[1].endswith("one of the commits cannot compute it")


def test_the_least_time_of_all_turns_counts():
    assert before_after.least([dict.fromkeys(measure.PARTS, 3.0), dict.fromkeys(measure.PARTS, 2.0)]) == dict.fromkeys(
        measure.PARTS, 2.0)


COMPARE = """
import sys
from benchmarks.before_after import __main__, cases
cases.ROWS["abs"] = []
sys.exit(__main__.main([".", "--op", "abs", "--rounds", "2", "--turns", "1", "--seconds", "0"]))
"""


@pytest.mark.slow
def test_this_checkout_is_compared_with_itself():
    done = fresh.python("-c", COMPARE, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    head, *lines = done.stdout.splitlines()
    assert head.split()[:2] == ["case", "part"]
    assert [line.split()[2] for line in lines] == list(measure.PARTS)
    assert all(float(line.split()[3]) > 0 for line in lines)
