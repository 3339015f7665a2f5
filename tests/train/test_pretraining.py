"""The pretraining of a detector's backbone: what it learns from, that it learns, and that it can be stopped."""
import os
import signal

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from bars import Bars
from gluonops import data, train
from toy_run import make, stopped


def backbone():
    """A small one in the place of Darknet's."""
    net = mx.gluon.nn.HybridSequential(prefix="backbone_")
    with net.name_scope():
        for channels in (8, 16):
            net.add(mx.gluon.nn.Conv2D(channels, 3, 2, 1), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Activation("relu"))
    mx.random.seed(1)
    net.initialize(mx.init.Xavier())
    net(mx.nd.zeros((1, 3, 64, 64)))
    return net


def values(net):
    return {name: parameter.data().copy().asnumpy() for name, parameter in net._collect_params_with_prefix().items()}


def pretrain(net, dataset, epochs, out, **options):
    mx.random.seed(2)   # It draws the dense layer.
    return train.pretrain_backbone(net, dataset.classes, dataset, epochs, out, **options)


def test_cutouts():
    """Objects lie whole in their cut-outs, and the difficult are left out."""
    cutouts = train.Cutouts(Bars(24), 0)
    assert len(cutouts) == 24
    for i in range(20):
        places = []
        for epoch in range(2):
            image, label = cutouts[data.SampleKey(i, epoch, None)]
            assert image.shape == (3, 64, 64) and label == i % 2
            rows, columns = (np.flatnonzero((image[0 if i % 2 else 2] > 0.75).any(axis)) for axis in (1, 0))
            longest = max(len(rows), len(columns))
            assert 64 / 1.6 - 4 <= longest <= 64 / 1.1 + 1   # a soft border of up to half a magnified pixel
            assert (len(rows) == longest) == i % 2
            places.append((rows[0], columns[0]))
        assert places[0] != places[1]


def test_it_learns_and_can_be_stopped(tmp_path, capsys):
    """It is a run: stopped in the second epoch and resumed, it ends with the same numbers."""
    whole, parts = backbone(), backbone()
    before = values(whole)
    assert pretrain(whole, Bars(96), 4, tmp_path / "whole") > 0.9
    assert all((values(whole)[name] != before[name]).any() for name in before)
    # What follows has the momentum that it has in a process that skips the pretraining, as a resumed one does.
    assert [whole[i]._kwargs["momentum"] for i in (1, 4)] == [0.9, 0.9]

    step, batches = train.Run.step, []

    def stopping(run, parts, after=None):
        batches.append(run.batch)
        if len(batches) == 5:
            os.kill(os.getpid(), signal.SIGINT)
        step(run, parts, after)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit, match="130"):
        patch.setattr(train.Run, "step", stopping)
        pretrain(parts, Bars(96), 4, tmp_path / "parts")
    assert "parts/pretraining.checkpoint is saved. To continue, run: " in capsys.readouterr().err
    parts = backbone()
    path = train.find_checkpoint(tmp_path / "parts", "auto", "pretraining")
    share = pretrain(parts, Bars(96), 4, tmp_path / "parts", resume=path)
    assert "The run continues from" in capsys.readouterr().err and share > 0.9
    for name, value in values(whole).items():
        np.testing.assert_array_equal(values(parts)[name], value, err_msg=name)
    assert {path.name for path in (tmp_path / "parts").glob("[!.]*")} == {"pretraining.checkpoint"}


def test_refused(tmp_path):
    with pytest.raises(gops.OpError, match="there is no object to pretrain on"):
        pretrain(backbone(), Bars(0), 1, tmp_path)


def test_which_checkpoint_is_meant(tmp_path):
    for name in ("last", "pretraining"):
        assert train.find_checkpoint(tmp_path, None, name) is train.find_checkpoint(tmp_path, "auto", name) is None
        path = stop(tmp_path, name)
        assert train.find_checkpoint(tmp_path, "auto", name) == train.find_checkpoint("x", path, name) == path
        other = {"last": "pretraining", "pretraining": "last"}[name]
        assert train.find_checkpoint("x", path, other) is None
    assert str(train.find_checkpoint("x", "old.checkpoint")) == "old.checkpoint"


def stop(out, name, resume=None):
    """A run that is stopped in its second batch: of a pretraining, or of what follows it."""
    run = make(out, name=name)
    run.resume(resume)
    stopped(run, 2)
    return out / f"{name}.checkpoint"


def touch(path):
    os.utime(path, (2**32, 2**32))


def test_the_order_of_checkpoints_is_in_the_files(tmp_path):
    """Their times do not tell: a touched file of the pretraining would start a finished run anew, and replace it."""
    pretraining, last = stop(tmp_path, "pretraining"), stop(tmp_path, "last")
    touch(pretraining)
    assert train.find_checkpoint(tmp_path, "auto") == last
    stop(tmp_path, "last", last)
    touch(pretraining)
    assert train.find_checkpoint(tmp_path, "auto") == last


def test_the_last_checkpoint_of_an_earlier_run_is_not_resumed(tmp_path):
    """A new run in the same folder was stopped while it pretrained, and stopped again."""
    last, pretraining = stop(tmp_path, "last"), stop(tmp_path, "pretraining")
    for _ in range(2):
        touch(last)
        assert train.find_checkpoint(tmp_path, "auto") is None
        assert train.find_checkpoint(tmp_path, "auto", "pretraining") == pretraining
        stop(tmp_path, "pretraining", pretraining)
    stop(tmp_path, "last")
    assert train.find_checkpoint(tmp_path, "auto") == last


def test_a_run_of_another_folder_stands_above_what_is_there(tmp_path):
    stop(tmp_path / "here", "last")
    pretraining = stop(tmp_path / "here", "pretraining")
    make(tmp_path / "here").resume(stop(tmp_path / "there", "last"))
    touch(pretraining)
    assert train.find_checkpoint(tmp_path / "here", "auto") == tmp_path / "here" / "last.checkpoint"
