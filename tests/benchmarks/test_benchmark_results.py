"""Results in files: a line for every case, and nothing lost."""
import json
import pathlib

import pytest
from benchmarks.common import results
from benchmarks.operators import report

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "benchmarks"
MEASURED = {
    "machine": {"cores": 2, "torch": None},
    "targets": [{"case": "a", "passed": None}, {"case": "b", "passed": True}],
    "runs": {"tuned": [
        {"name": "a", "shape": [1, 2], "notes": {}, "times": [{"peer": "x", "ms": 1 / 3}, {"peer": "y", "ms": 1e-17}]},
        {"name": "b", "shape": [], "notes": {"torch": "absent"}, "times": []},
        {"name": "c", "shape": [3], "notes": {}, "times": [{"peer": "x"}, {"ms": 2}]},
    ]},
}


def test_what_is_saved_is_loaded(tmp_path):
    results.save(tmp_path / "new" / "results.json", MEASURED)
    assert results.load(tmp_path / "new" / "results.json") == MEASURED
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["results.json"]


def test_a_case_is_a_line_and_names_no_column_twice():
    lines = results.dump(MEASURED).splitlines()
    case, = [line for line in lines if '"name": "a"' in line]
    assert json.loads(case.strip().rstrip(","))["times"]["rows"] == [["x", 1 / 3], ["y", 1e-17]]
    assert case.count("peer") == 1


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.json")), ids=lambda path: path.name)
def test_the_results_in_the_repository_are_compact(path):
    """A line for every target, and fewer than 200 for the rest."""
    text = path.read_text()
    content = results.load(path)
    assert results.dump(content) + "\n" == text
    assert len(text.splitlines()) < 200 + len(content.get("targets", ()))


def test_a_case_without_a_peer_of_mxnet_has_a_line_in_the_summary():
    measured = results.load(FOLDER / "operators" / "results.json")
    line, = [line for line in report.summary(measured).splitlines() if line.startswith("| mish ")]
    assert line.endswith("|  |")
