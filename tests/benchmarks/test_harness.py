"""What the benchmarks share: results in files, targets, turns, and a command from records to its page."""
import contextlib
import json
import os
import pathlib

import pytest
from benchmarks.busy import __main__ as busy
from benchmarks.gpu import __main__ as gpu
from benchmarks.harness import report, results, turns
from benchmarks.harness.command import Benchmark
from benchmarks.harness.declaration import Target
from benchmarks.networks.deploy import Deploy
from benchmarks.networks.int8 import Int8
from benchmarks.operators import __main__ as operators

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
    text = path.read_text()
    assert results.dump(results.load(path)) + "\n" == text
    assert len(text.splitlines()) < 300


@pytest.mark.parametrize("benchmark, file", [
    (operators.Operators(), "operators/results.json"),
    (Deploy(), "networks/deploy.json"),
    (busy.Busy(), "busy/results.json"),
    (Int8(), "networks/int8.json"),
    (gpu.Gpu(), "gpu/results.json"),
], ids=["operators", "deploy", "busy", "int8", "gpu"])
def test_a_page_shows_the_figures_of_its_file(benchmark, file, tmp_path):
    """So no figure is typed by hand."""
    copy = tmp_path / "page.md"
    copy.write_text(benchmark.page.read_text(encoding="utf-8"), encoding="utf-8")
    benchmark.write_page(FOLDER / file, copy)
    assert copy.read_text(encoding="utf-8") == benchmark.page.read_text(encoding="utf-8")


class Example(Benchmark):
    """A command whose records have a name and milliseconds."""
    module, about, section = "benchmarks.example", "What it does.", "example"
    columns = {"both": {}}

    def __init__(self, given=()):
        self.given = given

    def records(self, args):
        return self.given

    def machine(self):
        return {"cores": 2}

    def title(self, record):
        return record["name"]

    def ours(self, record):
        return "ours"

    def targets(self, record):
        return [Target("both", "torch", 2)]

    def summary(self, measured):
        return f"{len(measured['cases'])} cases"


def record(name, ours, theirs, **mismatches):
    return {"name": name, "mismatches": mismatches,
            "times": [{"peer": "ours", "ms": ours}, {"peer": "torch", "ms": theirs}]}


def run(path, records, *more):
    return Example(records).main(["--json", str(path), *more])


def test_a_run_keeps_the_cases_that_it_does_not_measure(tmp_path, capsys):
    path = tmp_path / "results.json"
    assert run(path, [record("a", 1.0, 2.0), record("b", 1.0, 1.0)]) == 0
    assert run(path, [record("a", 1.0, 1.5), record("c", 1.0, 1.0)]) == 0
    measured = results.load(path)
    assert measured["command"] == "python -m benchmarks.example --json results.json", "without this machine's folders"
    assert [(case["name"], case["times"][1]["ms"]) for case in measured["cases"]] == [
        ("a", 1.5), ("b", 1.0), ("c", 1.0)]
    printed = capsys.readouterr().out.splitlines()
    assert "a, both  2 x the speed of torch  2.00 x  passed" in printed
    assert "a, both  2 x the speed of torch  1.50 x  MISSED" in printed


def test_a_run_that_breaks_off_keeps_what_it_has_measured(tmp_path):
    def records():
        yield record("a", 1.0, 2.0)
        raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        run(tmp_path / "results.json", records())
    assert [case["name"] for case in results.load(tmp_path / "results.json")["cases"]] == ["a"]


def test_a_page_gets_its_text_between_the_markers(tmp_path):
    path, page = tmp_path / "results.json", tmp_path / "page.md"
    page.write_text("before\n<!-- example:begin -->\nold\n<!-- example:end -->\nafter\n")
    run(path, [record("a", 1.0, 2.0)])
    for _ in range(2):
        Example().write_page(path, page)
        assert page.read_text() == "before\n<!-- example:begin -->\n1 cases\n<!-- example:end -->\nafter\n"
    page.write_text("no markers")
    with pytest.raises(ValueError, match="example:begin"):
        Example().write_page(path, page)


def test_no_page_shows_a_wrong_result_or_a_quick_run(tmp_path, capsys):
    path = tmp_path / "results.json"
    assert run(path, [record("a", 1.0, 2.0, torch="output is 1")]) == 1
    assert "a: torch: output is 1" in capsys.readouterr().err
    with pytest.raises(ValueError, match="did not match"):
        Example().write_page(path, tmp_path / "page.md")
    run(path, [record("a", 1.0, 2.0)], "--quick")
    with pytest.raises(ValueError, match="--quick run"):
        Example().write_page(path, tmp_path / "page.md")


def test_speed_is_compared_turn_by_turn_where_turns_are_known():
    rows = [{"peer": "ours", "ms": 2.0, "turns": [1.0, 4.0, 2.0]},
            {"peer": "torch", "ms": 4.0, "turns": [3.0, 4.0, 4.0]}]
    assert report.speedup({"times": rows}, "ours", "torch") == 2.0
    assert report.speedup({"times": [{**row, "turns": None} for row in rows]}, "ours", "torch") == 2.0
    assert report.speedup({"times": rows[:1]}, "ours", "torch") is None


@pytest.mark.parametrize("speed, words, passed", [
    (2.0, "2.00 x", True), (1.9, "1.90 x", False), (None, "not measured", None), (-3.0, "within noise", None)])
def test_a_target_is_judged(speed, words, passed):
    verdict = report.compared("a", 2, "torch", speed)
    assert (verdict["measured"], verdict["passed"]) == (words, passed)


def test_milliseconds_are_of_all_calls_and_turns_their_medians():
    found = turns.milliseconds([[0.002, 0.004, 0.006], [0.008, 0.008]], share=2)
    assert found == {"ms": 3.0, "low": 1.5, "high": 4.0, "samples": 5, "turns": [2.0, 4.0]}


def test_a_call_is_timed_for_as_long_as_is_asked(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(turns.time, "perf_counter", lambda: clock[0])

    def call():
        clock[0] += 0.25

    assert turns.timed(call, 0.5) == [0.25, 0.25]
    assert clock[0] == 0.75, "it is called once before"
    assert turns.timed(call, 0) == [0.25]


class Recorded:
    """A peer that writes down when it is asked."""

    def __init__(self, name, order):
        self.name, self.order = name, order

    def ask(self, *question):
        self.order.append(self.name)
        return question


def test_peers_take_turns_and_another_one_begins_each_time():
    order = []
    peers = {name: Recorded(name, order) for name in "abc"}
    assert turns.in_turns(peers, 2, "time", 0.5) == {name: [("time", 0.5)] * 2 for name in "abc"}
    assert "".join(order) == "abcbca"


def test_a_peer_answers_from_a_process_of_its_own(tmp_path):
    (tmp_path / "answering.py").write_text(
        "import os\ndef make(base):\n    print('noise')\n"
        "    return {'add': lambda number: base + number, 'process': os.getpid, 'end': lambda: os._exit(3)}\n")
    with turns.Peer("answering", {**os.environ, "PYTHONPATH": str(tmp_path)}, base=40) as peer:
        assert peer.ask("add", 2) == 42 and peer.ask("process") == peer.process.pid
        with pytest.raises(turns.PeerEnded):
            peer.ask("end")


def test_what_mxnet_lacks_is_compared_with_a_graph_of_its_operators():
    measured = results.load(FOLDER / "operators" / "results.json")
    case = next(case for case in measured["cases"] if case["name"] == "mish")
    assert operators.ratios(case)["mxnet"] == report.speedup(case, operators.OURS, "builtin", **{"pass": "both"})


def test_the_table_of_the_gpu_has_the_range_of_an_operators_cases():
    def record(ours, copy):
        times = [{"peer": "gluonops", "pass": "forward", "ms": ours}, {"peer": "copy", "pass": "forward", "ms": copy}]
        return {"op": "abs", "name": "abs", "shape": [1], "dtype": "float32", "data_bytes": 1, "times": times}

    about = {"machine": {"gpu": "G", "cupy": "1", "torch": None}, "date": "today", "command": "c"}
    table = gpu.Gpu().summary({**about, "cases": [record(2.0, 1.0), record(1.0, 1.0), record(4.0, 3.0)]})
    assert "| abs | 3 | 0.50 to 1.00 |  |  |" in table.splitlines()


def test_targets_of_networks_are_of_the_fastest_of_ours():
    times = [{"peer": "Module", "ms": 2.0}, {"peer": "optimize_for", "ms": 1.0}, {"peer": "onnxruntime", "ms": 1.5},
             {"peer": "torch eager", "ms": 1.9}]
    record = {"net": "n", "size": 1, "batch": 1, "times": times}
    assert [verdict["passed"] for verdict in Deploy().verdicts([record])] == [True, False, None]
    assert all(verdict["passed"] is None for verdict in Deploy().verdicts([{**record, "times": []}]))


def test_targets_on_a_busy_machine():
    times = [{"peer": peer, "load": load, "p50": p50, "p90": p90} for peer, load, p50, p90 in (
        (busy.OURS, 0, 2.0, 3.0), (busy.OURS, 1, 3.0, 5.0), (busy.ORT, 0, 1.0, 2.0), (busy.ORT, 1, 4.0, 6.0))]
    verdicts = busy.Busy().verdicts([{"name": "yolov2, 416 x 416", "times": times}])
    assert [(verdict["measured"], verdict["passed"]) for verdict in verdicts] == [
        ("0.50 x", False), ("0.40 x", True), ("1.20 x", True), ("not measured", None)]


def test_load_keeps_every_core_busy_and_ends():
    with busy.busy(2) as processes:
        assert [process.poll() for process in processes] == [None] * 2 * len(os.sched_getaffinity(0))
    assert None not in [process.poll() for process in processes]
