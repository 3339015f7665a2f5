"""finetune_classifier.py, and what it shares with finetune_yolov2.py: checkpoints, resuming, devices, accumulation."""
import json
import os
import pathlib
import signal
import subprocess
import sys

import mxnet as mx
import numpy as np
import pytest
from matplotlib.image import imread

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
SCRIPT = EXAMPLES / "finetune_classifier.py"
QUICK = ("--model", "mlp", "--batch-size", "128", "--epochs", "2")   # 11 batches an epoch


@pytest.fixture
def train(monkeypatch, tmp_path):
    """Run the script in this process, without pictures and exports, which take longest; test_end_to_end has them.
    ``stop`` presses Ctrl-C during that batch, counted over the whole run."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(tmp_path)
    import _pictures
    import _training
    import finetune_classifier

    def run(out, *options, stop=None):
        monkeypatch.setattr(sys, "argv", ["finetune_classifier.py", "--out", out, *options])
        batches, step = [], _training.Run.step

        def counting(self, parts):
            batches.append(self.batch)
            if len(batches) == stop:
                os.kill(os.getpid(), signal.SIGINT)
            step(self, parts)

        with monkeypatch.context() as patch:
            patch.setattr(_training.Run, "step", counting)
            patch.setattr(_pictures, "save", lambda *_: None)
            patch.setattr(finetune_classifier, "export", lambda *_: {"module": 0})
            if stop is None:
                finetune_classifier.main()
            else:
                with pytest.raises(SystemExit, match="130"):
                    finetune_classifier.main()
        return tmp_path / out

    return run


def content(folder, file="last.checkpoint"):
    return {name: value.asnumpy() for name, value in mx.nd.load(str(folder / file)).items() if name != "standing"}


def standing(folder):
    return json.loads(mx.nd.load(str(folder / "last.checkpoint"))["standing"].asnumpy().tobytes())


def results(folder):
    return json.loads((folder / "results.json").read_text())


def assert_same_run(one, other):
    mine, theirs = content(one), content(other)
    assert set(mine) == set(theirs)
    for name, value in mine.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)
    assert standing(one)["history"] == standing(other)["history"]
    assert results(one)["held_out_accuracy"] == results(other)["held_out_accuracy"]
    for name, value in content(one, "best.params").items():
        np.testing.assert_array_equal(value, content(other, "best.params")[name], err_msg=name)


def test_end_to_end(tmp_path):
    """As a user runs it: train, export, and load what came out."""
    done = subprocess.run([sys.executable, SCRIPT, "--epochs", "2", "--seed", "1"], cwd=tmp_path, timeout=120,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "out" / "finetune_classifier"
    assert sorted(path.name for path in folder.iterdir()) == [
        "best.params", "classifier-0000.params", "classifier-symbol.json", "curves.png", "embedding.png",
        "last.checkpoint", "results.json"]
    found = results(folder)
    assert f"held-out accuracy  {found['held_out_accuracy']:.4f} of 359 images" in done.stdout
    assert found["held_out_accuracy"] > 0.7 and found["classes"] == list("0123456789")
    assert max(found["export_differences"].values()) <= 1e-5
    assert "loss=" in done.stderr and "image/s" in done.stderr and "epoch 2" in done.stderr
    assert [row["epoch"] for row in found["epochs"]] == [1, 2]
    assert found["epochs"][1]["loss"] < found["epochs"][0]["loss"]
    for name in ("curves.png", "embedding.png"):
        assert imread(folder / name).std() > 0.05

    net = mx.gluon.SymbolBlock.imports(str(folder / "classifier-symbol.json"), ["data"],
                                       str(folder / "classifier-0000.params"))
    from gluonops.data import digits
    held_out = digits(seed=1)[1]
    predicted = net(mx.nd.array(held_out.images)).asnumpy().argmax(1)
    assert (predicted == held_out.labels).mean() == pytest.approx(found["held_out_accuracy"], abs=1e-9)


@pytest.mark.parametrize("stop, options", [
    (4, ()), (11, ()), (17, ("--accumulate", "3")), (4, ("--freeze", "1")), (17, ("--freeze", "1")),
    (6, ("--optimizer", "adam", "--lr", "0.001", "--lr-schedule", "steps", "--warmup", "0.5", "--threads", "2"))])
def test_ctrl_c_and_resume_give_the_same_numbers(train, stop, options, capsys):
    """Within the first epoch, at its end, and in the second, when the backbone of --freeze 1 is released."""
    whole = train("whole", *QUICK, *options)
    stopped = train("stopped", *QUICK, *options, stop=stop)
    said = capsys.readouterr().err
    assert "saved stopped/last.checkpoint. To continue: python finetune_classifier.py" in said
    assert "--resume auto" in said and not (stopped / "results.json").exists()
    assert standing(stopped)["seen"] < standing(whole)["seen"] == 2 * 1294
    train("stopped", *QUICK, *options, "--resume", "auto")
    assert_same_run(whole, stopped)


def test_resume_after_a_kill(train, tmp_path):
    """--save-every; the process is killed later, even while it writes: the temporary file is not taken for one."""
    whole = train("whole", *QUICK)
    killed = """
import os, signal, sys
sys.path.insert(0, sys.argv.pop(1))
import _checkpoint, _common, finetune_classifier
saved, replace = [], os.replace
def replacing(temporary, path):
    if path.name == "last.checkpoint":
        saved.append(path)
        if len(saved) == 3:
            open(temporary, "rb+").truncate(1000)
            os.kill(os.getpid(), signal.SIGKILL)
    replace(temporary, path)
os.replace = replacing
finetune_classifier.main()
"""
    done = subprocess.run([sys.executable, "-c", killed, str(EXAMPLES), "--out", "killed", "--save-every", "4", *QUICK],
                          cwd=tmp_path, timeout=120, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert standing(tmp_path / "killed")["batch"] == 8
    assert_same_run(whole, train("killed", *QUICK, "--resume"))


def test_accumulated_batches_are_one_batch(train):
    """Four batches of 32 with --accumulate 4 update as one of 128 does, but for rounding."""
    large = content(train("large", *QUICK))
    small = content(train("small", *QUICK[:2], "--batch-size", "32", "--accumulate", "4", "--epochs", "2"))
    for name, value in large.items():
        np.testing.assert_allclose(small[name], value, rtol=0, atol=1e-5, err_msg=name)


def test_two_devices_are_one(train):
    one = content(train("one", *QUICK))
    for kvstore in ("device", "local"):
        two = content(train(f"two-{kvstore}", *QUICK, "--ctx", "cpu:0,cpu:1", "--kvstore", kvstore))
        for name, value in one.items():
            np.testing.assert_allclose(two[name], value, rtol=0, atol=1e-5, err_msg=name)


def test_frozen(train):
    """With --freeze -1 only the output learns."""
    folder = train("frozen", *QUICK, "--freeze", "-1")
    other = train("one", *QUICK[:4], "--epochs", "1", "--freeze", "-1")
    last, first = content(folder), content(other)
    for name in ("param:net.embed.0.1.weight", "param:net.embed.0.2.bias"):
        np.testing.assert_array_equal(last[name], first[name])
    assert np.abs(last["param:net.output.weight"] - first["param:net.output.weight"]).max() > 1e-3
    assert {name for name in last if name.startswith("state")} == {f"state:net.output.{part}:0"
                                                                   for part in ("weight", "bias")}


def test_classes_keep_their_rows(train, tmp_path):
    """From 0-4 to 3-7, with a learning rate of nothing: features and the rows of 3 and 4 are the old ones."""
    old = content(train("old", *QUICK, "--classes", *"01234"))
    new = content(train("new", *QUICK, "--classes", *"34567", "--lr", "0", "--pretrained", "old/last.checkpoint"))
    for name in (name for name in old if name.startswith("param:net.embed")):
        np.testing.assert_array_equal(new[name], old[name])
    weight = "param:net.output.weight"
    np.testing.assert_array_equal(new[weight][:2], old[weight][3:])
    assert not np.isin(new[weight][2:], old[weight]).any()
    assert standing(tmp_path / "new")["classes"] == list("34567")

    (tmp_path / "names").write_text("".join(f"{digit}\n" for digit in "01234"))
    again = content(train("again", *QUICK, "--classes", *"40", "--lr", "0", "--pretrained", "old/best.params",
                          "--pretrained-names", "names"))
    best = content(tmp_path / "old", "best.params")
    np.testing.assert_array_equal(again[weight], best["output.weight"][[4, 0]])


@pytest.mark.parametrize("options, text", [
    (("--ctx", "tpu"), "the device 'tpu' is unknown"), (("--gpus", "0"), "there is no gpu(0): MXNet sees 0 GPUs"),
    (("--ctx", "cpu:0,cpu:0"), "names a device twice"), (("--dtype", "float16"), "float16 needs GPUs"),
    (("--dtype", "bfloat16"), "bfloat16 is not supported"), (("--model", "lenot"), "there is no classifier 'lenot'"),
    (("--kvstore", "dist_sync"), "without a parameter server"), (("--classes", "12"), "expected digits from 0 to 9"),
    (("--dataset", "folder", "--root", "no"), "no has no training images: no no/train"),
    (("--lr", "1e30", "--warmup", "0"), "the loss is no number any more in epoch 1"),
    (("--pretrained", "no.params"), "no.params cannot be read"), (("--resume", "no.checkpoint"), "is no checkpoint"),
    (("--batch-size", "1", "--ctx", "cpu:0,cpu:1"), "1 images in a batch for 2 devices")])
def test_refused(train, options, text):
    import gluonops as gops
    with pytest.raises(gops.OpError) as error:
        train("out", *QUICK, *options)
    assert text in str(error.value)


def test_resuming_with_other_options_is_refused(train):
    import gluonops as gops
    train("out", *QUICK, stop=3)
    with pytest.raises(gops.OpError, match="batch_size is 64; the run in out/last.checkpoint was started with 128"):
        train("out", "--model", "mlp", "--epochs", "2", "--batch-size", "64", "--resume")
