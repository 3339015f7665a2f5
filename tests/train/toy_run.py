"""A run on a dense layer: the smallest one that has everything, for the tests of gluonops.train."""
import json
import os
import signal

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops import train
from gluonops.train import checkpoint
from mxnet import autograd, gluon

IMAGES = np.random.RandomState(0).standard_normal((20, 3)).astype("float32")
OPTIONS = {"epochs": 2, "batch_size": 4, "seed": 3}   # 5 batches an epoch


class Rows(gluon.data.Dataset):
    """The rows of an array, by an index or a sample key."""

    def __init__(self, rows=IMAGES):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, key):
        return self.rows[key.index if isinstance(key, gops.data.SampleKey) else key]


def stack(rows):
    return mx.nd.array(np.stack(rows))


def dense(seed=0, units=2):
    mx.random.seed(seed)
    np.random.seed(seed)
    net = gluon.nn.Dense(units, in_units=3)
    net.initialize(mx.init.Xavier())
    return net


def make(out, net=None, optimizer="sgd", lr=0.1, images=20, **options):
    """A run of a dense layer, with a cosine and a warm-up of one epoch."""
    net, settings = net or dense(), {**OPTIONS, **options}
    accumulate, workers = settings.get("accumulate", 1), settings.get("workers")
    updates = train.updates_per_epoch(images, settings["batch_size"], workers, accumulate)
    schedule = train.schedule("cosine", lr, settings["epochs"] * updates, warmup=updates)
    trainer = train.make_trainer(net.collect_params(), optimizer, schedule, 5e-4, workers=workers)
    settings.setdefault("data", "0123456789abcdef")
    return train.Run(net, trainer, images, out=out, extra={"classes": ["a", "b"]}, **settings)


def finish(run, stop=None, score=lambda epoch: epoch, validate=lambda: None):
    """Train to the end. ``stop``: press Ctrl-C during that batch, counted over the whole run."""
    batches = 0
    for epoch in run.epochs():
        net = run.mixed(run.net)
        for images in run.batches(Rows(), stack):
            with autograd.record():
                losses = [(net(part) ** 2).sum() for part in run.split(images)]
            run.backward(losses)
            batches += 1
            if batches == stop:
                os.kill(os.getpid(), signal.SIGINT)
            run.step({"loss": train.total(losses)})
        validate()
        run.end_epoch({}, score(epoch))
    return run


def stopped(run, batch, **options):
    with pytest.raises(SystemExit, match="130"):
        finish(run, batch, **options)


def content(path):
    """The tensors of a checkpoint or of parameters, and the state of training."""
    tensors = mx.nd.load(str(path))
    for name in ("standing", "checksum"):   # they differ in paths and times
        tensors.pop(name, None)
    return {name: value.asnumpy() for name, value in tensors.items()}


def change_checkpoint(path, change):
    """Let a function change the tensors of a checkpoint, and the checksum fit them."""
    tensors = mx.nd.load(str(path))
    del tensors["checksum"]
    change(tensors)
    tensors["checksum"] = mx.nd.array([checkpoint._checksum(tensors)], dtype="int64")
    mx.nd.save(str(path), tensors)


def encoded(state):
    """A state of training as it is in a checkpoint."""
    return mx.nd.array(np.frombuffer(json.dumps(state).encode(), "uint8"), dtype="uint8")


def assert_same_run(one, other):
    """Parameters, averages, the optimizer's state, the best parameters, and what was measured agree bit for bit."""
    for file in ("last.checkpoint", "best.params"):
        mine, theirs = content(one / file), content(other / file)
        assert set(mine) == set(theirs)
        for name, value in mine.items():
            np.testing.assert_array_equal(value, theirs[name], err_msg=name)
    states = [train.read_checkpoint(folder / "last.checkpoint")[1] for folder in (one, other)]
    assert states[0] == states[1]
    assert (one / "history.csv").read_text() == (other / "history.csv").read_text()
