"""ArcFaceHead against NumPy, and its sampled classes: which are chosen, and what has a gradient."""
import gluonops as gops
import mxnet as mx
import numpy as np
import oracles
import pytest
from gluonops.core import registry
from mxnet import autograd, gluon

CLASSES, FEATURES = 12, 5
MARGINS = {"scale": 8.0, "m2": 0.3}


def made(**options):
    head = gops.nn.ArcFaceHead(CLASSES, FEATURES, **{**MARGINS, **options})
    head.initialize(mx.init.Normal(1))
    return head


def inputs(rng, rows=4):
    data = mx.nd.array(rng.randn(rows, FEATURES))
    data.attach_grad()
    return data, mx.nd.array(rng.permutation(CLASSES)[:rows])


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def trained(head, data, label):
    """The loss, and the gradient of the weight."""
    with autograd.record():
        loss = head(data, label)
    loss.backward()
    return loss.asnumpy(), head.weight.grad().tostype("default").asnumpy()


@pytest.mark.parametrize("backend", ["native", "builtin"], indirect=True)
@pytest.mark.parametrize("hybridized", [False, True])
def test_loss_and_gradients(backend, hybridized, rng):
    """As in NumPy: of cosines the oracle's loss, and by the chain rule through both lengths."""
    with gops.backend(backend):
        head, (data, label) = made(m3=0.1), inputs(rng)
        head.hybridize(hybridized)
        loss, weight_grad = trained(head, data, label)
    weight, vectors = head.weight.data().asnumpy().astype("float64"), data.asnumpy().astype("float64")
    centres, directions = unit(weight), unit(vectors)
    attrs = registry.get("margin_softmax_cross_entropy").op.parse({**MARGINS, "m3": 0.1})
    cosines = directions @ centres.T
    oracle = oracles.get("margin_softmax_cross_entropy")
    np.testing.assert_allclose(loss, oracle.forward(attrs, cosines, label.asnumpy())["output"], rtol=1e-5)
    by_cosines = oracle.backward(attrs, np.ones(4), cosines, label.asnumpy())["data"]
    for got, rows, of_unit in ((data.grad.asnumpy(), vectors, by_cosines @ centres),
                               (weight_grad, weight, by_cosines.T @ directions)):
        along = (of_unit * unit(rows)).sum(1, keepdims=True) * unit(rows)
        expected = (of_unit - along) / np.linalg.norm(rows, axis=1, keepdims=True)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(head.cosines(data).asnumpy(), cosines, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sparse_grad", [False, True])
@pytest.mark.parametrize("hybridized", [False, True])
def test_sampled_classes(sparse_grad, hybridized, rng):
    """The batch's own and others up to the count; their centres alone have a gradient, and the loss is theirs."""
    head = made(sample_rate=0.5, sparse_grad=sparse_grad)
    head.hybridize(hybridized)
    data, label = inputs(rng)
    seen, own = set(), set(label.asnumpy().astype(int))
    for _ in range(8):
        loss, gradient = trained(head, data, label)
        chosen = np.flatnonzero(np.abs(gradient).sum(1))
        assert len(chosen) == 6 and own <= set(chosen)
        cosines = head.cosines(data).asnumpy()[:, chosen]
        numbers = mx.nd.array(np.searchsorted(chosen, label.asnumpy()))
        of_chosen = gops.ops.margin_softmax_cross_entropy(mx.nd.array(cosines), numbers, **MARGINS).asnumpy()
        np.testing.assert_allclose(loss, of_chosen, rtol=1e-4)
        seen |= set(chosen)
    assert len(seen) > 8, "other classes are drawn from pass to pass"


def test_the_seed_repeats_the_draws(rng):
    head, (data, label) = made(sample_rate=0.5), inputs(rng)
    results = []
    for seed in (1, 1, 2):
        mx.random.seed(seed)
        results.append(trained(head, data, label)[1])
    np.testing.assert_array_equal(results[0], results[1])
    assert (results[0] != results[2]).any()


def test_sparse_updates_leave_the_other_rows(rng):
    """With momentum and weight decay, which a dense gradient would apply to every row."""
    head, (data, label) = made(sample_rate=0.5, sparse_grad=True), inputs(rng)
    trainer = gluon.Trainer(head.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.1})
    before = head.weight.data().asnumpy()
    _, gradient = trained(head, data, label)
    trainer.step(1)
    moved = np.abs(head.weight.data().asnumpy() - before).sum(1) > 0
    np.testing.assert_array_equal(moved, np.abs(gradient).sum(1) > 0)


@pytest.mark.parametrize("options", [{}, {"sample_rate": 0.5}], ids=str)
def test_labels_that_do_not_count(options, rng, monkeypatch):
    """An ignored row has loss and gradient 0, though 3 is a class; that of a row without a class is NaN."""
    monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "0")
    head, (data, _) = made(ignore_label=3, **options), inputs(rng)
    loss, _ = trained(head, data, mx.nd.array([3, 0, 12, 7]))
    np.testing.assert_array_equal(np.isnan(loss), [False, False, True, False])
    assert loss[0] == 0 and loss[1] > 0 and loss[3] > 0
    np.testing.assert_array_equal(data.grad.asnumpy()[0], 0)


def test_refused():
    with pytest.raises(gops.OpError, match="sample_rate is 2.0; expected a number above 0 and at most 1"):
        made(sample_rate=2)
    with pytest.raises(gops.OpError, match="sparse_grad is True and sample_rate is 1.0; without sampling"):
        made(sparse_grad=True)
    with pytest.raises(gops.OpError, match="m2 is 4; expected a finite number of at least 0 and below 3.14"):
        made(m2=4)
    head = made(sample_rate=0.3)
    with pytest.raises(gops.OpError, match="4 labels and sample_rate 0.3, which samples 3 of 12 classes"):
        head(mx.nd.zeros((4, FEATURES)), mx.nd.zeros(4))
    with pytest.raises(gops.OpError, match=r"data has shape \(2, 7\) and label \(2,\); expected \(batch, 5\) and"):
        head(mx.nd.zeros((2, 7)), mx.nd.zeros(2))
    assert repr(head) == ("ArcFaceHead(classes=12, features=5, scale=8.0, m1=1.0, m2=0.3, m3=0.0, easy_margin=False, "
                          "ignore_label=None, sample_rate=0.3, sparse_grad=False, weight_initializer=None)")
