"""The benchmarks run, write what they say they write, and refuse figures for wrong results. No times are asserted."""
import copy
import dataclasses
import os
import pathlib
import subprocess
import sys

import gluonops as gops
import numpy as np
import pytest
from benchmarks.common import results as files
from benchmarks.common import suites
from benchmarks.operators import cases, measure, numpy_ops, plot, report
from gluonops.core import registry

ROOT = pathlib.Path(__file__).resolve().parents[2]


def bench(*arguments, **variables):
    return subprocess.run([sys.executable, "-m", "benchmarks.operators", *map(str, arguments)], cwd=ROOT,
                          capture_output=True, text=True, env={**os.environ, **variables})


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """(what a quick run printed, its JSON)."""
    path = tmp_path_factory.mktemp("bench") / "results.json"
    done = bench("--quick", "--tuned", "--op", "reorg", "--json", path)
    assert done.returncode == 0, done.stderr
    return done.stdout, files.load(path)


@pytest.mark.slow
def test_results(quick):
    printed, results = quick
    assert set(results) == {"date", "command", "quick", "machine", "targets", "runs"}
    assert results["quick"] is True and set(results["runs"]) == {"tuned"}
    assert {"cpu", "cores", "threads", "memory_gb", "mxnet", "numpy", "torch", "gluonops"} <= set(results["machine"])
    assert {case["kind"] for case in results["runs"]["tuned"]} == {"case", "corner", "node", "sweep"}
    assert "reorg darknet" in printed and "copyto" in printed


@pytest.mark.slow
def test_every_peer_is_measured_in_every_way(quick):
    for case in quick[1]["runs"]["tuned"]:
        assert case["op"] == "reorg" and not case["mismatches"]
        measured = {(row["peer"], row["mode"], row["pass"]) for row in case["times"]}
        modes = {"node": ("net",), "sweep": ("alone",)}.get(case["kind"], ("net", "alone"))
        passes = ("forward",) if case["kind"] == "sweep" else ("forward", "backward", "both")
        for peer in set(case["peers"]) - set(case["notes"]):
            assert {(peer, mode, part) for mode in modes for part in passes} <= measured
        assert all(row["samples"] >= 5 for row in case["times"])


def test_every_operator_has_rows_without_declaring_any():
    """A new operator needs no file in benchmarks/."""
    undeclared = [op for op in gops.ops.list() if suites.rows_of("benchmarks.operators", op) is None]
    assert undeclared, "an operator to try it with"
    for op in gops.ops.list():
        row, = cases.derived(op, quick=True)
        assert {"custom", "builtin", "numpy"} <= {peer.name for peer in row.peers}
        data, *others = row.draw(np.random.RandomState(0))
        assert data.shape == row.shape and len(others) == len(registry.get(op).op.inputs) - 1
    assert {case.op for case in cases.cases(quick=True)} == set(gops.ops.list())


def test_an_operator_without_rows_is_checked_and_timed():
    row, = cases.derived("center_loss", quick=True)
    numpy_ops.register([row.op])
    bench = measure.Bench(dataclasses.replace(row, modes=("alone",)))
    assert not bench.wrong
    assert {(name, mode) for name, mode in bench.runners} >= {("custom", "alone"), ("numpy", "alone")}


@pytest.mark.slow
def test_every_target_is_judged(quick):
    printed, results = quick
    assert len(results["targets"]) == 2 * 2 * 3 + 2 * 3 + 2 * 2 + 4 + 1   # moves, alone, corners, per node, sizes
    assert all(target["passed"] in (True, False, None) for target in results["targets"])
    assert all(f"{target['target']} " in printed for target in results["targets"])


@pytest.mark.slow
def test_no_folder_of_this_machine_gets_out(quick):
    assert quick[1]["command"] == "python -m benchmarks.operators --quick --tuned --op reorg --json results.json"


def test_a_wrong_result_gets_no_figures(tmp_path):
    path = tmp_path / "results.json"
    done = bench("--quick", "--tuned", "--op", "abs", "--kind", "case", "--spoil", "builtin", "--json", path)
    assert done.returncode == 1 and "MISMATCH" in done.stderr
    for case in files.load(path)["runs"]["tuned"]:
        assert set(case["mismatches"]) == {"builtin"} and "output is" in case["mismatches"]["builtin"]
        assert all(row["peer"] != "builtin" for row in case["times"])
    line = next(line for line in done.stdout.splitlines() if line.strip().startswith("builtin"))
    assert "MISMATCH" in line and "ms" not in line and "us (" not in line


@pytest.mark.slow
def test_the_readme_gets_its_figures_from_the_json(quick, tmp_path):
    page = tmp_path / "README.md"
    page.write_text("before\n<!-- operators:begin -->\nold\n<!-- operators:end -->\nafter\n")
    results = copy.deepcopy(quick[1])
    with pytest.raises(ValueError, match="--quick run"):
        report.write_readme(results, page)
    results["quick"] = False
    report.write_readme(results, page)
    written = page.read_text()
    assert written.startswith("before\n<!-- operators:begin -->\n")
    assert written.endswith("<!-- operators:end -->\nafter\n")
    assert "old" not in written and "reorg darknet" in written
    tables = [line for line in written.splitlines() if line.startswith("|")]
    assert tables and all(line.endswith("|") for line in tables)
    report.write_readme(results, page)
    assert page.read_text() == written
    results["runs"]["tuned"][0]["mismatches"] = {"native": "output is 1"}
    with pytest.raises(ValueError, match="did not match"):
        report.write_readme(results, page)
    page.write_text("no markers")
    with pytest.raises(ValueError, match="operators:begin"):
        report.write_readme({**quick[1], "quick": False}, page)


@pytest.mark.slow
def test_the_plot(quick, tmp_path):
    pytest.importorskip("matplotlib")
    assert plot.plot(quick[1], tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_slope_of_linear_time_is_one():
    sizes = [2**n for n in range(5)]
    cases = [{"bytes": size, "times": [{"peer": peer, "mode": "alone", "pass": "forward", "ms": size**power}
                                       for peer, power in (("native", 1), ("copyto", 2))]} for size in sizes]
    assert report.slope(cases) == pytest.approx((1, 2))
