"""The optimizer of older scripts, fusedsgd, is MXNet's SGD."""
import pickle

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd

OPTIONS = {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01, "clip_gradient": 3}


def create(name):
    if name == "sgd":
        return mx.optimizer.create(name, **OPTIONS)
    with pytest.warns(DeprecationWarning, match="fusedsgd is now MXNet's sgd"):
        return mx.optimizer.create(name, **OPTIONS)


def test_it_is_pickled_as_mxnets():
    """A server of a kvstore unpickles it, and need not have gluonops."""
    optimizer = create("fusedsgd")
    optimizer._update_count([0, 1])
    text = pickle.dumps(optimizer)
    assert b"gluonops" not in text
    restored = pickle.loads(text)
    assert type(restored) is mx.optimizer.SGD and restored.num_update == 1
    assert vars(restored).keys() == vars(create("sgd")).keys()


def test_states_are_saved_and_loaded(tmp_path):
    """A run that one of them began goes on with the other one, to the same numbers."""
    results = []
    for names in (("sgd", "sgd"), ("fusedsgd", "sgd"), ("sgd", "fusedsgd")):
        net = gluon.nn.Dense(3, in_units=4)
        net.initialize(mx.init.One())
        for part, name in enumerate(names):
            trainer = gluon.Trainer(net.collect_params(), create(name))
            if part:
                trainer.load_states(str(tmp_path / "states"))
            for _ in range(2):
                with autograd.record():
                    loss = net(nd.ones((2, 4)))
                loss.backward()
                trainer.step(2)
            trainer.save_states(str(tmp_path / "states"))
        results.append(net.weight.data().copy().asnumpy())
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
