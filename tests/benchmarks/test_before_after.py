"""The comparison of two commits: cases, turns and the table. No times are asserted."""
import argparse
import contextlib
import inspect
import json
import pathlib

import gluonops as gops
import numpy as np
import pytest
from benchmarks.before_after import __main__ as before_after
from benchmarks.before_after import measure
from benchmarks.harness import cases, suites
from gluonops.contract import registry


def test_every_operator_has_a_call_and_a_larger_case():
    for op in gops.ops.list():
        sizes = [case.shape for case in cases.of_commits([op])]
        assert len(sizes) >= 2 and sizes[0] != sizes[1]
        assert sizes[0] == suites.get(op).cases[0].shapes[0]


def test_every_case_is_a_call_of_its_function(monkeypatch, tmp_path):
    """A row may leave out an attribute that the contract has a default for, and the function has not."""
    monkeypatch.setattr(before_after.inputs, "of_case", lambda case: {"data": np.zeros(1)})
    before_after.draw(list(cases.of_commits(gops.ops.list())), tmp_path)
    for case in json.loads((tmp_path / "cases.json").read_text()):
        arrays = [None] * len(registry.get(case["op"]).op.inputs)
        inspect.signature(getattr(gops.ops, case["op"])).bind(*arrays, **case["attrs"])


def test_ratios_are_of_medians_and_quartiles_of_rounds():
    assert before_after.compared([1e-6, 2e-6, 4e-6], [2e-6, 2e-6, 2e-6]) == ["2.0", "2.0", "1.000", "0.500 to 2.000"]
    assert before_after.compared([1e-6], [3e-6])[2:] == ["3.000", "3.000 to 3.000"]


def test_a_case_that_one_commit_lacks_has_no_ratio():
    case, times = cases.Case("abs", (3, 4)), dict.fromkeys(measure.PARTS, 1e-6)
    lines = before_after.table([case], [[None]], [[times]])
    assert len(lines) == 2 and lines[1].endswith("one of the commits cannot compute it")


def test_the_last_lines_have_the_geometric_means():
    case = cases.Case("abs", (3, 4))
    old = dict.fromkeys(measure.PARTS, 2e-6)
    new = [{**old, "forward": 1e-6}, {**old, "forward": 4e-6, "bound": 8e-6}]
    lines = before_after.table([case] * 2, [[old]] * 2, [[times] for times in new])
    words = [line.split() for line in lines[-4:]]
    assert [(line[2], float(line[3])) for line in words] == [
        ("forward", 1.0), ("backward", 1.0), ("bound", 2.0), ("all", round(2 ** (1 / 3), 3))]
    assert [" ".join(line[4:]) for line in words] == [
        f"{slower} of {count} are above 1.05" for slower, count in ((1, 2), (0, 2), (1, 2), (2, 6))]


def test_the_least_time_of_all_turns_counts(monkeypatch):
    answers = {"after": [dict.fromkeys(measure.PARTS, seconds) for seconds in (3.0, 2.0)], "before": [None, None]}
    monkeypatch.setattr(before_after, "Peer", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(before_after, "in_turns", lambda *_: answers)
    packages = dict.fromkeys(("before", "after"), pathlib.Path())
    times = before_after.measure(packages, pathlib.Path(), 1, argparse.Namespace(rounds=1, turns=2, seconds=0))
    assert times == {"before": [[None]], "after": [[dict.fromkeys(measure.PARTS, 2.0)]]}


@pytest.mark.slow
def test_this_checkout_is_compared_with_itself(monkeypatch, capsys):
    monkeypatch.setattr(before_after, "of_commits", lambda ops: [cases.Case("abs", (3, 4))])
    assert before_after.main([".", "--rounds", "2", "--turns", "1", "--seconds", "0"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["case", "part"] and len(lines) == len(measure.PARTS) + 4
    for line, part in zip(lines, measure.PARTS):
        assert line.split()[3] == part and float(line.split()[4]) > 0
