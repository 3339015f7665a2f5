"""Runs: stopped and resumed to the same numbers, averages, accumulation, clipping, devices, and what is refused."""
import itertools
import os
import pathlib
import resource
import shutil
import signal
import types

import fresh
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops import train
from mxnet import autograd, gluon
from toy_run import (
    OPTIONS,
    Rows,
    assert_same_run,
    change_checkpoint,
    content,
    dense,
    encoded,
    finish,
    make,
    stack,
    stopped,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run that went to its end, which the tests only read."""
    folder = tmp_path_factory.mktemp("run") / "whole"
    finish(make(folder))
    return folder


@pytest.fixture
def ended(whole, tmp_path):
    """A copy of that folder, in which a test may change the files."""
    return pathlib.Path(shutil.copytree(whole, tmp_path / "run"))


def end(out):
    return content(out / "last.checkpoint")


@pytest.mark.parametrize("stop, options", [
    (5, {"accumulate": 2}), (8, {"optimizer": "adam", "average": 0.9, "clip": 0.5}),
    *(pytest.param(*values, marks=pytest.mark.slow) for values in (
        (2, {}), (5, {}), (8, {}), (2, {"accumulate": 3, "average": 0.5})))], ids=str)
def test_ctrl_c_and_resume_give_the_same_numbers(tmp_path, capfd, stop, options):
    """Ctrl-C comes within the first epoch, at its end, and in the second."""
    finish(make(tmp_path / "whole", **options))
    stopped(make(tmp_path / "stopped", **options), stop)
    said = capfd.readouterr().err
    assert "The run saves after this batch. Another Ctrl-C ends it at once, without saving." in said
    assert f"{tmp_path}/stopped/last.checkpoint is saved. To continue, run: python " in said
    assert "--resume auto" in said
    run = make(tmp_path / "stopped", net=dense(seed=9), **options)
    assert run.resume()
    assert run.seen < 40 and "epochs and" in capfd.readouterr().err
    finish(run)
    assert run.seen == 40
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_the_introduction_ends_with_the_expected_time(tmp_path, capfd, monkeypatch):
    """The batches that are left need it, after some that trace the net; a run of short epochs has rows instead."""
    seconds = itertools.count()
    monkeypatch.setattr("gluonops.train.reports.time", types.SimpleNamespace(monotonic=lambda: next(seconds)))
    for batch_size, lines in ((1, ["    time  about 23 s, and the validations"]), (4, [])):
        run = make(tmp_path / str(batch_size), batch_size=batch_size)
        run.introduce({"pictures": 20})
        finish(run)
        assert [line for line in capfd.readouterr().err.splitlines() if "about" in line] == lines


def test_dropout_draws_the_same_numbers(tmp_path):
    def with_dropout():
        net = gluon.nn.HybridSequential()
        net.add(gluon.nn.Dense(4, in_units=3), gluon.nn.Dropout(0.5), gluon.nn.Dense(2, in_units=4))
        mx.random.seed(1)
        net.initialize(mx.init.Xavier())
        return net

    finish(make(tmp_path / "whole", net=with_dropout()))
    stopped(make(tmp_path / "stopped", net=with_dropout()), 7)
    run = make(tmp_path / "stopped", net=with_dropout())
    run.resume()
    finish(run)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.parametrize("validation, stands", [(1, (1, 0)), pytest.param(2, (2, 0), marks=pytest.mark.slow)])
def test_during_validation(whole, tmp_path, capfd, validation, stands):
    """It ends after that validation; also in the last epoch."""
    calls = []

    def validate():
        calls.append(None)
        if len(calls) == validation:
            os.kill(os.getpid(), signal.SIGINT)

    stopped(make(tmp_path / "stopped"), None, validate=validate)
    assert "The run saves after the validation." in capfd.readouterr().err
    run = make(tmp_path / "stopped")
    run.resume()
    assert (run.epoch, run.batch) == stands
    finish(run)
    assert_same_run(whole, tmp_path / "stopped")


def test_twice_during_validation(whole, tmp_path):
    """The epoch's batches are not lost; what is left of it is the validation."""
    def validate():
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        finish(make(tmp_path / "stopped"), validate=validate)
    run = make(tmp_path / "stopped")
    run.resume()
    assert (run.epoch, run.batch) == (0, 5)
    finish(run)
    assert_same_run(whole, tmp_path / "stopped")


KILLED = """
import os, pathlib, signal, sys
sys.path.insert(0, sys.argv[1])
from toy_run import finish, make
saved, replace = [], os.replace
def replacing(temporary, path):
    if str(path).endswith("last.checkpoint"):
        saved.append(path)
        if len(saved) == 3:
            open(temporary, "rb+").truncate(100)
            os.kill(os.getpid(), signal.SIGKILL)
    replace(temporary, path)
os.replace = replacing
finish(make(pathlib.Path("killed"), save_every=2))
"""


def test_resume_after_a_kill(whole, tmp_path):
    """There are checkpoints within an epoch; the process is killed while it writes one."""
    here = os.path.dirname(__file__)
    done = fresh.python("-c", KILLED, here, cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    run = make(tmp_path / "killed")
    run.resume("auto")
    assert (run.epoch, run.batch) == (0, 4)
    finish(run)
    assert_same_run(whole, tmp_path / "killed")


@pytest.mark.parametrize("change, text", [
    (lambda tensors: tensors.pop("state:net.bias:0"), r"lacks state:net.bias:0, .*; expected the shape \(2,\)"),
    (lambda tensors: tensors.update({"state:net.bias:0": mx.nd.zeros(3)}), r"has the shape \(3,\) for state:net.bias"),
])
def test_the_optimizer_s_states_are_checked(ended, change, text):
    change_checkpoint(ended / "last.checkpoint", change)
    with pytest.raises(gops.OpError, match=rf"last\.checkpoint: the checkpoint {text}"):
        make(ended).resume()


def test_resuming_into_another_folder(whole, tmp_path):
    """A run that is done, and one that is not: both files come along. One without the best epoch's is refused."""
    stopped(make(tmp_path / "stopped"), 7)
    for name, start in (("done", whole), ("moved", tmp_path / "stopped")):
        run = make(tmp_path / name)
        run.resume(start / "last.checkpoint")
        finish(run)
        assert_same_run(whole, tmp_path / name)
    (tmp_path / "gone").mkdir()
    shutil.copy(whole / "last.checkpoint", tmp_path / "gone")
    with pytest.raises(gops.OpError, match="gone/best.params is missing; expected the best epoch's parameters beside"):
        make(tmp_path / "out").resume(tmp_path / "gone" / "last.checkpoint")


def test_there_may_be_nothing_to_resume(tmp_path):
    assert not make(tmp_path).resume() and not make(tmp_path).resume(None)


@pytest.mark.parametrize("change, text", [
    ({"batch_size": 2}, "batch_size is 2; the run in .*last.checkpoint was started with 4"),
    ({"average": 0.9}, "average is 0.9; the run in .* was started with 0"),
    ({"options": {"flip": 0.5}}, "flip is 0.5; the run in .* was started with 0.1")])
def test_other_options_are_refused(tmp_path, change, text):
    stopped(make(tmp_path, options={"flip": 0.1}), 2)
    with pytest.raises(gops.OpError, match=text):
        make(tmp_path, **change).resume()


def test_other_data_and_another_net_are_refused(tmp_path):
    stopped(make(tmp_path), 2)
    run = make(tmp_path)
    run.extra["data"] = "other"
    with pytest.raises(gops.OpError, match=r"labels \(fingerprint other\) differ from those of .* \(0123456789"):
        run.resume()
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(2, in_units=3))
    net.initialize()
    with pytest.raises(gops.OpError, match="the checkpoint and the net differ in 4 parameters"):
        make(tmp_path, net=net).resume()
    with pytest.raises(gops.OpError, match=r"differ in 2 parameters, the first of which is net.bias: its shape is "
                       r"\(2,\) in the checkpoint, and \(3,\)"):
        make(tmp_path, net=dense(units=3)).resume()


def test_another_number_of_images_is_refused(tmp_path):
    """There is no fingerprint of them."""
    stopped(make(tmp_path, data=None), 2)
    with pytest.raises(gops.OpError, match=r"labels \(fingerprint 12 images\) differ from those of .* \(20 images\)"):
        make(tmp_path, images=12, data=None).resume()
    assert make(tmp_path, data=None).resume()


def test_another_optimizer_is_refused(tmp_path):
    """Adam's mean of the gradients would be taken for a momentum."""
    stopped(make(tmp_path / "adam", optimizer="adam"), 2)
    stopped(make(tmp_path / "sgd"), 2)
    with pytest.raises(gops.OpError, match="the checkpoint was written with another optimizer, which has more states "
                       "of net.bias"):
        make(tmp_path / "adam").resume()
    with pytest.raises(gops.OpError, match="the checkpoint lacks state:net.bias:1, a state of the optimizer"):
        make(tmp_path / "sgd", optimizer="adam").resume()


@pytest.mark.parametrize("change, name", [
    (lambda state: state.pop("options"), "options"), (lambda state: state.update(options=[]), "options"),
    (lambda state: state.update(history="none"), "history"), (lambda state: state.update(epoch="1"), "epoch")])
def test_a_train_state_that_lacks_something(ended, change, name):
    """Another program has written the checkpoint."""
    _, state = train.read_checkpoint(ended / "last.checkpoint")
    change(state)
    change_checkpoint(ended / "last.checkpoint", lambda tensors: tensors.update(standing=encoded(state)))
    with pytest.raises(gops.OpError, match=f"last.checkpoint does not say where the run stood: it lacks {name}"):
        make(ended).resume()


def test_of_equal_epochs_the_later_is_kept(tmp_path):
    run = finish(make(tmp_path), score=lambda epoch: 0.5)
    assert run.best == 0.5 and run.best_row["epoch"] == 2
    for name, value in content(tmp_path / "best.params").items():
        np.testing.assert_array_equal(value, end(tmp_path)[f"param:net.{name}"])
    better = finish(make(tmp_path / "first"), score=lambda epoch: -epoch)
    assert better.best_row["epoch"] == 1
    assert (content(tmp_path / "first" / "best.params")["weight"] != end(tmp_path / "first")["param:net.weight"]).any()


def test_accumulated_batches_are_one_batch(tmp_path):
    """Two batches of 4 with accumulate=2 update as one of 8 does, but for rounding; the last batch is half as large."""
    finish(make(tmp_path / "large", batch_size=8))
    finish(make(tmp_path / "small", accumulate=2))
    for name, value in end(tmp_path / "large").items():
        np.testing.assert_allclose(end(tmp_path / "small")[name], value, rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("options", [pytest.param({}, marks=pytest.mark.slow), {"clip": 0.3, "average": 0.9}])
def test_two_devices_are_one(tmp_path, options):
    finish(make(tmp_path / "one", **options))
    for kvstore in ("device", "local"):
        net = dense()
        net.collect_params().reset_ctx([mx.cpu(0), mx.cpu(1)])
        workers = train.Workers(kvstore, devices=2, kind=kvstore)
        finish(make(tmp_path / kvstore, net=net, workers=workers, **options))
        for name, value in end(tmp_path / "one").items():
            np.testing.assert_allclose(end(tmp_path / kvstore)[name], value, rtol=0, atol=1e-6, err_msg=name)


def test_the_average_is_validated_and_kept(tmp_path):
    """It is a NumPy recurrence over the parameters after each update."""
    run = make(tmp_path, average=0.6)
    expected, updates = run.net.weight.data().copy().asnumpy().astype("float64"), 0
    for _ in run.epochs():
        for images in run.batches(Rows(), stack):
            with autograd.record():
                loss = (run.net(images) ** 2).sum()
            run.backward([loss])
            run.step({"loss": loss})
            updates += 1
            decay = min(0.6, (1 + updates) / (10 + updates))
            expected += (1 - decay) * (run.net.weight.data().copy().asnumpy() - expected)
        own = run.net.weight.data().copy().asnumpy()
        with run.averaged():
            np.testing.assert_allclose(run.net.weight.data().copy().asnumpy(), expected, rtol=1e-5)
        np.testing.assert_array_equal(run.net.weight.data().copy().asnumpy(), own)
        run.end_epoch({}, 0)
    np.testing.assert_allclose(content(tmp_path / "best.params")["weight"], expected, rtol=1e-5)
    assert (expected != own).any()


@pytest.mark.parametrize("accumulate", [1, 2])
def test_clipped_gradients(tmp_path, accumulate):
    """The update has the norm of the limit times the learning rate, whatever the batch and its number of images."""
    run = make(tmp_path, clip=0.01, accumulate=accumulate, optimizer="sgd", epochs=1)
    run.trainer.optimizer.momentum = run.trainer.optimizer.wd = 0
    for _ in run.epochs():
        for images in run.batches(Rows(), stack):
            before = [p.data().copy().asnumpy() for p in run.net.collect_params().values()]
            with autograd.record():
                loss = (run.net(images) ** 2).sum()
            run.backward([loss])
            run.step({"loss": loss})
            moved = [p.data().copy().asnumpy() - old for p, old in zip(run.net.collect_params().values(), before)]
            norm = np.sqrt(sum((part ** 2).sum() for part in moved))
            if run.batch % accumulate == 0 or run.batch == 5:
                assert norm == pytest.approx(0.01 * run.trainer.learning_rate, rel=1e-3)
            else:
                assert norm == 0
        run.end_epoch({}, 0)


def test_frozen_parts_keep_their_parameters(tmp_path):
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(4, in_units=3), gluon.nn.BatchNorm(in_channels=4), gluon.nn.Dense(2, in_units=4))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    run = make(tmp_path, net=net, accumulate=2)
    values = []
    for epoch in run.epochs():
        run.freeze(net[:2], epoch == 0)
        values.append({name: p.data().copy().asnumpy() for name, p in net._collect_params_with_prefix().items()})
        for images in run.batches(Rows(), stack):
            with autograd.record():
                loss = (net(images) ** 2).sum()
            run.backward([loss])
            run.step({"loss": loss})
        run.end_epoch({}, 0)
    values.append({name: p.data().copy().asnumpy() for name, p in net._collect_params_with_prefix().items()})
    for name in values[0]:
        is_head = name.startswith("2.")
        assert (values[0][name] != values[1][name]).any() == is_head, name
        assert (values[1][name] != values[2][name]).any(), name


def test_a_loss_that_becomes_infinite(tmp_path):
    """The error names the rate, and one to try."""
    with pytest.raises(gops.OpError, match="the loss became NaN or infinite in epoch 1: .*; the learning rate is "
                       r".*e.30. Lower --lr, for instance to 1e\+29, or raise --warmup\.$"):
        finish(make(tmp_path, lr=1e30))
    assert not (tmp_path / "last.checkpoint").exists()


@pytest.mark.parametrize("spoiled", ["loss", "parameters"])
def test_a_run_that_diverges_keeps_its_checkpoint(tmp_path, spoiled):
    """It does in its second epoch, in the last update of which the loss may still be a number."""
    run = make(tmp_path)
    before = []

    def spoil(epoch, batch):
        if (epoch, batch) == (1, 4):
            before.append((tmp_path / "last.checkpoint").read_bytes())
            run.net.weight.set_data(run.net.weight.data() * np.nan)

    with pytest.raises(gops.OpError, match=f"{spoiled} became NaN or infinite in epoch 2.*last.checkpoint is from "
                       "before"):
        for epoch in run.epochs():
            for images in run.batches(Rows(), stack):
                if spoiled == "loss":
                    spoil(epoch, run.batch)
                with autograd.record():
                    losses = [(run.net(images) ** 2).sum()]
                run.backward(losses)
                run.step({"loss": train.total(losses)},
                         after=None if spoiled == "loss" else lambda: spoil(run.epoch, run.batch - 1))
            run.end_epoch({}, epoch)
    assert before == [(tmp_path / "last.checkpoint").read_bytes()]


def test_dist_async_cannot_clip(tmp_path):
    with pytest.raises(gops.OpError, match="clip needs the sum of all gradients, which dist_async never has"):
        make(tmp_path, clip=1, workers=train.Workers("device", kind="dist_async"))


@pytest.fixture
def full_disk():
    """A function after which files end at so many bytes; MXNet sees a full disk the same way."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)   # Python ignores the signal: writing fails
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("file", ["last.checkpoint", "best.params"])
@pytest.mark.parametrize("lacks", [1, 10_000])
def test_a_full_disk_leaves_the_old_file(monkeypatch, tmp_path, full_disk, file, lacks):
    """Where the last buffer does not fit MXNet says nothing, where more does not it raises."""
    # Files larger than what the bar prints, which pytest keeps in a file as well.
    finish(make(tmp_path / "out", net=dense(units=10_000), epochs=1))
    before, written, save = (tmp_path / "out" / file).read_bytes(), [], train.run_files.save_tensors

    def filling(path, saver, where):
        if path.name == file:
            written.append(path)
            saver(str(tmp_path / "whole"))
            full_disk((tmp_path / "whole").stat().st_size - lacks)
        save(path, saver, where)

    for module in ("run", "checkpoint"):
        monkeypatch.setattr(f"gluonops.train.{module}.save_tensors", filling)
    with pytest.raises(gops.OpError, match=f"cannot write .*out/{file}: .*; the previous files are unchanged. Make"):
        finish(make(tmp_path / "out", net=dense(units=10_000), epochs=1))
    assert len(written) == 1 and (tmp_path / "out" / file).read_bytes() == before
    assert {path.name for path in (tmp_path / "out").glob("[!.]*")} == {"last.checkpoint", "best.params", "history.csv"}


def test_the_files_say_what_was_measured(tmp_path):
    run = finish(make(tmp_path), score=lambda epoch: 0.25)
    lines = (tmp_path / "history.csv").read_text().splitlines()
    assert lines[0] == "epoch,loss,learning_rate,score" and len(lines) == 1 + OPTIONS["epochs"]
    assert float(lines[2].split(",")[1]) == run.history[1]["loss"]


def test_workers_tell_each_other_of_ctrl_c_one_message_at_a_time(tmp_path):
    """MXNet's engine orders messages by the array, and its server cannot tell two of one worker."""
    sent = []

    class Store:
        def init(self, key, value):
            sent.append((key, id(value)))

        def pushpull(self, key, value, out):
            assert value is out
            sent.append((key, id(value)))
            out += 1   # It is another worker's, which was asked to stop.

    run = make(tmp_path)
    workers = train.Workers(Store(), count=2, kind="dist_sync")
    run = train.Run(run.net, run.trainer, 20, workers=workers, out=tmp_path, **OPTIONS)
    for _ in range(3):
        run._stopping.agree(2)
    assert len(set(sent)) == 1 and len(sent) == 4
    assert run._stopping.agreed and len(run._stopping._answers) == 2
