"""gluonops.loss.CenterLoss: the paper's rule, on one context and several, and what its parameters go through."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from mxnet.gluon import nn
from op_suite import CUSTOM

TWO = [mx.cpu(0), mx.cpu(1)]


def rule(centers, data, label, alpha):
    """Equation 4 of the paper, word for word."""
    moved = centers.copy()
    for j in range(len(centers)):
        mine = label == j
        moved[j] -= alpha * (mine[:, None] * (centers[j] - data)).sum(0) / (1 + mine.sum())
    return moved


def step(loss, data, label, contexts=TWO[:1], scale=1.0):
    """Forward and backward of one batch, divided among the contexts; (losses, gradients of the features)."""
    parts = gluon.utils.split_and_load(mx.nd.array(data), contexts)
    labels = gluon.utils.split_and_load(mx.nd.array(label), contexts)
    for part in parts:
        part.attach_grad()
    with autograd.record():
        losses = [loss(part, one) for part, one in zip(parts, labels)]
        heads = [scale * one for one in losses]
    autograd.backward(heads)
    return (np.concatenate([one.asnumpy() for one in losses]), np.concatenate([p.grad.asnumpy() for p in parts]))


def make(centers, contexts=TWO[:1], **options):
    loss = gops.loss.CenterLoss(*centers.shape, **options)
    loss.initialize(ctx=contexts)
    loss.centers.set_data(mx.nd.array(centers))
    return loss


@pytest.fixture
def batch(rng):
    """Centres, features and labels: class 1 three times, class 2 never."""
    return rng.randn(4, 3), rng.randn(6, 3), np.array([1, 0, 1, 3, 3, 1])


@pytest.mark.parametrize("backend", [CUSTOM, "native", "builtin", "cuda"], indirect=True)
@pytest.mark.parametrize("hybridize", [None, {}, {"static_alloc": True, "static_shape": True}],
                         ids=["imperative", "hybridized", "static"])
@pytest.mark.parametrize("contexts", [TWO[:1], TWO], ids=["one", "two"])
def test_the_papers_rule(batch, contexts, hybridize, backend):
    """Three steps of each: the loss, its gradient, and the centres; one context or two, the same numbers."""
    centers, data, label = batch
    with gops.backend(backend):
        loss = make(centers, contexts, alpha=0.3, weight=0.01)
        if hybridize is not None:
            loss.hybridize(**hybridize)
        for _ in range(3):
            values, gradients = step(loss, data, label, contexts, scale=5)
            distance = data - centers[label]
            np.testing.assert_allclose(values, 0.01 * (distance ** 2).sum(1) / 2, rtol=1e-5)
            np.testing.assert_allclose(gradients, 5 * 0.01 * distance, rtol=1e-5, atol=1e-7)
            loss.update()
            moved = rule(centers, data, label, 0.3)
            np.testing.assert_array_equal(moved[2], centers[2])
            centers = moved
            for context in contexts:
                np.testing.assert_allclose(loss.centers.data(context).asnumpy(), centers, rtol=0, atol=1e-6)
    for context in contexts:
        np.testing.assert_array_equal(loss.counts.data(context).asnumpy(), [3, 9, 0, 6])


def test_a_class_that_the_batch_lacks_keeps_its_bits(batch):
    centers, data, label = batch
    loss = make(centers)
    before = loss.centers.data().asnumpy()
    step(loss, data, label)
    loss.update()
    np.testing.assert_array_equal(loss.centers.data().asnumpy()[2], before[2])
    loss.update()   # nothing new: no centre moves
    once = loss.centers.data().asnumpy()
    loss.update()
    np.testing.assert_array_equal(loss.centers.data().asnumpy(), once)


def test_no_weight_moves_the_centres_otherwise(batch):
    """Neither the loss's weight, nor a sample's, nor a head gradient, nor the loss being averaged."""
    centers, data, label = batch
    for options, weights, scale in (({}, [], 1), ({"weight": 1e-3}, [], 1e4), ({}, [mx.nd.zeros((6, 1))], 0)):
        loss = make(centers, **options)
        with autograd.record():
            (loss(mx.nd.array(data), mx.nd.array(label), *weights).mean() * scale).backward()
        loss.update()
        np.testing.assert_allclose(loss.centers.data().asnumpy(), rule(centers, data, label, 0.5), rtol=0, atol=1e-6)


@pytest.mark.parametrize("shape", [(6,), (6, 1)])
def test_sample_weight(batch, shape):
    centers, data, label = batch
    weights = np.arange(6.0)
    value = make(centers)(mx.nd.array(data), mx.nd.array(label), mx.nd.array(weights.reshape(shape)))
    np.testing.assert_allclose(value.asnumpy(), weights * ((data - centers[label]) ** 2).sum(1) / 2, rtol=1e-5)


def test_batches_add_up_until_the_update(batch):
    """Gradient accumulation: two halves, one after the other, are the whole batch."""
    centers, data, label = batch
    loss = make(centers)
    for half in (slice(0, 3), slice(3, 6)):
        step(loss, data[half], label[half])
    loss.update()
    np.testing.assert_allclose(loss.centers.data().asnumpy(), rule(centers, data, label, 0.5), rtol=0, atol=1e-6)


def test_without_training_nothing_is_counted(batch):
    centers, data, label = batch
    loss = make(centers)
    loss(mx.nd.array(data), mx.nd.array(label))
    loss.update()
    np.testing.assert_array_equal(loss.centers.data().asnumpy(), centers.astype("f"))
    np.testing.assert_array_equal(loss.counts.data().asnumpy(), np.zeros(4))


@pytest.mark.parametrize("backend", [CUSTOM, "native", "builtin", "cuda"], indirect=True)
def test_labels_that_are_no_class_move_nothing(batch, backend, monkeypatch):
    monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "0")
    centers, data, label = batch
    spoilt = label.astype("f8")
    spoilt[[0, 3, 5]] = -1, 4, np.nan
    with gops.backend(backend):
        loss = make(centers)
        values, gradients = step(loss, data, spoilt)
        loss.update()
    assert np.isnan(values).tolist() == [True, False, False, True, False, True]
    assert np.isnan(gradients).all(1).tolist() == np.isnan(values).tolist()
    good = [1, 2, 4]
    np.testing.assert_allclose(loss.centers.data().asnumpy(), rule(centers, data[good], label[good], 0.5), rtol=0,
                               atol=1e-6)
    np.testing.assert_array_equal(loss.counts.data().asnumpy(), [1, 1, 0, 1])


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adadelta", "ftrl"])
@pytest.mark.parametrize("contexts", [TWO[:1], TWO], ids=["one", "two"])
def test_no_trainer_moves_the_centres(batch, contexts, optimizer):
    """Given the loss's parameters among its own, even told that they have a gradient, it leaves them to update()."""
    centers, data, label = batch
    net = nn.Dense(3, in_units=3)
    net.initialize(ctx=contexts)
    loss = make(centers, contexts)
    parameters = {**net.collect_params(), **loss.collect_params()}
    loss.collect_params().setattr("grad_req", "write")
    trainer = gluon.Trainer(parameters, optimizer, {"wd": 0.1})
    for _ in range(2):
        parts = gluon.utils.split_and_load(mx.nd.array(data), contexts)
        labels = gluon.utils.split_and_load(mx.nd.array(label), contexts)
        with autograd.record():
            features = [net(part) for part in parts]
            losses = [loss(*pair) for pair in zip(features, labels)]
        autograd.backward(losses)
        trainer.step(6)
        features = np.concatenate([one.asnumpy() for one in features])
        for context in contexts:
            np.testing.assert_allclose(loss.centers.data(context).asnumpy(), centers, rtol=0, atol=1e-6)
        loss.update(trainer)
        centers = rule(centers, features, label, 0.5)
        for context in contexts:
            np.testing.assert_allclose(loss.centers.data(context).asnumpy(), centers, rtol=0, atol=1e-6)


@pytest.mark.parametrize("contexts", [TWO[:1], TWO], ids=["one", "two"])
def test_saved_and_loaded(batch, contexts, tmp_path):
    """A resumed run goes on with the numbers of one that was not interrupted."""
    centers, data, label = batch
    path = str(tmp_path / "centers.params")
    straight = make(centers, contexts)
    for turn in range(2):
        step(straight, data, label, contexts)
        straight.update()
        if turn == 0:
            straight.save_parameters(path)
    resumed = gops.loss.CenterLoss(4, 3)
    resumed.load_parameters(path, ctx=contexts)
    step(resumed, data, label, contexts)
    resumed.update()
    assert sorted(mx.nd.load(path)) == ["centers", "counts"]
    for context in contexts:
        for name in ("centers", "counts"):
            np.testing.assert_array_equal(getattr(resumed, name).data(context).asnumpy(),
                                          getattr(straight, name).data(context).asnumpy())


def test_in_a_hybridized_block_with_the_net(batch):
    """Net and loss in one graph: the rule still sees every sample."""
    class Both(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.body, self.loss = nn.Dense(3, in_units=3, use_bias=False), gops.loss.CenterLoss(4, 3)

        def hybrid_forward(self, F, data, label):
            return self.loss(self.body(data), label)

    centers, data, label = batch
    both = Both()
    both.initialize()
    both.body.weight.set_data(mx.nd.array(np.eye(3)))
    both.loss.centers.set_data(mx.nd.array(centers))
    both.hybridize(static_alloc=True, static_shape=True)
    for _ in range(2):
        with autograd.record():
            both(mx.nd.array(data), mx.nd.array(label)).backward()
        both.loss.update()
        centers = rule(centers, data, label, 0.5)
        np.testing.assert_allclose(both.loss.centers.data().asnumpy(), centers, rtol=0, atol=1e-6)


def test_the_exported_net_has_no_centres(tmp_path, batch):
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=3), nn.Dense(4))
    net.initialize()
    _, data, label = batch
    loss = gops.loss.CenterLoss(4, 3)
    loss.initialize()
    with autograd.record():
        (loss(net[0](mx.nd.array(data)), mx.nd.array(label)).sum() + net(mx.nd.array(data)).sum()).backward()
    json, params = gops.export.symbol(net, tmp_path / "net", (1, 3))
    assert not any("center" in name for name in mx.sym.load(json).list_inputs() + list(mx.nd.load(params)))


def test_moved_and_cast(batch):
    """reset_ctx and cast keep accumulating gradients; float16 leaves the centres in float32."""
    centers, data, label = batch
    loss = make(centers)
    loss.collect_params().reset_ctx(TWO)
    loss.cast("float16")
    assert loss.centers.data(TWO[1]).dtype == np.float32
    parts = gluon.utils.split_and_load(mx.nd.array(data, dtype="float16"), TWO)
    with autograd.record():
        losses = [loss(part, mx.nd.array(one, ctx=part.context, dtype="int32"))
                  for part, one in zip(parts, (label[:3], label[3:]))]
    autograd.backward(losses)
    loss.update()
    assert losses[0].dtype == np.float32
    expected = rule(centers, data.astype("float16").astype("f8"), label, 0.5)
    np.testing.assert_allclose(loss.centers.data(TWO[0]).asnumpy(), expected, rtol=0, atol=1e-6)
    loss.cast("float64")
    step(loss, data, label, TWO)
    loss.update()
    assert loss.centers.data(TWO[0]).dtype == np.float64
    np.testing.assert_allclose(loss.centers.data(TWO[1]).asnumpy(), rule(expected, data, label, 0.5), rtol=0, atol=1e-6)


def test_features_by_batch_and_shared_parameters(batch):
    centers, data, label = batch
    loss = make(centers)
    across = gops.loss.CenterLoss(4, 3, batch_axis=1, params=loss.collect_params())
    assert across.centers is loss.centers
    np.testing.assert_array_equal(across(mx.nd.array(data.T), mx.nd.array(label)).asnumpy(),
                                  loss(mx.nd.array(data), mx.nd.array(label)).asnumpy())


@pytest.mark.parametrize("options, text", [
    ({"classes": 0, "features": 2}, "gluonops.CenterLoss: classes is 0; expected an integer of at least 1"),
    ({"classes": 3, "features": 2.5}, "features is 2.5; expected an integer"),
    ({"classes": 3, "features": 2, "alpha": -0.1}, "alpha is -0.1; expected a finite number of at least 0"),
])
def test_refused(options, text):
    with pytest.raises(gops.OpError, match=text):
        gops.loss.CenterLoss(**options)


def test_features_that_do_not_fit():
    loss = gops.loss.CenterLoss(3, 2)
    loss.initialize()
    with pytest.raises(gops.OpError, match=r"centers has shape \(3, 2\); expected \(classes, 5\) to match data"):
        loss(mx.nd.zeros((4, 5)), mx.nd.zeros((4,)))


def test_a_trainer_that_has_not_stepped(batch):
    loss = make(batch[0])
    trainer = gluon.Trainer(loss.collect_params(), "sgd")
    with pytest.raises(gops.OpError, match=r"has not made a step yet.*Call trainer.step\(batch_size\) first"):
        loss.update(trainer)
