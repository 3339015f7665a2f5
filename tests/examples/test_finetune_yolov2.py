"""finetune_yolov2.py on a few scenes of digits: training, resuming, starting from weights, mAP, the export."""
import ctypes
import gc
import os
import resource
import subprocess
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops import data
from matplotlib.image import imread
from PIL import Image
from training_runs import EXAMPLES, assert_same_run, content, results, runner, train_state

SCRIPT = EXAMPLES / "finetune_yolov2.py"
QUICK = ("--count", "20", "6", "--size", "64", "--head-channels", "8", "--batch-size", "4", "--pretrain-epochs", "0",
         "--epochs", "2", "--threads", "1")   # 5 batches an epoch


@pytest.fixture
def train(monkeypatch, tmp_path):
    return runner(monkeypatch, tmp_path, "finetune_yolov2")


def test_end_to_end(tmp_path):
    """As a user runs it; the exported net finds the same in Module and in a process without gluonops."""
    done = subprocess.run([sys.executable, SCRIPT, *QUICK, "--multi-scale", "64", "96", "--accumulate", "2",
                           "--pretrain-epochs", "1"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "out" / "finetune_yolov2"
    assert sorted(path.name for path in folder.iterdir()) == [
        "best.params", "curves.png", "detections.png", "detector-0000.params", "detector-symbol.json",
        "last.checkpoint", "results.json"]
    found = results(folder)
    assert max(found["export_differences"].values()) <= 1e-3   # pixels, and probabilities
    assert found["compared_detections"] > 0 and np.shape(found["anchors"]) == (5, 2)
    assert found["classes"] == list("0123456789") and f"mAP at IoU 0.5  {found['mAP']:.4f}" in done.stdout
    for row in found["epochs"]:
        assert {"coordinates", "objectness", "no_objectness", "classes", "iou", "recall", "mAP", "mAP_voc07"} < set(row)
        assert 0 <= row["recall"] <= 1
    assert "coordinates=" in done.stderr and "image/s" in done.stderr
    for name in ("curves.png", "detections.png"):
        assert imread(folder / name).std() > 0.05

    net = mx.gluon.SymbolBlock.imports(str(folder / "detector-symbol.json"), ["data"],
                                       str(folder / "detector-0000.params"))
    model = gops.models.tiny_yolov2(classes=found["classes"], anchors=found["anchors"], head_channels=8)
    model.load_parameters(str(folder / "best.params"))
    images = mx.nd.random.uniform(shape=(2, 3, 96, 64))   # of another size than it was exported with
    for one, other in zip(net(images), model.detect(images, threshold=0.001)):
        np.testing.assert_allclose(one.asnumpy(), other.asnumpy(), rtol=1e-4, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("stop, options", [
    (2, ("--multi-scale", "64", "96")), (5, ("--optimizer", "adam", "--lr", "0.001", "--pretrain-epochs", "1")),
    (8, ("--accumulate", "2", "--freeze", "1"))])
def test_ctrl_c_and_resume_give_the_same_numbers(train, stop, options):
    whole, stopped = train("whole", *QUICK, *options), train("stopped", *QUICK, *options, stop=stop)
    assert content(stopped)["param:loss.seen"] == train_state(stopped)["seen"] < 40
    train("stopped", *QUICK, *options, "--resume")
    assert content(stopped)["param:loss.seen"] == train_state(stopped)["seen"] == 40
    assert_same_run(whole, stopped)


class Bars(data.Detection):
    """Bars on black that are high and red, or wide and blue, with the boxes around them."""

    def __init__(self, count):
        rng, self.images, labels = np.random.RandomState(0), [], []
        for i in range(count):
            sides = rng.randint(4, 9), rng.randint(12, 20)
            width, height = sides if i % 2 else sides[::-1]
            left, top = rng.randint(0, 60 - width), rng.randint(0, 40 - height)
            image = np.zeros((40, 60, 3), "uint8")
            image[top:top + height, left:left + width, 0 if i % 2 else 2] = 255
            self.images.append(image)
            labels.append([[left, top, left + width, top + height, i % 2, 0], [0, 0, 9, 9, 0, 1]])
        super().__init__("Bars", ("wide", "high"), (), labels)

    def image(self, index):
        return self.images[index]


def test_pretraining(train):
    """Objects lie whole in their cut-outs, the difficult are left out, and the backbone alone learns from them."""
    import _pretrain
    cutouts = _pretrain.Cutouts(Bars(96), 0)
    assert len(cutouts) == 96
    for i in range(20):
        places = []
        for epoch in range(2):
            image, label = cutouts[data.Pick(i, epoch, None)]
            assert image.shape == (3, 64, 64) and label == i % 2
            rows, columns = (np.flatnonzero((image[0 if i % 2 else 2] > 0.75).any(axis)) for axis in (1, 0))
            longest = max(len(rows), len(columns))
            assert 64 / 1.6 - 4 <= longest <= 64 / 1.1 + 1   # a soft border of up to half a magnified pixel
            assert (len(rows) == longest) == i % 2
            places.append((rows[0], columns[0]))
        assert places[0] != places[1]
    net = gops.models.tiny_yolov2(classes=2, head_channels=8)
    net.initialize(mx.init.Xavier())
    net(mx.nd.zeros((1, 3, 64, 64)))
    before = {name: value.data().asnumpy() for name, value in net._collect_params_with_prefix().items()}
    assert _pretrain.pretrain(net, Bars(96), 4, mx.cpu(), 0, 1) > 0.9
    for name, value in net._collect_params_with_prefix().items():
        same = np.array_equal(value.data().asnumpy(), before[name])
        assert same == (not name.startswith("backbone")), name
    with pytest.raises(gops.OpError, match="no object to pretrain on"):
        _pretrain.pretrain(net, Bars(0), 1, mx.cpu(), 0, 1)


def test_an_untrained_net_scores_nothing(train):
    found = results(train("out", *QUICK[:-2], "--count", "4", "40", "--lr", "0", "--epochs", "1"))
    assert found["mAP"] < 0.02


def test_of_equal_epochs_the_later_is_reported(train, monkeypatch, capsys):
    """As best.params holds it."""
    import _detection
    scores = iter([{"mAP": 0.5, "mAP_voc07": 0.1}, {"mAP": 0.5, "mAP_voc07": 0.2}])
    monkeypatch.setattr(_detection, "mean_average_precision", lambda *_: next(scores))
    folder = train("out", *QUICK)
    assert results(folder)["mAP_voc07"] == 0.2 and "6 images, epoch 2" in capsys.readouterr().out
    best = content(folder, "best.params")
    for name, value in content(folder).items():
        if name.startswith("param:net."):
            np.testing.assert_array_equal(best[name[len("param:net."):]], value, err_msg=name)


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
    """Where a single coordinate of one changed."""
    options = (*squares, "--classes", *"abc", *QUICK[3:], "--anchors", "voc")
    train("out", *options, stop=1)
    (tmp_path / "data" / "labels" / "train" / "3.txt").write_text("0 0.5 0.51 0.5 0.6\n")
    with pytest.raises(gops.OpError, match="the images or labels to train on are others"):
        train("out", *options, "--resume")


@pytest.mark.slow
def test_classes_keep_their_rows(train, squares, tmp_path):
    """A checkpoint of digits, then a data set in Darknet's layout with the classes 3, seven and 7."""
    old = content(train("old", *QUICK))
    options = (*squares, "--classes", "3", "seven", "7", *QUICK[3:], "--lr", "0",
               "--pretrained", "old/last.checkpoint", "--anchors", *(f"1,{i}" for i in range(1, 6)))
    new = content(train("new", *options))
    names = [name for name in old if name.startswith("param:net.") and "output" not in name and "running" not in name]
    for name in names:
        np.testing.assert_array_equal(new[name], old[name], err_msg=name)
    before = old["param:net.output.conv.weight"].reshape(5, 15, -1)
    after = new["param:net.output.conv.weight"].reshape(5, 8, -1)
    np.testing.assert_array_equal(after[:, [0, 1, 2, 3, 4, 5, 7]], before[:, [0, 1, 2, 3, 4, 5 + 3, 5 + 7]])
    assert train_state(tmp_path / "new")["anchors"] == [[1, i] for i in range(1, 6)]


@pytest.mark.slow
def test_darknet_weights(train, tmp_path):
    source = gops.models.tiny_yolov2(classes=list("0123456789"), head_channels=8)
    source.initialize(mx.init.Xavier())
    source(mx.nd.zeros((1, 3, 64, 64)))
    gops.darknet.save_weights(source, str(tmp_path / "digits.weights"))
    (tmp_path / "names").write_text("\n".join("0123456789"))
    folder = train("out", *QUICK, "--lr", "0", "--pretrained", "digits.weights", "--pretrained-names", "names",
                   "--anchors", "voc")
    for name, parameter in source._collect_params_with_prefix().items():
        if "running" not in name:
            np.testing.assert_array_equal(content(folder)[f"param:net.{name}"], parameter.data().asnumpy(),
                                          err_msg=name)


def test_map_is_of_original_pixels(train):
    """A detector that knows the truth scores 1, through letterbox and back."""
    import _detection
    scenes = data.detection("digits", split="val", count=10)
    loader = mx.gluon.data.DataLoader(data.Letterboxed(scenes, 96), 5, batchify_fn=data.validation_batch)
    truths = iter([truth for _, truth, *_ in loader])

    class Oracle:
        def detector(self, **_):
            return self

        def hybridize(self, **_):
            pass

        def __call__(self, images):
            truth = next(truths)
            middle, sides, ids = truth[:, :, :2] * 96, truth[:, :, 2:4] * 96, truth[:, :, 4:]
            there = sides[:, :, :1] > 0
            boxes = mx.nd.concat(middle - sides / 2, middle + sides / 2, dim=2)
            return mx.nd.where(there, ids, -mx.nd.ones_like(ids)), mx.nd.ones_like(ids), boxes

    scores = _detection.mean_average_precision(Oracle(), loader, (96, 96), mx.cpu(), scenes.classes)
    assert scores == pytest.approx({"mAP": 1, "mAP_voc07": 1}, abs=1e-6)


def test_boxes_that_overflow_are_drawn(train, tmp_path):
    """Cut at the image's edge, and those that are no number left out."""
    import _detection
    boxes = np.array([[-np.inf, -np.inf, np.inf, np.inf], [-1e30, 2, 1e30, 9], [np.nan, 0, 9, 9], [4, 4, 30, 20]])

    class Overflowing:
        def detector(self, **_):
            return lambda images: [mx.nd.array(array[None]) for array in (np.zeros((4, 1)), np.ones((4, 1)), boxes)]

    _detection.page(Overflowing(), Bars(1), (64, 64), mx.cpu(), tmp_path / "page.png")
    assert imread(tmp_path / "page.png").std() > 0.05


@pytest.mark.parametrize("options, text", [
    (("--dataset", "voc"), "voc needs a root"), (("--anchors", "one"), "could not convert string to float"),
    (("--pretrained", "x.weights"), "x.weights does not hold the names of its classes"),
    (("--size", "50"), "--size is 50; expected multiples of 32"),
    (("--multi-scale", "64", "96", "--dtype", "float16"), "float16 needs GPUs"),
    (("--optimizer", "sgd", "--lr", "1e30", "--warmup", "0"), "the loss is no number any more")])
def test_refused(train, options, text):
    with pytest.raises(gops.OpError) as error:
        train("out", *QUICK, *options)
    assert text in str(error.value)


def test_checkpoints_of_another_net_are_refused(train):
    train("old", *QUICK)
    with pytest.raises(gops.OpError, match="has the shape .* for head.1.conv.weight"):
        train("new", *QUICK, "--head-channels", "16", "--pretrained", "old/last.checkpoint")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads the memory a process has from /proc")
def test_memory_is_flat(train, monkeypatch):
    """From the second epoch on: training, mAP, checkpoints and best parameters leave nothing behind."""
    import _training
    end, resident = _training.Run.end_epoch, []

    def watching(self, *args):
        end(self, *args)
        gc.collect()
        mx.nd.waitall()
        ctypes.CDLL(None).malloc_trim(0)   # what is free but not given back is no leak, and comes and goes
        with open("/proc/self/statm") as file:
            resident.append(int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20)

    monkeypatch.setattr(_training.Run, "end_epoch", watching)
    train("out", *QUICK, "--epochs", "10")
    assert resident[-1] - resident[1] < 16, resident   # MB; the parameters and their gradients alone have 50


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_default_run(tmp_path):
    """From nothing, on scenes of digits, in what two cores do in ten minutes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, SCRIPT], cwd=tmp_path, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert results(tmp_path / "out" / "finetune_yolov2")["mAP"] >= 0.95
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime <= 2 * 600
