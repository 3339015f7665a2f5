"""The benchmarks of networks run, and compare before they time. No times are asserted."""
import contextlib
import importlib
import importlib.util
import json

import numpy as np
import pytest
from benchmarks.busy import __main__ as busy
from benchmarks.harness import results
from benchmarks.networks.deploy import Deploy
from benchmarks.networks.exported import differs
from benchmarks.networks.int8 import Int8
from benchmarks.networks.peers import EAGER, INT8, MODULE, NET, ORT

needs_onnxruntime = pytest.mark.skipif(not importlib.util.find_spec("onnxruntime"), reason="onnxruntime is optional")


@pytest.mark.slow
def test_an_exported_network(capsys, tmp_path, monkeypatch):
    """The command compares some of the peers, of which one is spoilt."""
    monkeypatch.setattr(Deploy, "peers", (NET, MODULE, ORT, EAGER))
    monkeypatch.setattr(Deploy, "ways", [{"batch": 2}])
    path = tmp_path / "deploy.json"
    assert Deploy().main(["--quick", "--spoil", MODULE, "--json", str(path)]) == 1
    case, = results.load(path)["cases"]
    assert (case["net"], case["batch"]) == ("small", 2)
    assert set(case["mismatches"]) == {MODULE} and "is off by" in case["mismatches"][MODULE]
    measured = {row["peer"] for row in case["times"]}
    assert NET in measured and MODULE not in measured
    assert all(row["ms"] > 0 and row["samples"] >= 2 and len(row["turns"]) == 2 for row in case["times"])
    for peer, package in ((ORT, "onnxruntime"), (EAGER, "torch")):
        assert (peer in measured) == (importlib.util.find_spec(package) is not None)
    printed, errors = capsys.readouterr()
    assert "small 64, batch 2" in printed and "MISMATCH" in printed and "MISMATCH" in errors


@pytest.mark.slow
@needs_onnxruntime
def test_a_network_in_8_bits():
    benchmark = Int8()
    record, limited = benchmark.records(benchmark.parser().parse_args(["--quick", "--threads", "1"]))
    assert {row["peer"] for row in record["times"]} == set(Int8.peers) and not record["mismatches"]
    assert {row["peer"] for row in limited["times"]} == {MODULE, INT8}   # onnxruntime has no limit
    assert "small 64, 1 thread" in benchmark.text(record) and "small 64, 1 thread, AVX2" in benchmark.text(limited)
    table = benchmark.table({"cases": [record, limited]})
    assert table.count("time for an image") == 2 and table.count("onnxruntime") == 2
    assert benchmark.targets(record) and not benchmark.targets(limited)


def test_an_output_that_is_missing_or_off_is_wrong():
    expected = np.array([1.0, 2.0])
    assert differs(None, expected, 1) == differs(expected, None, 1) == "it failed"
    assert "shape" in differs(expected[:1], expected, 1)
    assert differs(expected + 1e-6, expected, 1e-5) is None and differs(expected + 0.1, expected, 0.1) is None
    assert "off by" in differs(expected + 1e-4, expected, 1e-5) and "off by" in differs(2 * expected, expected, 0.1)


def test_a_step_in_torch_has_the_loss_of_ours():
    pytest.importorskip("torch")
    from benchmarks.networks import torch_training
    torch_training.detector_step("half of tiny_yolov2", 2, 64)   # compares the first losses


class Here(contextlib.AbstractContextManager):
    """A peer that answers in this process. test_harness.py starts one in a process of its own."""

    def __init__(self, module, environment, **keywords):
        self.functions = importlib.import_module(module).make(**json.loads(json.dumps(keywords)))

    def ask(self, name, *arguments):
        return self.functions[name](*arguments)

    def __exit__(self, *error):
        pass


def test_a_case_is_measured_quiet_and_busy(monkeypatch):
    monkeypatch.setattr(busy.turns, "Peer", Here)
    record = busy.measure(busy.CASES[busy.QUICK], 1, 0.02)
    peers = [peer for peer in busy.PEERS if peer == busy.OURS or importlib.util.find_spec(peer)]
    measured = [(row["peer"], row["load"]) for row in record["times"]]
    assert measured == [(peer, load) for load in busy.LOADS for peer in peers]
    assert all(0 < row["p50"] <= row["p90"] for row in record["times"])
    assert busy.OURS in busy.Busy().text(record)
