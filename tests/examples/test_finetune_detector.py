"""finetune_detector.py, and evaluate.py and detect_folder.py on what it exports: scenes of digits and real formats."""
import ctypes
import gc
import json
import os
import resource
import shlex
import subprocess
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from folders import make_coco, make_records, make_voc
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
)

SCRIPT = EXAMPLES / "finetune_detector.py"
QUICK = ("--count", "20", "6", "--size", "64", "--head-channels", "8", "8", "--batch-size", "4",
         "--pretrain-epochs", "0", "--epochs", "2", "--threads", "1")   # 5 batches an epoch
CFG = EXAMPLES.parent / "tests" / "golden" / "darknet" / "mini-yolov2.cfg"


@pytest.fixture
def train(monkeypatch, tmp_path):
    return runner(monkeypatch, tmp_path, "finetune_detector")


def test_end_to_end(tmp_path, typed, monkeypatch):
    """The exported net finds the same in Module, without gluonops, and in the other scripts."""
    out, err = typed.script(SCRIPT, *QUICK, "--multi-scale", "64", "96", "--accumulate", "2", "--pretrain-epochs", "1",
                            "--width", "0.25", "--threads", "0", "--count", "12", "3")
    folder = tmp_path / "out" / "finetune_detector"
    assert sorted(path.name for path in folder.glob("[!.]*")) == [
        "best.params", "curves.png", "detections.png", "detector-0000.params", "detector-symbol.json", "example.png",
        "history.csv", "last.checkpoint", "pretraining.checkpoint", "results.json"]
    found = results(folder)
    assert max(found["export_differences"].values()) <= 1e-3   # pixels, and probabilities
    assert found["compared_detections"] > 0 and np.shape(found["anchors"]) == (1, 2)
    assert found["classes"] == list("0123456789") and f"mAP at IoU 0.5 is {found['mAP']:.4f}" in out
    for row in found["epochs"]:
        assert {"coordinates", "objectness", "no_objectness", "classes", "iou", "recall", "mAP", "mAP_voc07", "AP",
                "AP50", "AP75"} < set(row)
        assert 0 <= row["recall"] <= 1
    assert "The pretraining took " in err and "    loss      mAP\n" in err
    for path in folder.glob("*.png"):
        assert imread(path).std() > 0.05
    assert_fits_80_columns(err)

    command, snippet = last_words(out)
    words = shlex.split(command)
    ran = typed(*words[words.index("detect"):])
    assert ran[0].splitlines()[-1] == "drawn into found.png" and ran[1] == ""
    (tmp_path / "found.png").unlink()
    monkeypatch.chdir(tmp_path)
    exec(snippet, {})
    assert (tmp_path / "found.png").exists()

    exported = str(folder / "detector")
    net = mx.gluon.SymbolBlock.imports(f"{exported}-symbol.json", ["data"], f"{exported}-0000.params")
    model = gops.models.tiny_yolov2(classes=found["classes"], anchors=found["anchors"], width=0.25,
                                    head_channels=(8, 8))
    model.load_parameters(str(folder / "best.params"))
    images = mx.nd.random.uniform(shape=(2, 3, 96, 64))   # The net was exported with another size.
    for one, other in zip(net(images), model.detect(images, threshold=0.001)):
        np.testing.assert_allclose(one.asnumpy(), other.asnumpy(), rtol=1e-4, atol=1e-3)

    said, _ = typed.script(EXAMPLES / "evaluate.py", "--net", exported, "--count", "3", "--threads", "0")
    evaluated = results(tmp_path / "out" / "evaluate")
    assert f"the mAP at IoU 0.5 is {evaluated['mAP']:.4f}" in said and len(evaluated["mAP_per_class"]) == 10
    assert np.shape(evaluated["confusion"]) == (11, 11)
    (tmp_path / "photographs" / "deep").mkdir(parents=True)
    for name in ("a.png", "deep/b.jpg"):
        Image.new("RGB", (90, 60), "red").save(tmp_path / "photographs" / name)
    said, _ = typed.script(EXAMPLES / "detect_folder.py", "photographs", "--net", exported, "--threshold", "0.01")
    detected = json.loads((tmp_path / "out" / "detect_folder" / "detections.json").read_text())
    assert set(detected) == {"a.png", "deep/b.jpg"}
    assert all(0 <= row["box"][0] <= row["box"][2] <= 90 for rows in detected.values() for row in rows)
    assert imread(tmp_path / "out" / "detect_folder" / "deep" / "b.jpg.png").shape[:2] == (60, 90)
    assert f"{sum(map(len, detected.values()))} objects in 2 images" in said


@pytest.mark.slow
@pytest.mark.parametrize("name, make", [("voc", make_voc), ("coco", make_coco), ("rec", make_records)])
def test_real_formats(train, tmp_path, rng, name, make):
    """They are read, trained on, stopped and resumed."""
    make(tmp_path, rng)
    if name == "rec":
        make_records(tmp_path, rng, split="val")
    classes = () if name == "coco" else ("--classes", "cat", "dog")
    options = ("--dataset", name, "--root", ".", *classes, *QUICK[3:], "--batch-size", "1", "--anchors", "voc",
               "--flip", "0.5")
    whole, stopped = train("whole", *options), train("stopped", *options, stop=3)
    train("stopped", *options, "--resume")
    assert_same_run(whole, stopped)
    assert results(whole)["classes"] == ["cat", "dog"] and len(results(whole)["epochs"]) == 2


def test_a_cfg(train, tmp_path):
    """The net has its layers, and its way of classes and cells; the first layers are loaded, and frozen."""
    options = ("--cfg", str(CFG), "--backbone-layers", "3", "--freeze", "-1", *QUICK, "--pretrain-epochs", "1")
    folder = train("out", *options)
    assert (folder / "pretraining.checkpoint").exists() and np.shape(results(folder)["anchors"]) == (3, 2)
    tensors = content(folder)
    assert any(name.startswith("param:net.head") for name in tensors)
    assert not [name for name in tensors if name.startswith("state:net.backbone")]
    net = gops.models.region_detector(CFG, list("0123456789"), 3, results(folder)["anchors"])
    net.load_parameters(str(folder / "best.params"))
    assert not net.class_softmax and net.detect(mx.nd.zeros((1, 3, 64, 64)))[0].shape[0] == 1
    with pytest.raises(gops.OpError, match=r"mini-yolov3.cfg has \[yolo\] layers; expected \[region\]\. Name a cfg"):
        train("out", *QUICK, "--cfg", str(CFG.with_name("mini-yolov3.cfg")))


@pytest.mark.slow
@pytest.mark.parametrize("stop", [1, 3])
def test_ctrl_c_in_the_pretraining_loses_nothing(train, tmp_path, capsys, stop):
    """It comes in the first epoch, and in the second."""
    options = (*QUICK[:-4], "--epochs", "1", "--threads", "1", "--pretrain-epochs", "2")
    whole, stopped = train("whole", *options), train("stopped", *options, stop=stop)
    assert "stopped/pretraining.checkpoint is saved. To continue, run: " in capsys.readouterr().err
    assert not (stopped / "last.checkpoint").exists()
    train("stopped", *options, "--resume", "auto")
    assert_same_run(whole, stopped)


@pytest.mark.slow
@pytest.mark.parametrize("stop, options", [
    (2, ("--multi-scale", "64", "96")), (5, ("--optimizer", "adam", "--lr", "0.001", "--average", "0.9")),
    (8, ("--accumulate", "2", "--freeze", "1"))])
def test_ctrl_c_and_resume_give_the_same_numbers(train, stop, options):
    whole, stopped = train("whole", *QUICK, *options), train("stopped", *QUICK, *options, stop=stop)
    assert content(stopped)["param:loss.seen"] == train_state(stopped)["seen"] < 40
    train("stopped", *QUICK, *options, "--resume")
    assert content(stopped)["param:loss.seen"] == train_state(stopped)["seen"] == 40
    assert_same_run(whole, stopped)


def test_an_untrained_net_scores_nothing(train):
    found = results(train("out", *QUICK[:-4], "--threads", "1", "--count", "4", "20", "--lr", "0", "--epochs", "1"))
    assert found["mAP"] < 0.02 and found["AP"] < 0.02


@pytest.fixture
def squares(tmp_path):
    """A data set in Darknet's layout, of three classes."""
    for part in ("train", "val"):
        images, labels = (tmp_path / "data" / kind / part for kind in ("images", "labels"))
        images.mkdir(parents=True)
        labels.mkdir(parents=True)
        for i in range(5):
            Image.fromarray(np.full((40, 60, 3), 40 * i, "uint8")).save(images / f"{i}.png")
            (labels / f"{i}.txt").write_text(f"{i % 3} 0.5 0.5 0.{i + 2} 0.{i + 3}\n")
    return "--dataset", "yolo", "--root", "data"


def test_resuming_with_other_labels_is_refused(train, squares, tmp_path):
    """A single coordinate of one has changed."""
    options = (*squares, "--classes", *"abc", *QUICK[3:], "--anchors", "voc")
    train("out", *options, stop=1)
    (tmp_path / "data" / "labels" / "train" / "3.txt").write_text("0 0.5 0.51 0.5 0.6\n")
    with pytest.raises(gops.OpError, match="the training images or labels"):
        train("out", *options, "--resume")


@pytest.mark.slow
def test_classes_keep_their_rows(train, squares, tmp_path):
    """A checkpoint of digits is followed by a data set in Darknet's layout with the classes 3, seven and 7."""
    anchors = ("--anchors", *(f"1,{i}" for i in range(1, 6)))
    old = content(train("old", *QUICK, *anchors))
    options = (*squares, "--classes", "3", "seven", "7", *QUICK[3:], "--lr", "0",
               "--pretrained", "old/last.checkpoint", *anchors)
    new = content(train("new", *options))
    names = [name for name in old if name.startswith("param:net.") and "output" not in name and "running" not in name]
    for name in names:
        np.testing.assert_array_equal(new[name], old[name], err_msg=name)
    before = old["param:net.output.conv.weight"].reshape(5, 15, -1)
    after = new["param:net.output.conv.weight"].reshape(5, 8, -1)
    np.testing.assert_array_equal(after[:, [0, 1, 2, 3, 4, 5, 7]], before[:, [0, 1, 2, 3, 4, 5 + 3, 5 + 7]])
    assert train_state(tmp_path / "new")["anchors"] == [[1, i] for i in range(1, 6)]


@pytest.mark.parametrize("options, text", [
    (("--dataset", "voc"), "voc got no root"), (("--anchors", "one"), "could not convert string to float"),
    (("--pretrained", "x.weights"), "x.weights does not hold the names of its classes"),
    (("--multi-scale", "64", "96", "--dtype", "float16"), "float16 needs GPUs"),
    (("--classes", "1", "2"), "--classes is 1 2; scenes of digits always have all ten")])
def test_refused(train, options, text):
    with pytest.raises(gops.OpError) as error:
        train("out", *QUICK, *options)
    assert text in str(error.value)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads the memory a process has from /proc")
def test_memory_is_flat(train, monkeypatch):
    """From the second epoch on, training, mAP, checkpoints and best parameters leave nothing behind."""
    end, resident = gops.train.Run.end_epoch, []

    def watching(self, *args):
        end(self, *args)
        gc.collect()
        mx.nd.waitall()
        ctypes.CDLL(None).malloc_trim(0)   # what is free but not given back is no leak, and comes and goes
        with open("/proc/self/statm") as file:
            resident.append(int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20)

    monkeypatch.setattr(gops.train.Run, "end_epoch", watching)
    train("out", *QUICK, "--epochs", "10")
    assert resident[-1] - resident[1] < 16, resident   # MB; the parameters and their gradients alone have 50


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_default_run(tmp_path):
    """It trains from nothing, on scenes of digits, in what two cores do in ten minutes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, SCRIPT], cwd=tmp_path, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert results(tmp_path / "out" / "finetune_detector")["mAP"] >= 0.95
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime <= 2 * 600
