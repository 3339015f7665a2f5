"""Results in files: a line for every case, and nothing lost."""
import json
import pathlib

import pytest
from benchmarks.busy import report as busy
from benchmarks.common import results, tables
from benchmarks.gpu import report as gpu
from benchmarks.networks import int8
from benchmarks.networks import report as networks
from benchmarks.operators import report as operators

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


@pytest.mark.parametrize("page, name, file, body", [
    ("benchmarks/README.md", "operators", "operators/results.json", operators.summary),
    ("benchmarks/README.md", "deploy", "networks/deploy.json", networks.summary),
    ("benchmarks/README.md", "gpu", "gpu/results.json", gpu.summary),
    ("README.md", "busy", "busy/results.json", busy.summary),
    ("docs/int8.md", "int8", "networks/int8.json", int8.markdown),
])
def test_a_page_shows_the_figures_of_its_file(page, name, file, body, tmp_path):
    """So no figure is typed by hand."""
    copy = tmp_path / "page.md"
    copy.write_text((FOLDER.parent / page).read_text(encoding="utf-8"), encoding="utf-8")
    tables.put(copy, name, body(results.load(FOLDER / file)))
    assert copy.read_text(encoding="utf-8") == (FOLDER.parent / page).read_text(encoding="utf-8")


def test_an_operator_that_mxnet_lacks_is_compared_with_a_graph_of_its_operators():
    measured = results.load(FOLDER / "operators" / "results.json")
    case = next(case for case in measured["runs"]["tuned"] if case["name"] == "mish")
    assert operators.of_mxnet(case) == operators.of(case, "builtin", "net", "both")


def test_the_table_of_the_gpu_has_the_range_of_an_operators_cases():
    def record(ours, copy):
        return {"op": "abs", "ms": {"gluonops": {"forward": ours}, "copy": {"forward": copy}}}

    about = {"machine": {"gpu": "G", "cupy": "1", "torch": None}, "date": "today", "command": "c", "targets": []}
    table = gpu.summary({**about, "cases": [record(2.0, 1.0), record(1.0, 1.0), record(4.0, 3.0)]})
    assert "| abs | 3 | 0.50 to 1.00 |  |  |" in table.splitlines()
