"""train_darknet.py: a detector and a classifier of a few layers, as their cfgs say."""
import errno
import subprocess
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from folders import make_yolo, save
from training_runs import EXAMPLES, assert_same_run, content, results, runner, train_state

NET = ("[net]\nwidth={size}\nheight={size}\nchannels=3\nbatch=4\nsubdivisions=2\nlearning_rate=0.01\nburn_in=2\n"
       "policy=steps\nsteps=3\nscales=.1\nmax_batches=4\nmomentum=0.8\ndecay=0.01\nhue=.1\nangle=5\n")
CONV = ("[convolutional]\nbatch_normalize={norm}\nsize=3\nstride=8\npad=1\nfilters={filters}\n"
        "activation=leaky\n")
DETECTOR = (NET.format(size=64) + "mosaic=1\n" + CONV.format(norm=1, filters=8) + CONV.format(norm=0, filters=18)
            + "[yolo]\nmask=0,1\nanchors=20,20, 40,40\nclasses=4\nnum=2\njitter=.2\nrandom=1\n")
CLASSIFIER = (NET.format(size=32) + CONV.format(norm=1, filters=8) + CONV.format(norm=0, filters=9)
              + "[avgpool]\n[softmax]\n")


@pytest.fixture
def train(monkeypatch, tmp_path):
    (tmp_path / "net.cfg").write_text(DETECTOR)
    return runner(monkeypatch, tmp_path, "train_darknet")


QUICK = ("--cfg", "net.cfg", "--size", "64", "--count", "10", "4", "--threads", "1")


def test_a_run_that_was_stopped_goes_on_to_the_same_numbers(train, capsys):
    """It has four updates of two mini-batches, in mosaics; the files are Darknet's."""
    whole = train("whole", *QUICK)
    assert "has an mAP of" in capsys.readouterr().out
    train("stopped", *QUICK, stop=4)
    assert_same_run(whole, train("stopped", *QUICK, "--resume"))

    found = results(whole)
    assert found["epochs"][-1]["learning_rate"] == pytest.approx(0.01 * 0.1)   # Updates have it from the third on.
    net = gops.darknet.load(whole / "net.cfg", whole / "best.weights")
    assert net._detections[0].classes == 10 and net.darknet_header.seen == train_state(whole)["seen"]
    best = content(whole, "best.params")
    for name, parameter in net._collect_params_with_prefix().items():
        np.testing.assert_array_equal(parameter.data().copy().asnumpy(), best[name])


def test_a_second_run_changes_nothing(train, tmp_path, monkeypatch):
    """Another process trains in the folder."""
    out = tmp_path / "taken"
    out.mkdir()
    (out / "net.cfg").write_text("of the first")

    def taken(*_):
        raise BlockingIOError(errno.EAGAIN, "")

    monkeypatch.setattr(gops.train.run_files.fcntl, "lockf", taken)
    with pytest.raises(gops.OpError, match="another process is writing its run to taken"):
        train("taken", *QUICK)
    assert (out / "net.cfg").read_text() == "of the first"


def test_first_layers_of_another_net(train):
    """Its heads have four classes. A learning rate of 0 keeps what is loaded."""
    source = gops.darknet.load("net.cfg")
    source.initialize(mx.init.Normal(0.1))
    gops.darknet.save_weights(source, "old.weights", seen=400)
    out = train("next", *QUICK, "--weights", "old.weights", "--layers", "1", "--lr", "0", "--batches", "1")
    net = gops.darknet.load(out / "net.cfg", out / "last.weights")
    for new, old in zip(net[0].conv.collect_params().values(), source[0].conv.collect_params().values()):
        np.testing.assert_array_equal(new.data().copy().asnumpy(), old.data().copy().asnumpy())
    assert net.darknet_header.seen == train_state(out)["seen"]


def test_weights_that_have_seen_images(train, tmp_path):
    """They go on where they stopped: two of four batches are done, and the rate is that of the third."""
    source = tmp_path / "source.cfg"
    gops.darknet.adapt_cfg("net.cfg", source, classes=10)
    net = gops.darknet.load(source)
    net.initialize()
    gops.darknet.save_weights(net, "old.weights", seen=8)
    options = ("--cfg", "source.cfg", *QUICK[2:], "--weights", "old.weights")
    out = train("goes_on", *options)
    assert gops.darknet.load(source, out / "last.weights").darknet_header.seen == 8 + train_state(out)["seen"]
    assert train_state(out)["seen"] == 10 and results(out)["learning_rate"] == pytest.approx(0.001)
    with pytest.raises(gops.OpError, match="have seen 8 images, 2 batches; expected fewer than max_batches, which is "
                       "1. Pass"):
        train("over", *options, "--batches", "1")
    out = train("anew", *options, "--batches", "1", "--clear")
    assert gops.darknet.load(source, out / "last.weights").darknet_header.seen == train_state(out)["seen"]


def test_a_data_file(train, tmp_path, rng):
    """Images have several sizes, as the cfg says."""
    make_yolo(tmp_path, rng)
    (tmp_path / "obj.data").write_text("train=train.txt\nvalid=val.txt\nnames=my.names\nbackup=kept\n")
    out = train("own", "--cfg", "net.cfg", "--data", "obj.data", "--threads", "1", "--epochs", "1")
    assert results(out)["classes"] == ["cat", "dog"] and (out / "net.names").read_text() == "cat\ndog\n"


def test_the_average_of_the_weights(train, tmp_path):
    """``ema_alpha`` asks for it."""
    (tmp_path / "net.cfg").write_text(DETECTOR.replace("max_batches", "ema_alpha=0.9\nmax_batches"))
    out = train("averaged", *QUICK)
    assert 0 <= results(out)["mAP"] <= 1
    net = gops.darknet.load(out / "net.cfg", out / "best.weights")
    assert net._detections[0].classes == 10


@pytest.mark.parametrize("head, message", [
    ("[detection]\nside=3\n", r"net.cfg, line \d+: \[detection\]: gluonops does not compute the loss of YOLOv1"),
    ("[softmax]\ntree=9k.tree\n",
     "gluonops does not compute the loss of a tree of classes; expected a .* without tree")])
def test_a_net_without_a_loss_is_refused_at_once(head, message, train, tmp_path):
    (tmp_path / "net.cfg").write_text(NET.format(size=32) + CONV.format(norm=1, filters=8) + head)
    with pytest.raises(gops.OpError, match=message):
        train("refused", *QUICK)
    assert not (tmp_path / "refused").exists()


def test_a_classifier(train, tmp_path, capsys):
    (tmp_path / "net.cfg").write_text(CLASSIFIER)
    for split in ("train", "val"):
        for name in ("a", "b"):
            for number in range(4):
                save(tmp_path / split / name / f"{number}.png", np.full((40, 30, 3), 60 * (name == "b"), "uint8"))
    out = train("classes", "--cfg", "net.cfg", "--dataset", "folder", "--root", ".", "--threads", "1")
    assert 0 <= results(out)["accuracy"] <= 1 and "has an accuracy of" in capsys.readouterr().out


PLAIN = DETECTOR.replace("mosaic=1\n", "").replace("batch_normalize=1", "batch_normalize=0")


def job(folder, *options, dies=False):
    """Two workers, each with half of the batch; or one is killed in the second update."""
    script = ("import os, signal, sys; sys.path.insert(0, sys.argv.pop(1)); import train_darknet as script\n"
              "from gluonops.train import Run\n"
              "step, dies = Run.step, sys.argv.pop(1) == 'True'\n"
              "def stepping(self, parts, after=None):\n"
              "    if dies and self.workers.rank == 1 and self.batch == 2: os.kill(os.getpid(), signal.SIGKILL)\n"
              "    step(self, parts, after)\n"
              "Run.step = stepping\n"
              "script.main(script.arguments())")
    command = [sys.executable, str(EXAMPLES / "launch_local.py"), "--timeout", "500", "--", sys.executable, "-c",
               script, str(EXAMPLES), str(dies), *options, "--batch", "2", "--subdivisions", "1",
               "--kvstore", "dist_sync"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
def test_two_workers_are_one_process(train, tmp_path):
    """Updates have four images, and the learning rates, the steps and the end of the run. A killed one ends the job.

    Without batch norm, whose statistics are each worker's own: docs/several_machines.md.
    """
    (tmp_path / "net.cfg").write_text(PLAIN)
    one = train("one", *QUICK, "--subdivisions", "1")
    done = job(tmp_path, *QUICK, "--out", "two")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("has an mAP of") == 1   # the first worker alone writes and reports
    two = tmp_path / "two"
    mine, theirs = content(one), content(two)
    assert set(mine) == set(theirs)
    for name, value in mine.items():
        np.testing.assert_allclose(theirs[name], value, rtol=0, atol=1e-5, err_msg=name)
    assert train_state(one)["seen"] == train_state(two)["seen"]
    assert (two / "net.cfg").read_text() == (one / "net.cfg").read_text().replace("batch=4", "batch=2")

    killed = job(tmp_path, *QUICK, "--out", "killed", dies=True)
    assert killed.returncode == 1 and "was killed by SIGKILL; the job is over" in killed.stderr
    assert not (tmp_path / "killed" / "results.json").exists()
