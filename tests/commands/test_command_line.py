"""What all commands have in common: help that teaches, exit codes, JSON alone on stdout, errors in one line."""
import json
import pathlib
import re

import gluonops as gops
import pytest
from daily import VARIED
from gluonops.bench import cases
from gluonops.commands import bench, cli
from gluonops.contract import registry

ROOT = pathlib.Path(__file__).parents[2]
COMMANDS = ["doctor", "install-mxnet", "ops", "files", "convert", "detect", "classify", "anchors", "export", "import",
            "viz", "bench", "train", "val", "completion"]
FAILS = {"install-mxnet": ["--wheel", "no.whl", "-o", "wheels"], "ops": ["nope"],
         "files": ["convert", "nowhere", "net.params"], "convert": ["no.cfg", "no.weights", "net"],
         "detect": ["no.png", "--cfg", "no.cfg", "--weights", "no.weights", "-o", "out.png"],
         "classify": ["nowhere", "no.png"],
         "anchors": ["nowhere"], "export": ["nowhere", "out"],
         "viz": ["nowhere", "-o", "out.svg"], "bench": ["--op", "nope"]}


@pytest.mark.parametrize("words", [["--help"], []])
def test_every_command_is_here(words, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    printed = capsys.readouterr().out
    assert all(re.search(rf"^  {command}\b", printed, re.M) for command in COMMANDS)
    assert caught.value.code == 0 and list(cli.EXAMPLES) and set(cli.EXAMPLES) == set(COMMANDS)
    assert all(len(line) < 100 for line in printed.splitlines())


def test_the_help_the_readme_and_the_site_show_the_same_doors(capsys):
    """Keep it running, build with it, take it with you: in one order, and in the same words."""
    with pytest.raises(SystemExit):
        cli.main([])
    found = {"help": re.findall(r"^(\w.*):$", capsys.readouterr().out, re.M)}
    for page, title in (("README.md", r"^## (.*)$"), ("docs/index.md", r"^:::\{grid-item-card\} (.*)$"),
                        ("docs/command_line.md", r"^## (.*)$")):
        found[page] = re.findall(title, (ROOT / page).read_text(encoding="utf-8"), re.M)
    assert all(tuple(title for title in titles if title in cli.DOORS) == cli.DOORS for titles in found.values()), found


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(command, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main([command, "--help"])
    printed = capsys.readouterr().out
    assert caught.value.code == 0
    assert re.search(rf"\nexamples:\n  gluonops {command}\b", printed) and cli.EXIT_CODES in printed
    assert "--debug" in printed and ("--json" in printed or command == "train")
    assert all(len(line) <= 100 for line in printed.splitlines())


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_can_be_typed(command):
    """Every example line is one that the parser takes."""
    for line in cli.EXAMPLES[command].splitlines():
        words = re.split(r"\s{2,}|[|>]", line.strip().split("gluonops ", 1)[1])[0].split()
        assert cli._parser().parse_known_args(words)[0].run


@pytest.mark.parametrize("words, meant", [
    (["detct"], "detect"), (["export", "net", "--onx", "net.onnx"], "--onnx"),
    (["bench", "--dtype", "flota32"], "float32")])
def test_a_mistyped_word(words, meant, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    assert caught.value.code == 2 and f"Perhaps you mean '{meant}'" in capsys.readouterr().err


@pytest.mark.parametrize("command", FAILS)
def test_an_error_is_one_line(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main([command, *FAILS[command]]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and len(printed.err.splitlines()) == 1 and printed.err.startswith("gluonops")
    assert not list(tmp_path.iterdir())
    with pytest.raises((gops.OpError, OSError, RuntimeError)):
        cli.main([command, *FAILS[command], "--debug"])


@pytest.mark.parametrize("words", [["nope"], ["ops", "a", "b"], ["viz", "net"], ["bench", "--shape", "2,3"],
                                   ["bench", "--op", "abs", "--shape", "0,3"], ["bench", "--seconds", "-1"],
                                   ["bench", "--dtype", "int32"], ["export", "net"],
                                   ["detect"], ["detect", "a.onnx"], ["detect", "a.cfg"],
                                   ["detect", "a.cfg", "a.weights"], ["detect", "a.png", "--cfg", "a.cfg"],
                                   ["detect", "a", "--json", "a.png"],
                                   ["classify", "a.onnx", "a.png", "--top", "all"],
                                   ["convert", "a.cfg", "a.weights", "a", "--threshold", "0.5"],
                                   ["convert", "a.cfg", "a.weights", "a", "--nms", "0.5", "--topk", "9"]])
def test_misspelled(words, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    printed = capsys.readouterr()
    assert caught.value.code == 2 and printed.out == "" and "error: " in printed.err


@pytest.mark.parametrize("words, key", [
    (["doctor"], "ok"), (["ops", "abs"], 0), (["anchors", "-k", "2", "--split", "val"], "anchors"),
    (["bench", "--op", "abs", "--shape", "2,3", "--seconds", "0.001"], "operators")])
def test_json_alone(words, key, capsys):
    assert cli.main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[key]


class TestBench:
    @staticmethod
    def small(name):
        """The typical shape of the operator's data, of two samples, and of 4 x 4 places."""
        first, *_ = cases.typical(name).shapes.values()
        return (2, first[1], *(4 for _ in first[2:]))

    def test_every_operator_has_a_case(self, monkeypatch, capsys):
        """So has a new operator: its sizes follow from its contract."""
        measured = []

        def measure(case, *_):
            measured.append(case)
            return {"op": case.op, "wrong": None}

        monkeypatch.setattr(bench, "measure", measure)
        assert cli.main(["bench", "--json"]) == 0
        assert [case.op for case in measured] == gops.ops.list()
        for case in measured:
            contract = registry.get(case.op).op
            assert list(case.shapes) == [arg.name for arg in contract.inputs]
            assert all(size > 0 for shape in case.shapes.values() for size in shape)

    def test_typical_sizes(self):
        assert cases.typical("abs").shapes == {"data": (16, 256, 26, 26)}
        assert cases.typical("softmax_output").shapes == {"data": (2048, 1000), "label": (2048,)}
        assert cases.typical("center_loss").shapes == {"data": (2048, 256), "label": (2048,), "centers": (1000, 256)}
        assert cases.typical("region_loss").shapes == {
            "data": (16, 125, 26, 26), "truth": (16, 30, 5), "seen": (1,)}
        assert cases.typical("center_loss", (6, 5)).shapes == {"data": (6, 5), "label": (6,), "centers": (1000, 5)}
        with pytest.raises(gops.OpError, match="data has shape"):
            cases.typical("reorg", (2, 3, 4))

    # benchmarks/test_operator_benchmarks.py compares the same peers of every operator each day. The command measures
    # these here: class indices and a hidden output, elements that move, several gradients, an output without a loss.
    @pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in VARIED else pytest.mark.slow)
                                      for name in gops.ops.list()])
    def test_peers_compute_the_same(self, name, capsys, tmp_path):
        """They are timed in both passes, and written."""
        path, shape = tmp_path / "bench.json", self.small(name)
        assert cli.main(["bench", "--op", name, "--shape", ",".join(map(str, shape)), "--seconds", "0.001",
                         "-o", str(path)]) == 0
        found, = json.loads(path.read_text())["operators"]
        assert found["wrong"] is None and not found["differ"]
        rows = {(row["peer"], row["pass"]): row for row in found["times"]}
        assert {peer for peer, _ in rows} >= {"gluonops", "builtin", "identity", "copyto"}
        assert set(rows) >= {(peer, part) for peer, _ in rows if peer != "copyto" for part in ("forward", "both")}
        for (_, part), row in rows.items():
            assert row["ms"] > 0 and row["samples"] >= 5
            assert row["over_ours"] == pytest.approx(row["ms"] / rows["gluonops", part]["ms"])
        printed = capsys.readouterr().out
        assert printed.startswith(f"{name} {shape}, gluonops by its ")
        assert re.search(r"\n  builtin +[\d.]+ ms +[\d.]+ x +[\d.]+ ms +[\d.]+ x\n", printed)

    @pytest.mark.parametrize("dtype", ["float16", "float64"])
    def test_types(self, dtype, capsys):
        """A peer that does not take them is no error."""
        assert cli.main(["bench", "--op", "softmax_output", "--shape", "8,40", "--dtype", dtype,
                         "--seconds", "0.001"]) == 0
        assert "requires uniform type" in capsys.readouterr().out

    def test_a_wrong_result_fails(self, monkeypatch, capsys):
        right = gops.ops.abs
        monkeypatch.setattr(gops.ops, "abs", lambda data: right(data) + (gops.current_backend() != "builtin"))
        assert cli.main(["bench", "--op", "abs", "--shape", "2,3", "--seconds", "0.001", "--json"]) == 1
        printed = capsys.readouterr()
        assert json.loads(printed.out)["operators"][0]["wrong"].startswith("output is ")
        assert printed.err.startswith("gluonops.bench: abs is wrong here: output is ")

    def test_the_folder_is_looked_for_first(self, capsys):
        assert cli.main(["bench", "-o", "nowhere/bench.json"]) == 1
        assert capsys.readouterr().err.startswith("gluonops.bench: the folder nowhere does not exist")
