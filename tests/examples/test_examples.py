"""The examples, as a user runs them, with settings small enough for a test; some in a process of their own."""
import ast
import gzip
import importlib
import json
import os
import pathlib
import re
import runpy
import signal
import struct
import sys
import warnings

import fresh
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.data import digits
from matplotlib.image import imread
from training_runs import assert_fits_80_columns, last_words, write_few_digits

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
SCRIPTS = ("train_digits.py", "module_mlp.py", "module_finetune.py", "finetune_digits.py", "drop_in.py")
TESTED_ELSEWHERE = {"finetune_classifier.py": "test_finetune_classifier.py", "launch_local.py": "test_launch_local.py",
                    "finetune_detector.py": "test_finetune_detector.py", "evaluate.py": "test_finetune_detector.py",
                    "detect_folder.py": "test_finetune_detector.py", "make_shapes.py": "test_make_shapes.py",
                    "make_coins.py": "test_make_coins.py", "train_darknet.py": "test_train_darknet.py"}


def run(folder, script, *options, **environment):
    """(stdout, stderr) of an example that runs in ``folder``, in a process of its own."""
    done = fresh.python(EXAMPLES / script, *options, cwd=folder, env={**os.environ, **environment})
    assert done.returncode == 0, f"{script} returned {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout, done.stderr


def results(folder):
    return json.loads((folder / "results.json").read_text())


def operators(path):
    """The operators of a graph; those of gluonops by their own names."""
    return {node.get("attrs", {}).get("op_type", node["op"]) for node in json.loads(path.read_text())["nodes"]}


def same(one, other):
    return one.shape == other.shape and (one.asnumpy() == other.asnumpy()).all()


def test_every_example_is_tested():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"__init__.py", *SCRIPTS, *TESTED_ELSEWHERE}
    for script, test in TESTED_ELSEWHERE.items():
        assert script[:-3] in (pathlib.Path(__file__).parent / test).read_text()


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_a_script_is_one_file_with_public_names(path):
    """A user can copy it: it imports no neighbour, and no name with an underscore."""
    neighbours = {other.stem for other in EXAMPLES.glob("*.py")}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            words = [getattr(node, "module", None) or "", *(name.name for name in node.names)]
            assert not neighbours & set(words)
            assert not any(part.startswith("_") for word in words for part in word.split("."))
        if isinstance(node, ast.Attribute):
            assert not re.match("_(?!_)", node.attr), node.attr


@pytest.fixture
def as_a_script(tmp_path, monkeypatch):
    """A function that runs an example in this process, where it ends at once: its SystemExit."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)   # a script changes these
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    handler = signal.getsignal(signal.SIGTERM)

    def run(script, *options):
        monkeypatch.setattr(sys, "argv", [script, *options])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(EXAMPLES / script), run_name="__main__")
        return end.value

    yield run
    signal.signal(signal.SIGTERM, handler)


@pytest.mark.parametrize("script", [*SCRIPTS, "finetune_classifier.py", "finetune_detector.py", "evaluate.py",
                                    "detect_folder.py"])
def test_help(script, tmp_path, as_a_script, capsys):
    assert as_a_script(script, "--help").code == 0
    out = capsys.readouterr().out
    options = ("--epochs", "--batch-size", "--data-dir") if script in SCRIPTS else ("--data", "--dataset")
    for option in ("--seed", "--out", "--config", *(options if script != "detect_folder.py" else ("--net",))):
        assert re.search(rf"^  {option}\b", out, re.M)
    assert "\nrun:\n" in out and f"(default: out/{script[:-3]})" in " ".join(out.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options, text", [
    (("--epochs", "0"), "argument --epochs: got '0'; expected a whole number from 1"),
    (("--data-dir", "nowhere"), "gluonops.data.digits: the folder nowhere does not exist. Put MNIST's files there")])
def test_bad_options(options, text, as_a_script, capsys):
    code = as_a_script("drop_in.py", *options).code
    assert text in (capsys.readouterr().err if code == 2 else code)


class TestTrainDigits:
    def check(self, out, folder):
        assert sorted(path.name for path in folder.glob("[!.]*")) == [
            "best.params", "curve.png", "digits-0000.params", "digits-custom-0000.params", "digits-custom-symbol.json",
            "digits-symbol.json", "example.png", "predictions.png", "results.json"]
        found = results(folder)
        assert f"The net classifies {found['held_out_accuracy']:.4f} of the held-out digits correctly" in out
        assert found["module_accuracy"] == pytest.approx(dict.fromkeys(("builtin", "custom"),
                                                                       found["held_out_accuracy"]), abs=1e-9)
        assert found["difference_without_gluonops"] <= 1e-5
        assert operators(folder / "digits-custom-symbol.json") >= {"gluonops_reorg", "gluonops_softmax_output"}
        builtin = operators(folder / "digits-symbol.json")
        assert "Convolution" in builtin and not any("gluonops" in name or name == "Custom" for name in builtin)
        for name in ("curve.png", "predictions.png"):
            picture = imread(folder / name)
            assert min(picture.shape[:2]) > 300 and picture.std() > 0.05
        return found

    def test_few_digits(self, tmp_path, monkeypatch, capsys, typed):
        write_few_digits(tmp_path / "few")
        options = ("--data-dir", "few", "--epochs", "4", "--seed", "1", "--mode", "CRD")
        out, err = typed.script(EXAMPLES / "train_digits.py", *options)
        found = self.check(out, tmp_path / "out" / "train_digits")
        assert [row["epoch"] for row in found["epochs"]] == [1, 2, 3, 4]
        assert found["epochs"][3]["loss"] < found["epochs"][0]["loss"] and found["held_out_accuracy"] > 0.5
        assert found["options"]["mode"] == "CRD" and "training: 100%" in err
        assert_fits_80_columns(err)

        net = gops.models.lenet_reorg(mode="CRD")
        net.load_parameters(str(tmp_path / "out" / "train_digits" / "best.params"))
        held_out = digits(tmp_path / "few", seed=1)[1]
        predicted = net(mx.nd.array(held_out.images)).asnumpy().argmax(1)
        assert (predicted == held_out.labels).mean() == pytest.approx(found["held_out_accuracy"], abs=1e-9)
        monkeypatch.chdir(tmp_path)
        exec(last_words(out)[1], {})
        assert capsys.readouterr().out.split()[0] == str(predicted[0])

    @pytest.mark.slow
    def test_mnist(self, tmp_path, rng):
        for name, count in (("train", 40), ("t10k", 10)):
            arrays = {"images-idx3": rng.randint(0, 256, (count, 28, 28)), "labels-idx1": np.arange(count) % 10}
            for kind, array in arrays.items():
                header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
                content = gzip.compress(header + array.astype("uint8").tobytes())
                (tmp_path / f"{name}-{kind}-ubyte.gz").write_bytes(content)
        out, _ = run(tmp_path, "train_digits.py", "--epochs", "1", "--data-dir", ".", "--out", "deep/down")
        assert "There are 40 digits to train on, and 10 are held out." in out
        self.check(out, tmp_path / "deep" / "down")

    @pytest.mark.slow
    def test_default(self, tmp_path):
        out, _ = run(tmp_path, "train_digits.py")
        assert self.check(out, tmp_path / "out" / "train_digits")["held_out_accuracy"] >= 0.97


class TestFinetuneDigits:
    def check(self, folder):
        """Only what was to be trained has changed."""
        stages = [mx.nd.load(str(folder / f"{stage}.params")) for stage in ("pretrained", "frozen", "released")]
        backbone = [name for name in stages[0] if name.startswith("features.")]
        assert len(backbone) == 8 and sorted(stages[0]) == sorted(backbone + ["output.bias", "output.weight"])
        assert all(same(stages[0][name], stages[1][name]) for name in backbone)
        assert not any(same(stages[1][name], stages[2][name]) for name in stages[0])
        assert not same(stages[0]["output.weight"], stages[1]["output.weight"])
        assert "Convolution" in operators(folder / "digits-5-9-symbol.json")
        return results(folder)

    def test_trains_what_it_says(self, tmp_path, typed):
        write_few_digits(tmp_path / "few")
        out, _ = typed.script(EXAMPLES / "finetune_digits.py", "--epochs", "1", "--data-dir", "few")
        found = self.check(tmp_path / "out" / "finetune_digits")
        assert f"digits 5-9, backbone released  {found['released']:.4f}" in out

    @pytest.mark.slow
    def test_default(self, tmp_path):
        run(tmp_path, "finetune_digits.py")
        found = self.check(tmp_path / "out" / "finetune_digits")
        assert found["pretrained"] > 0.97 and found["new_head"] < 0.5
        assert found["new_head"] < found["frozen"] < found["released"] and found["released"] > 0.95


class TestModuleMLP:
    def test_trains_and_scores(self, tmp_path):
        write_few_digits(tmp_path / "few")
        options = ("--data-dir", "few", "--out", "out", "--epochs", "5", "--batch-size", "12")
        out, err = run(tmp_path, "module_mlp.py", *options, PATH=str(tmp_path))
        assert re.search(r"^fc1\(FullyConnected\) +128 +100480 +flatten0", out, re.M)
        assert "Total params: 109386" in out
        assert re.search(r"Epoch\[4\] Batch \[0-20\]\s+Speed: [\d.]+ samples/sec\s+accuracy=", err)
        assert "plot_network was skipped: graphviz's program `dot` is not on the PATH." in out
        accuracy = float(re.search(r"classifies ([\d.]+) of 100 held-out digits", out)[1])
        assert accuracy > 0.65   # with ten seeds it is 0.77 to 0.87
        assert float(re.search(r"module.score\(\) says ([\d.]+):", out)[1]) == pytest.approx(accuracy, abs=0.05)

        folder = tmp_path / "out"
        assert sorted(path.name for path in folder.iterdir()) == ["mlp-0005.params", "mlp-symbol.json"]
        assert "gluonops_softmax_output" in operators(folder / "mlp-symbol.json")
        module = mx.mod.Module.load(str(folder / "mlp"), 5)
        held_out = digits(tmp_path / "few")[1]
        images = mx.io.NDArrayIter(*held_out, batch_size=12)
        module.bind(images.provide_data, images.provide_label, for_training=False)
        predicted = module.predict(images).asnumpy().argmax(1)
        assert (predicted == held_out.labels).mean() == pytest.approx(accuracy, abs=1e-4)

    @pytest.mark.slow
    def test_draws_where_graphviz_is(self, tmp_path):
        dot = tmp_path / "bin" / "dot"   # one that copies what it is given: dot ... -O file
        dot.parent.mkdir()
        dot.write_text('#!/bin/sh\nwhile [ "$1" != -O ]; do shift; done\n'
                       'while read -r line; do echo "$line"; done < "$2" > "$2.png"\n')
        dot.chmod(0o755)
        out, _ = run(tmp_path, "module_mlp.py", "--epochs", "1", PATH=str(dot.parent))
        assert "plot_network has drawn the net into out/module_mlp/mlp.png." in out
        graph = (tmp_path / "out" / "module_mlp" / "mlp.png").read_text()
        assert "softmax" in graph and "fc3 -> relu2" in graph
        assert not (tmp_path / "out" / "module_mlp" / "mlp").exists()


class TestModuleFinetune:
    def check(self, folder):
        """What was frozen is what it was, bit for bit; the shapes agree; the files are there."""
        assert {path.name for path in folder.iterdir()} >= {
            "finetuned-symbol.json", "finetuned-0000.params", "deploy-symbol.json", "deploy-0000.params", "curve.png",
            "predictions.png", "results.json"}
        assert not [path.name for path in folder.iterdir() if path.name.endswith(".tmp")]
        found = results(folder)
        assert not found["moved"] and all(max(row["reshape"], row["buckets"]) <= 1e-5 for row in found["shapes"])
        assert "gluonops_softmax_output" in operators(folder / "finetuned-symbol.json")
        deployed = operators(folder / "deploy-symbol.json")
        assert not any("gluonops" in name or name == "Custom" for name in deployed)
        assert all(min(imread(folder / name).shape[:2]) > 300 for name in ("curve.png", "predictions.png"))
        return found

    @pytest.mark.slow
    def test_end_to_end(self, tmp_path):
        out, _ = run(tmp_path, "module_finetune.py", "--start-epochs", "2", "--epochs", "6")
        folder = tmp_path / "out" / "module_finetune"
        found = self.check(folder)
        assert "start_accuracy" in found and found["held_out_accuracy"] > 0.5   # chance is 0.2
        assert {(row["size"], row["batch"]) for row in found["shapes"]} == {(n, b) for n in (20, 28, 36)
                                                                           for b in (179, 7)}
        before, after = (mx.nd.load(str(folder / f"{name}-0000.params")) for name in ("start", "finetuned"))
        shared = set(before) & set(after)
        assert {name[4:] for name in shared if name.startswith("arg:")} == set(found["frozen"])
        assert sum(name.startswith("aux:") for name in shared) == 6   # batch norms keep their statistics
        assert len(found["frozen"]) == 12 and all(same(before[name], after[name]) for name in shared)
        assert "12 arguments were frozen; 0 of them have moved." in out

    @pytest.mark.slow
    def test_a_net_of_the_users(self, tmp_path, monkeypatch):
        """It takes one size of images only, and is cut where --layer says."""
        net = gops.models.lenet_reorg(prefix="lenet_")
        net.initialize(mx.init.Xavier())
        gops.export.symbol(net, tmp_path / "mine", (1, 1, 28, 28), backend="custom", epoch=3)
        options = ("--prefix", "mine", "--prefix-epoch", "3", "--epochs", "1")
        layer = next(name for name in mx.sym.load(str(tmp_path / "mine-symbol.json")).get_internals().list_outputs()
                     if "conv2" in name and name.endswith("fwd_output"))
        run(tmp_path, "module_finetune.py", *options, "--layer", layer, "--out", "cut")
        found = self.check(tmp_path / "cut")
        assert found["layer"] == layer and len(found["frozen"]) == 6
        assert {row["size"] for row in found["shapes"]} == {28} and "start_accuracy" not in found
        monkeypatch.syspath_prepend(str(EXAMPLES))
        script = importlib.import_module("module_finetune")
        symbol, arguments, states = gops.train.load_module(tmp_path / "mine", 3)
        with pytest.raises(gops.OpError, match="mine has no parameter lenet_.*; expected all of the net's"):
            script.frozen_features(symbol, states, "mine", layer)


def test_drop_in(tmp_path, typed):
    out, _ = typed.script(EXAMPLES / "drop_in.py", "--epochs", "1")
    accuracy, gap = re.search(r"classifies ([\d.]+) .*\n.* differ by ([\d.e+-]+) at most", out).groups()
    assert float(accuracy) > 0.75 and float(gap) <= 1e-5   # with ten seeds it is 0.852 to 0.922
    folder = tmp_path / "out" / "drop_in"
    assert sorted(path.name for path in folder.iterdir()) == ["drop_in-0000.params", "drop_in-symbol.json"]
