"""``benchmarks.networks.int8`` runs, compares before it times, and writes what it says. No times are asserted."""
import copy

import pytest
from benchmarks.common import results as files
from benchmarks.networks import int8
from benchmarks.networks.cases import INT8, INT8_PEERS, MODULE, ORT, ORT_INT8


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The JSON of a quick run."""
    pytest.importorskip("onnxruntime")
    path = tmp_path_factory.mktemp("int8") / "int8.json"
    assert int8.main(["--quick", "--threads", "1", "--json", str(path)]) == 0
    return files.load(path)


@pytest.mark.slow
def test_times_and_errors(quick):
    case, = quick["cases"]
    assert (case["net"], case["threads"]) == ("small", 1) and quick["quick"]
    assert {row["peer"] for row in case["times"]} == set(INT8_PEERS)
    assert all(row["ms"] > 0 for row in case["times"])
    assert case["errors"][MODULE] == 0 and case["errors"][ORT] < 1e-5
    assert 0 < case["errors"][INT8] < 0.03 and 0 < case["errors"][ORT_INT8] < 0.03


@pytest.mark.slow
def test_the_page_gets_its_figures_from_the_json(quick, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- int8:begin -->\nold\n<!-- int8:end -->\nafter\n")
    results = copy.deepcopy(quick)
    with pytest.raises(ValueError, match="--quick run"):
        int8.write_page(results, page)
    results["quick"] = False
    results["cases"][0]["mismatches"] = {INT8: "its error is 0.5"}
    with pytest.raises(ValueError, match="did not match"):
        int8.write_page(results, page)
    results["cases"][0]["mismatches"] = {}
    int8.write_page(results, page)
    written = page.read_text()
    assert written.startswith("before\n<!-- int8:begin -->\n") and written.endswith("<!-- int8:end -->\nafter\n")
    assert "old" not in written and "small 64, 1 thread" in written


def test_targets():
    def case(**times):
        rows = [{"peer": peer, "ms": ms, "turns": [ms]} for peer, ms in times.items()]
        return {"net": "n", "size": 1, "threads": 2, "times": rows}

    fast = case(**{INT8: 2, ORT: 5, ORT_INT8: 2})
    slow = case(**{INT8: 2, ORT: 4.9, ORT_INT8: 1.9})
    missing = case(**{ORT: 4.9})
    verdicts = int8.verdicts([fast, slow, missing])
    assert [verdict["passed"] for verdict in verdicts] == [True, True, False, False, None, None]


def test_a_peer_without_output_has_no_small_error():
    assert int8.relative_error(None, None) == float("inf")
