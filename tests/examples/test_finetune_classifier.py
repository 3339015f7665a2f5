"""finetune_classifier.py: as a user runs it, from other weights, on folders of images, and what it refuses."""
import shutil
import subprocess
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from matplotlib.image import imread
from PIL import Image
from training_runs import (
    EXAMPLES,
    assert_fits_80_columns,
    assert_same_run,
    content,
    last_words,
    results,
    runner,
    train_state,
    write_few_digits,
)

SCRIPT = EXAMPLES / "finetune_classifier.py"
QUICK = ("--model", "mlp", "--batch-size", "128", "--epochs", "2")   # 11 batches an epoch


@pytest.fixture
def train(monkeypatch, tmp_path):
    return runner(monkeypatch, tmp_path, "finetune_classifier")


def test_end_to_end(tmp_path, typed, monkeypatch, capsys):
    """A user trains, exports, and loads what came out."""
    write_few_digits(tmp_path / "few")
    options = ("--data", "few", "--dataset", "mnist", "--model", "mlp", "--epochs", "5", "--batch-size", "16",
               "--seed", "1")
    out, err = typed.script(SCRIPT, *options)
    folder = tmp_path / "out" / "finetune_classifier"
    assert sorted(path.name for path in folder.glob("[!.]*")) == [
        "best.params", "classifier-0000.params", "classifier-symbol.json", "confusion.png", "curves.png",
        "embedding.png", "example.png", "history.csv", "last.checkpoint", "predictions.png", "results.json",
        "roc.png"]
    found = results(folder)
    score = found["held_out_accuracy"]
    assert f"The net classifies {score:.4f} of 100 held-out images correctly." in out
    assert score > 0.7   # with ten seeds it is 0.80 to 0.89
    assert found["classes"] == list("0123456789")
    assert sum(found["confusion"][i][i] for i in range(10)) == round(score * 100)
    assert max(found["export_differences"].values()) <= 1e-5
    assert "training: 100%, epoch=5, loss=" in err and "    5/5     0:" in err
    assert_fits_80_columns(err)
    assert [row["epoch"] for row in found["epochs"]] == [1, 2, 3, 4, 5]
    assert found["epochs"][4]["loss"] < found["epochs"][0]["loss"]
    for path in folder.glob("*.png"):
        assert imread(path).std() > 0.05

    net = mx.gluon.SymbolBlock.imports(str(folder / "classifier-symbol.json"), ["data"],
                                       str(folder / "classifier-0000.params"))
    held_out = gops.data.digits(tmp_path / "few")[1]
    predicted = net(mx.nd.array(held_out.images)).asnumpy().argmax(1)
    assert (predicted == held_out.labels).mean() == pytest.approx(score, abs=1e-9)

    monkeypatch.chdir(tmp_path)
    command, snippet = last_words(out)
    assert " classify out/finetune_classifier/classifier out/finetune_classifier/example.png -o " in command
    exec(snippet, {})
    assert capsys.readouterr().out.split()[0] == str(predicted[0])


@pytest.mark.slow
def test_stopped_resumed_and_from_a_config(train, capsys):
    """A run that was stopped ends like one that was not, and so does one from its results.json."""
    options = ("--accumulate", "3", "--average", "0.9", "--clip", "1", "--freeze", "1", "--warmup", "0.5")
    whole = train("whole", *QUICK, *options)
    stopped = train("stopped", *QUICK, *options, stop=17)
    said = capsys.readouterr().err
    assert "stopped/last.checkpoint is saved. To continue, run: python finetune_classifier.py" in said
    assert "--resume auto" in said and not (stopped / "results.json").exists()
    assert train_state(stopped)["seen"] < train_state(whole)["seen"] == 2 * 1294
    train("stopped", *QUICK, *options, "--resume", "auto")
    assert_same_run(whole, stopped)
    again = train("again", "--config", "whole/results.json")
    assert_same_run(whole, again)
    assert train_state(again)["options"] == train_state(whole)["options"]


@pytest.mark.parametrize("loss", ["arcface", *(pytest.param(name, marks=pytest.mark.slow) for name in (
    "center", "cosface", "focal", "smoothing", "sphereface"))])
def test_other_losses(train, loss, capsys):
    """They train on two digits, and compare eight. A margin's centres are the output's weight, without a bias."""
    folder = train("out", "--model", "mlp", "--epochs", "2", "--classes", "0", "1", "--loss", loss)
    found = results(folder)
    assert found["held_out_accuracy"] > 0.9 and found["verification"]["classes"] == list("23456789")
    assert 0.5 < found["verification"]["area"] < 1
    assert "Of pairs of 2, 3, 4, 5, 6, 7, 8, 9 it compares 0." in capsys.readouterr().out
    has_bias = content(folder)["param:net.output.bias"].any()
    assert has_bias == (loss in ("center", "focal", "smoothing"))


@pytest.mark.slow
def test_frozen(train):
    """With --freeze -1 only the output learns."""
    folder = train("frozen", *QUICK, "--freeze", "-1")
    state = {name for name in content(folder) if name.startswith("state")}
    assert state == {f"state:net.output.{part}:0" for part in ("weight", "bias")}


@pytest.mark.slow
def test_classes_keep_their_rows(train, tmp_path):
    """They go from 0-4 to 3-7, with a learning rate of nothing: features and the rows of 3 and 4 are the old ones."""
    quick = (*QUICK[:4], "--epochs", "1")
    old = content(train("old", *quick, "--classes", *"01234"))
    new = content(train("new", *quick, "--classes", *"34567", "--lr", "0", "--pretrained", "old/last.checkpoint"))
    for name in (name for name in old if name.startswith("param:net.embed")):
        np.testing.assert_array_equal(new[name], old[name])
    weight = "param:net.output.weight"
    np.testing.assert_array_equal(new[weight][:2], old[weight][3:])
    assert not np.isin(new[weight][2:], old[weight]).any()
    assert train_state(tmp_path / "new")["classes"] == list("34567")


@pytest.mark.parametrize("options, text", [
    (("--ctx", "tpu"), "the device 'tpu' is unknown"), (("--gpus", "0"), "there is no gpu(0): MXNet sees 0 GPUs"),
    (("--dtype", "float16"), "float16 needs GPUs"), (("--model", "lenot"), "there is no classifier 'lenot'"),
    (("--kvstore", "dist_sync"), "without a parameter server"), (("--classes", "12"), "there is no class '12'"),
    (("--dataset", "folder", "--root", "no"), "there is no folder no. Pass"),
    (("--pretrained", "no.params"), "no.params cannot be read"),
    (("--resume", "no.checkpoint"), "no.checkpoint cannot be read"),
    (("--batch-size", "1", "--ctx", "cpu:0,cpu:1"), "a batch has 1 image for 2 devices")])
def test_refused(train, options, text):
    with pytest.raises(gops.OpError) as error:
        train("out", *QUICK, *options)
    assert text in str(error.value)


@pytest.fixture
def photographs(tmp_path, rng):
    """A folder of dark and light images, in colour and not square."""
    for part, count in (("train", 24), ("val", 8)):
        for label, name in enumerate(("dark", "light")):
            (tmp_path / "data" / part / name).mkdir(parents=True)
            for i in range(count):
                pixels = rng.randint(0, 120, (20, 30, 3)) + 130 * label
                Image.fromarray(pixels.astype("uint8")).save(tmp_path / "data" / part / name / f"{i}.png")
    return ("--dataset", "folder", "--root", "data", "--model", "lenet_reorg", "--size", "32", "--batch-size", "8",
            "--flip", "0.5")


@pytest.mark.slow
def test_folders_and_center_loss(train, photographs, tmp_path):
    """Files are in folders, mirrored and in other colours; the centres are in the checkpoint and continue, too."""
    options = (*photographs, "--epochs", "3", "--embedding", "2", "--center-loss", "0.01", "--lr", "0.01")
    whole = train("whole", *options)
    assert results(whole)["classes"] == ["dark", "light"] and results(whole)["held_out_accuracy"] > 0.9
    last = content(whole)
    assert last["param:center.centers"].shape == (2, 2) and np.abs(last["param:center.centers"]).max() > 0.01
    assert last["param:center.counts"].sum() == 3 * 43   # A tenth of 48 chooses the epoch.
    train("stopped", *options, stop=8)
    train("stopped", *options, "--resume")
    assert_same_run(whole, tmp_path / "stopped")


@pytest.mark.slow
def test_frozen_batch_norm_keeps_its_statistics(train, photographs):
    options = (*photographs, "--model", "mobilenet0.25", "--epochs", "1")
    frozen, free = (content(train(out, *options, "--freeze", epochs)) for out, epochs in (("a", "-1"), ("b", "0")))
    means = [name for name in frozen if name.endswith("running_mean")]
    assert means and all((frozen[name] == 0).all() for name in means)
    assert any((free[name] != 0).any() for name in means)


@pytest.mark.slow
def test_center_loss_draws_classes_together(train):
    options = (*QUICK[:4], "--epochs", "6", "--embedding", "2", "--lr", "0.05")
    alone, beside = (results(train(out, *options, "--center-loss", weight))
                     for out, weight in (("alone", "0"), ("beside", "1")))
    assert beside["spread"] < 0.7 * alone["spread"]


def test_resuming_with_other_data_is_refused(train, photographs, tmp_path):
    """There is one image more, or one has moved to the other class."""
    train("out", *photographs, "--model", "mlp", "--epochs", "2", stop=7)
    for change in (lambda folder: (folder / "dark" / "0.png").rename(folder / "light" / "new.png"),
                   lambda folder: shutil.copy(folder / "dark" / "1.png", folder / "dark" / "new.png")):
        change(tmp_path / "data" / "train")
        with pytest.raises(gops.OpError, match="the training images or labels .* out/last.checkpoint"):
            train("out", *photographs, "--model", "mlp", "--epochs", "2", "--resume")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_default_run(tmp_path):
    """It trains from nothing, on scikit-learn's digits."""
    done = subprocess.run([sys.executable, SCRIPT], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert results(tmp_path / "out" / "finetune_classifier")["held_out_accuracy"] >= 0.985
