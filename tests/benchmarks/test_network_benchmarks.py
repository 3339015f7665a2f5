"""``benchmarks.networks.deploy`` runs, compares before it times, and writes what it says. No times are asserted."""
import copy
import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest
from benchmarks.common import results as files
from benchmarks.networks import report

ROOT = pathlib.Path(__file__).resolve().parents[2]
NET, MODULE, ORT, EAGER = "the net, hybridized", "Module, NaiveEngine", "onnxruntime", "torch eager"


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """(what a quick run printed, its errors, its JSON), one peer spoilt."""
    path = tmp_path_factory.mktemp("deploy") / "deploy.json"
    words = ["--quick", "--batch", "2", "--threads", "1", "--spoil", "optimize_for", "--json", path]
    for peer in ("optimize_for", MODULE, ORT, EAGER):
        words += ["--peer", peer]
    done = subprocess.run([sys.executable, "-m", "benchmarks.networks.deploy", *map(str, words)], cwd=ROOT,
                          capture_output=True, text=True, env=os.environ)
    assert done.returncode == 1, done.stderr
    return done.stdout, done.stderr, files.load(path)


@pytest.mark.slow
def test_times_and_notes(quick):
    printed, _, results = quick
    case, = results["cases"]
    assert (case["net"], case["batch"]) == ("small", 2) and results["quick"]
    measured = {row["peer"] for row in case["times"]}
    assert {NET, MODULE} <= measured and all(row["ms"] > 0 and row["samples"] >= 4 for row in case["times"])
    for peer, package in ((ORT, "onnxruntime"), (EAGER, "torch")):
        assert (peer in measured) != (peer in case["notes"])
        assert (peer in measured) <= (importlib.util.find_spec(package) is not None)
    assert "small 64, batch 2" in printed and "as fast as onnxruntime" in printed


@pytest.mark.slow
@pytest.mark.parametrize("peer, package", [(ORT, "onnxruntime"), (EAGER, "torch")])
def test_the_other_frameworks_agree(quick, peer, package):
    """Their outputs were compared with the net's, within 1e-5 of the largest value."""
    pytest.importorskip(package)
    case, = quick[2]["cases"]
    assert peer not in case["mismatches"] and peer in {row["peer"] for row in case["times"]}


@pytest.mark.slow
def test_a_wrong_output_gets_no_figures(quick):
    printed, errors, results = quick
    case, = results["cases"]
    assert set(case["mismatches"]) == {"optimize_for"} and "is off by" in case["mismatches"]["optimize_for"]
    assert "optimize_for" not in {row["peer"] for row in case["times"]}
    assert "MISMATCH" in printed and "MISMATCH" in errors


@pytest.mark.slow
def test_the_readme_gets_its_figures_from_the_json(quick, tmp_path):
    page = tmp_path / "README.md"
    page.write_text("before\n<!-- deploy:begin -->\nold\n<!-- deploy:end -->\nafter\n")
    results = copy.deepcopy(quick[2])
    with pytest.raises(ValueError, match="--quick run"):
        report.write_readme(results, page)
    results["quick"] = False
    with pytest.raises(ValueError, match="did not match"):
        report.write_readme(results, page)
    results["cases"][0]["mismatches"] = {}
    report.write_readme(results, page)
    written = page.read_text()
    assert written.startswith("before\n<!-- deploy:begin -->\n")
    assert written.endswith("<!-- deploy:end -->\nafter\n")
    assert "old" not in written and "small 64, batch 2" in written


def test_targets():
    def case(**times):
        rows = [{"peer": peer, "ms": ms, "turns": [ms]} for peer, ms in times.items()]
        return {"net": "n", "size": 1, "batch": 1, "times": rows}

    fast, slow = case(**{MODULE: 2, ORT: 2, EAGER: 4}), case(**{MODULE: 2, ORT: 1.9, EAGER: 3.9})
    assert [v["passed"] for v in report.verdicts([fast, slow])] == [True, True, None, False, False, None]
