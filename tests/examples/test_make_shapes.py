"""make_shapes.py, and what the scripts make of so few pictures."""
import importlib
import resource
import subprocess
import sys

import gluonops as gops
import numpy as np
import pytest
from training_runs import EXAMPLES, results, runner, train_state


def make(tmp_path, monkeypatch, *options):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["make_shapes.py", *options])
    script = importlib.import_module("make_shapes")
    script.main(script.arguments())


def test_both_layouts(tmp_path, monkeypatch, capsys):
    make(tmp_path, monkeypatch, "--count", "9", "4", "--size", "96", "--seed", "2")
    assert "9 pictures to train on and 4 held out are in out/shapes, in both layouts." in capsys.readouterr().out
    for split, count in (("train", 9), ("val", 4)):
        scenes = gops.data.ShapeScenes(split, 96, count, seed=2)
        written = gops.data.detection("yolo", tmp_path / "out/shapes/detection", split)
        assert len(written) == count and written.classes == scenes.classes
        np.testing.assert_array_equal(written[2][0], scenes[2][0])
        np.testing.assert_allclose(written[2][1], scenes[2][1], atol=1e-3)
        folders = gops.data.classification("folder", tmp_path / "out/shapes/classification", split)
        assert len(folders) == count and set(folders.classes) <= set(scenes.classes)


def test_a_full_disk(tmp_path, monkeypatch):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)   # Python ignores the signal: writing fails
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))
    try:
        with pytest.raises(gops.OpError, match="cannot write .*train/0.png: File too large; the previous files"):
            make(tmp_path, monkeypatch, "--count", "1", "1", "--size", "96")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


SMALL = ("--dataset", "yolo", "--root", "out/shapes/detection", "--size", "64", "--head-channels", "8", "8",
         "--threads", "1")


@pytest.mark.slow
def test_few_pictures_get_many_updates(tmp_path, monkeypatch, capsys):
    """They get the backbone in the package, too; a second run is told what it should not do."""
    make(tmp_path, monkeypatch, "--count", "9", "2", "--size", "64")
    monkeypatch.setattr("gluonops.train.recipe.LEAST_UPDATES", 42)
    train = runner(monkeypatch, tmp_path, "finetune_detector")
    folder = train("out", *SMALL)
    args = results(folder)["options"]
    assert (args["epochs"], args["repeat"], args["pretrained"], args["pretrain_epochs"]) == (16, 4, "auto", 0)
    assert args["clip"] == 10
    assert train_state(folder)["seen"] == 16 * 4 * 9 and args["anchor_images"] == 16 * 4 * 9 // 50
    said = capsys.readouterr()
    assert "The net starts from the backbone in the package;" in said.out and "Warning" not in said.err

    folder = train("short", *SMALL, "--epochs", "1", "--pretrained", "none", "--pretrain-epochs", "0")
    args, said = results(folder)["options"], capsys.readouterr()
    assert (args["repeat"], args["pretrained"]) == (1, "none") and results(folder)["mAP"] < 0.05
    assert ("Warning: 1 update is seldom enough to train a detector from random weights. Leave --epochs out, or pass"
            in said.err)
    assert "Hint: an mAP below 0.05 means that the net has not learned." in said.out


@pytest.mark.parametrize("options, text", [
    (("--pretrained", "auto", "--width", "0.25"), "the net has another backbone than that in the package; expected "
     "tiny_yolov2's with width=0.5"),
    (("--pretrained", "auto", "--pretrained-names", "x"), "--pretrained-names is x and --pretrained is auto")])
def test_refused(tmp_path, monkeypatch, options, text):
    make(tmp_path, monkeypatch, "--count", "2", "1", "--size", "64")
    with pytest.raises(gops.OpError) as error:
        runner(monkeypatch, tmp_path, "finetune_detector")("out", *SMALL, *options)
    assert text in str(error.value)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("script, dataset, layout, score, least", [
    ("finetune_detector", "yolo", "detection", "mAP", 0.8),
    ("finetune_classifier", "folder", "classification", "held_out_accuracy", 0.95)])
def test_few_pictures_are_enough(tmp_path, monkeypatch, script, dataset, layout, score, least):
    """There are 60 pictures, the defaults, and what two cores do in ten minutes."""
    make(tmp_path, monkeypatch)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, EXAMPLES / f"{script}.py", "--dataset", dataset, "--root",
                           f"out/shapes/{layout}"], cwd=tmp_path, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert results(tmp_path / "out" / script)[score] >= least and "Hint" not in done.stdout
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime <= 2 * 600
