"""Every declaration of an operator is computed and compared once, in small. No times are asserted."""
import math

import gluonops as gops
import pytest
from benchmarks.cpu import measure
from benchmarks.harness import cases, inputs
from benchmarks.harness.declaration import Declaration
from benchmarks.harness.report import of
from benchmarks.operators.__main__ import Operators
from gluonops.contract import registry

DECLARED = [op for op in gops.ops.list() if type(cases.declared(op)) is not Declaration]
WITHOUT_TORCH = {"center_loss", "gaussian_yolo_loss", "region_decode", "region_loss", "softmax_output", "yolo_loss"}


@pytest.mark.parametrize("op", gops.ops.list())
def test_every_peer_agrees(op):
    case = next(cases.on_cpu([op], quick=True))
    bench = measure.Bench(case)
    assert not bench.wrong
    assert {"native", "custom", "builtin"} <= bench.runners.keys()


@pytest.mark.parametrize("op", DECLARED)
def test_a_declaration_has_known_names_and_rows_that_the_contract_takes(op):
    found = cases.declared(op)
    assert {name for name in dir(found) if name.isupper()} == {name for name in dir(Declaration) if name.isupper()}
    assert found.CPU or found.GPU or found.COMMITS
    contract, found = registry.get(op).op, cases.with_rows(op)
    rows = [*found.CPU, *found.CHAINED, *found.COMMITS, *found.GPU]
    for row in rows:
        contract.infer_shape(contract.parse(row.attrs), {contract.inputs[0].name: row.shape, **row.more})
    for target in found.TARGETS:
        assert target.part in measure.PASSES
    peers = {"torch", "copy", *(name for row in found.CPU for name in measure.peers_of(cases.case(op, row)))}
    assert {target.than for target in found.TARGETS} <= peers


def test_operators_that_torch_has_are_compared_with_it():
    pytest.importorskip("torch", reason="torch is optional")
    found = {op for op in gops.ops.list()
             if any("torch" in measure.peers_of(cases.case(op, row)) for row in cases.with_rows(op).CPU)}
    assert found == set(gops.ops.list()) - WITHOUT_TORCH


def test_an_operator_without_a_declaration_is_measured_at_a_typical_size(monkeypatch):
    monkeypatch.setattr(cases, "declared", lambda op: Declaration())
    case, = cases.on_cpu(["center_loss"])
    assert case.shape == (2048, 256)
    quick, = cases.on_cpu(["center_loss"], quick=True)
    assert math.prod(quick.shape) < 300
    assert len({case.title for case in cases.of_commits(["center_loss"])}) == 2


def test_times_of_every_peer_and_pass():
    case, chain = cases.on_cpu(["abs"], quick=True)
    assert chain.nodes == cases.NODES
    found = measure.run(case, quick=True)
    measured = set(found["peers"])
    assert measured >= {"native", "custom", "builtin", "mxnet", "numpy"} and not found["mismatches"]
    for peer in measured:
        assert all(of(found, peer, **{"pass": part}) is not None for part in measure.PASSES)
    assert of(found, "copy") > 0 and all(row["samples"] >= 5 for row in found["times"])
    assert all(peer in Operators().text(found) for peer in found["peers"])


def test_the_net_without_the_operator_is_subtracted(monkeypatch):
    """The net with it takes 5 ms, the net without it 2, on a clock of the test's."""
    bench = measure.Bench(next(cases.on_cpu(["reorg"], quick=True)))
    seconds = {**dict.fromkeys(bench.without, 2.0), **dict.fromkeys(bench.runners, 5.0), "copy": 1.0}
    monkeypatch.setattr(measure, "interleaved", lambda steps, samples, limit: {
        (key, part): [seconds[key]] for key, _ in steps for part in measure.PASSES})
    rows = bench.measure(1, 1)
    assert {row["ms"] for row in rows if row["peer"] == "native"} == {5.0 - 2.0}
    assert [row["ms"] for row in rows if row["peer"] == "copy"] == [1.0]


def test_a_wrong_result_gets_no_figures():
    found = measure.run(next(cases.on_cpu(["mish"], quick=True)), quick=True, spoil="custom")
    assert set(found["mismatches"]) == {"custom"} and "output is" in found["mismatches"]["custom"]
    assert "custom" not in {row["peer"] for row in found["times"]}
    line = next(line for line in Operators().text(found).splitlines() if line.strip().startswith("custom"))
    assert "MISMATCH" in line and "ms" not in line


def test_the_limit_is_a_copy_of_the_larger_one_of_data_and_output():
    large, small = (cases.Case("tile", (7, 13), attrs={"tiles": tiles}) for tiles in (3, 1))
    assert measure.Bench(large).copied == (7, 39) and measure.Bench(small).copied == (7, 13)


def test_inputs_are_the_same_in_every_process_and_classes_are_indices():
    case = cases.Case("softmax_cross_entropy", (9, 33))
    data, label = inputs.of_case(case).values()
    again, _ = inputs.of_case(case).values()
    assert (data == again).all() and label.dtype == "int64" and label.max() < 33
