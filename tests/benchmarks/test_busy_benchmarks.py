"""The benchmark on a busy machine: one small case for real, the targets, and the load."""
import os
import pathlib
import subprocess
import sys

import pytest
from benchmarks.busy import cases, load, report
from benchmarks.common import results

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEASURED = results.load(ROOT / "benchmarks" / "busy" / "results.json")


def row(peer, load, p50, p90):
    return {"peer": peer, "load": load, "p50": p50, "p90": p90, "calls": 10}


@pytest.mark.slow
def test_a_case_is_measured_quiet_and_busy(tmp_path):
    file = tmp_path / "busy.json"
    command = [sys.executable, "-m", "benchmarks.busy", "--case", "softmax, 64 kB", "--case", "arithmetic, 1 ms",
               "--case", "arithmetic, 10 ms in 30 layers", "--load", "0", "--load", "1",
               "--turns", "1", "--seconds", "0.02", "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "quiet: median (p90), ms" in done.stdout
    times, *of_arithmetic = [case["times"] for case in results.load(file)["cases"]]
    assert {(time["peer"], time["load"]) for time in times} >= {(peer, busy) for peer in (cases.OURS, cases.MXNET)
                                                               for busy in (0, 1)}
    assert all(0 < time["p50"] <= time["p90"] for time in times)
    assert [[time["load"] for time in times] for times in of_arithmetic] == [[0, 1], [0, 1]]


def test_targets_are_judged():
    times = [row(cases.OURS, 0, 2.0, 3.0), row(cases.OURS, 1, 3.0, 5.0), row(cases.ORT, 0, 1.0, 2.0),
             row(cases.ORT, 1, 4.0, 6.0)]
    verdicts = report.verdicts({"cases": [{"name": "yolov2, 416 x 416", "times": times}]})
    assert [(verdict["measured"], verdict["passed"]) for verdict in verdicts] == [
        ("2.00 x", False), ("2.50 x", True), ("0.83 x", True)]


def test_a_table_has_what_was_measured_at_its_load():
    measured = {"cases": [{"name": "yolov2, 416 x 416", "times": [row(cases.OURS, 1, 2.0, 3.0)]}]}
    assert report.table(measured, 0) == []
    assert report.table(measured, 1) == [["yolov2, 416 x 416", "2 (3)", *[""] * (len(cases.PEERS) - 1)]]
    assert report.summary({**MEASURED, **measured}).splitlines()[-3] == "| yolov2, 416 x 416 | - (2) |  |  |"


def test_arithmetic_has_a_table_of_its_own():
    times = [row(cases.ARITHMETIC, 0, 10.0, 11.0), row(cases.ARITHMETIC, 1, 20.0, 24.0)]
    measured = {"cases": [{"name": "arithmetic, 10 ms", "times": times}]}
    assert report.table(measured, 1) == []
    assert report.floor(measured) == [["arithmetic, 10 ms", "10", "20 (2.0 x)", "24 (2.4 x)", "", ""]]
    assert "arithmetic" not in report.summary({**MEASURED, **measured})


def test_load_keeps_every_core_busy_and_ends():
    with load.busy(2) as processes:
        assert [process.poll() for process in processes] == [None] * 2 * len(os.sched_getaffinity(0))
    assert None not in [process.poll() for process in processes]
