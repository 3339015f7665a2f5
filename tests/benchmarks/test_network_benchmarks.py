"""The benchmarks of networks run, and compare before they time. No times are asserted."""
import argparse
import importlib.util

import numpy as np
import pytest
from benchmarks.busy import __main__ as busy
from benchmarks.harness import results
from benchmarks.networks import deploy, exported, int8
from benchmarks.networks.peers import EAGER, INT8, MODULE, NET, ORT, ORT_INT8

needs_onnxruntime = pytest.mark.skipif(not importlib.util.find_spec("onnxruntime"), reason="onnxruntime is optional")


def options(**others):
    return argparse.Namespace(**{"quick": True, "turns": 2, "spoil": None, **others})


def test_an_exported_network(capsys, tmp_path, monkeypatch):
    """The command, with some of the peers, of which one is spoilt."""
    monkeypatch.setattr(deploy, "PEERS", (NET, MODULE, ORT, EAGER))
    monkeypatch.setattr(deploy, "BATCHES", (2,))
    path = tmp_path / "deploy.json"
    assert deploy.main(["--quick", "--spoil", MODULE, "--json", str(path)]) == 1
    case, = results.load(path)["cases"]
    assert (case["net"], case["batch"]) == ("small", 2)
    assert set(case["mismatches"]) == {MODULE} and "is off by" in case["mismatches"][MODULE]
    measured = {row["peer"] for row in case["times"]}
    assert NET in measured and MODULE not in measured
    assert all(row["ms"] > 0 and row["samples"] >= 2 and len(row["turns"]) == 2 for row in case["times"])
    for peer, package in ((ORT, "onnxruntime"), (EAGER, "torch")):
        assert (peer in measured) != (peer in case["notes"])
        assert (peer in measured) == (importlib.util.find_spec(package) is not None)
    printed, errors = capsys.readouterr()
    assert "small 64, batch 2" in printed and "MISMATCH" in printed and "MISMATCH" in errors


@needs_onnxruntime
def test_a_network_in_8_bits():
    record = exported.measure("small", 1, 1, int8.PEERS, "int8", int8.differs, options())
    assert {row["peer"] for row in record["times"]} == set(int8.PEERS) and not record["mismatches"]
    outputs = record["outputs"]
    errors = {peer: int8.relative_error(output, outputs[MODULE]) for peer, output in outputs.items()}
    assert errors[MODULE] == 0 and errors[ORT] < 1e-5
    assert 0 < errors[INT8] < 0.03 and 0 < errors[ORT_INT8] < 0.03
    assert "small 64, 1 thread" in int8.text({**record, "threads": 1, "errors": errors})


def test_an_output_that_is_missing_or_off_is_wrong():
    expected = np.array([1.0, 2.0])
    assert deploy.differs(None, expected) == int8.differs(None, expected).replace("its error is inf", "it failed")
    assert deploy.differs(expected, None) == "it failed" and int8.differs(expected, None)
    assert "shape" in deploy.differs(expected[:1], expected)
    assert deploy.differs(expected + 1e-6, expected) is None is int8.differs(expected + 0.1, expected)
    assert "off by" in deploy.differs(expected + 1e-4, expected) and "error" in int8.differs(2 * expected, expected)


def test_a_step_in_torch_has_the_loss_of_ours():
    pytest.importorskip("torch")
    from benchmarks.networks import torch_training
    torch_training.step("half of tiny_yolov2", 2, 64)   # compares the first losses


def test_a_case_is_measured_quiet_and_busy():
    case = next(case for case in busy.CASES if case.name == busy.QUICK)
    record = busy.measure(case, 1, 0.02)
    assert {(row["peer"], row["load"]) for row in record["times"]} >= {(busy.OURS, load) for load in busy.LOADS}
    assert all(0 < row["p50"] <= row["p90"] for row in record["times"])
    assert busy.OURS in busy.text(record)
