"""ArcFaceHead against NumPy, and its sampled classes: which are chosen, and what has a gradient."""
import gluonops as gops
import mxnet as mx
import numpy as np
import oracles
import pytest
from gluonops.contract import registry
from mxnet import autograd, gluon

CLASSES, FEATURES = 12, 5
MARGINS = {"scale": 8.0, "m2": 0.3}


def made(**options):
    head = gops.nn.ArcFaceHead(CLASSES, FEATURES, **{**MARGINS, **options})
    head.initialize()
    head.weight.set_data(mx.nd.random.normal(shape=(CLASSES, FEATURES)))
    return head


def inputs(rng, rows=4):
    data = mx.nd.array(rng.randn(rows, FEATURES))
    data.attach_grad()
    return data, mx.nd.array(rng.permutation(CLASSES)[:rows])


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def trained(head, data, label):
    """Return the loss, and the gradient of the weight."""
    with autograd.record():
        loss = head(data, label)
    loss.backward()
    return loss.asnumpy(), head.weight.grad().tostype("default").asnumpy()


def by_hand(head, data, label, chosen=slice(None), **margins):
    """Return the loss, and the gradients of data and weight, by the oracle of cosines and the chain rule."""
    weight, vectors = head.weight.data().copy().asnumpy().astype("float64"), data.asnumpy().astype("float64")
    centres, directions = unit(weight[chosen]), unit(vectors)
    numbers = np.searchsorted(np.arange(CLASSES)[chosen], label.asnumpy())
    attrs = registry.get("margin_softmax_cross_entropy").op.parse({**MARGINS, **margins})
    cosines = directions @ centres.T
    oracle = oracles.get("margin_softmax_cross_entropy")
    by_cosines = oracle.backward(attrs, np.ones(len(numbers)), cosines, numbers)["data"]
    data_grad = through_length(vectors, by_cosines @ centres)
    weight_grad = np.zeros_like(weight)
    weight_grad[chosen] = through_length(weight[chosen], by_cosines.T @ directions)
    return oracle.forward(attrs, cosines, numbers)["output"], data_grad, weight_grad


def through_length(rows, of_unit):
    """Return the gradient of rows from that of the rows divided by their lengths."""
    along = (of_unit * unit(rows)).sum(1, keepdims=True) * unit(rows)
    return (of_unit - along) / np.linalg.norm(rows, axis=1, keepdims=True)


def assert_close(results, expected):
    for ours, theirs in zip(results, expected):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["native", "builtin"], indirect=True)
@pytest.mark.parametrize("hybridized", [False, True])
def test_loss_and_gradients(backend, hybridized, rng):
    with gops.backend(backend):
        head, (data, label) = made(m3=0.1), inputs(rng)
        head.hybridize(hybridized)
        loss, weight_grad = trained(head, data, label)
    assert_close((loss, data.grad.asnumpy(), weight_grad), by_hand(head, data, label, m3=0.1))
    weight = head.weight.data().copy().asnumpy()
    np.testing.assert_allclose(head.cosines(data).asnumpy(), unit(data.asnumpy()) @ unit(weight).T, rtol=1e-5,
                               atol=1e-6)


@pytest.mark.parametrize("sparse_grad", [False, True])
@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("rows, classes", [(4, 4), (4, 1), (1, 1), (6, 6)], ids=["some", "equal", "one", "as many"])
def test_sampled_classes(rows, classes, sparse_grad, hybridized, rng):
    """They are the batch's own and others up to the count; their centres alone have a gradient."""
    head = made(sample_rate=0.5, sparse_grad=sparse_grad)
    head.hybridize(hybridized)
    data, label = inputs(rng, rows)
    label = label[:classes].tile(rows // classes)
    drawn, own = set(), set(label.asnumpy().astype(int))
    for _ in range(8):
        loss, gradient = trained(head, data, label)
        chosen = np.flatnonzero(np.abs(gradient).sum(1))
        assert len(chosen) == 6 and own <= set(chosen)
        assert_close((loss, data.grad.asnumpy(), gradient), by_hand(head, data, label, chosen))
        drawn |= set(chosen)
    assert len(drawn) > 8 or classes == 6, "other classes are drawn from pass to pass"


@pytest.mark.parametrize("sparse_grad", [False, True])
def test_sampled_classes_of_several_devices(sparse_grad, rng):
    """Each device draws its own. The update is by the sum of both gradients."""
    devices = [mx.cpu(0), mx.cpu(1)]
    head = made(sample_rate=0.5, sparse_grad=sparse_grad)
    head.collect_params().reset_ctx(devices)
    trainer = gluon.Trainer(head.collect_params(), "sgd", {"learning_rate": 1})
    batches = [[array.as_in_context(device) for array in inputs(rng)] for device in devices]
    with autograd.record():
        losses = [head(*batch) for batch in batches]
    autograd.backward(losses)
    before, total = head.weight.data(devices[0]).copy().asnumpy(), 0
    for device, batch, loss in zip(devices, batches, losses):
        gradient = head.weight.grad(device).tostype("default").asnumpy()
        expected, _, weight_grad = by_hand(head, *batch, np.flatnonzero(np.abs(gradient).sum(1)))
        assert_close((loss.asnumpy(), gradient), (expected, weight_grad))
        total += weight_grad
    trainer.step(1)
    for device in devices:
        np.testing.assert_allclose(head.weight.data(device).copy().asnumpy(), before - total, rtol=1e-4, atol=1e-5)


def test_the_seed_repeats_the_draws(rng):
    head, (data, label) = made(sample_rate=0.5), inputs(rng)
    results = []
    for seed in (1, 1, 2):
        mx.random.seed(seed)
        results.append(trained(head, data, label)[1])
    np.testing.assert_array_equal(results[0], results[1])
    assert (results[0] != results[2]).any()


def test_sparse_updates_leave_the_other_rows(rng):
    """A dense gradient would apply momentum and weight decay to every row."""
    head, (data, label) = made(sample_rate=0.5, sparse_grad=True), inputs(rng)
    trainer = gluon.Trainer(head.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.1})
    before = head.weight.data().copy().asnumpy()
    _, gradient = trained(head, data, label)
    trainer.step(1)
    moved = np.abs(head.weight.data().copy().asnumpy() - before).sum(1) > 0
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


@pytest.mark.parametrize("backend", ["native", "builtin"], indirect=True)
@pytest.mark.parametrize("options", [{}, {"sample_rate": 0.5}], ids=str)
def test_labels_are_checked_as_they_are_passed(options, backend, rng, monkeypatch):
    """The numbers of the sampled classes are not checked."""
    monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "1")
    with gops.backend(backend):
        head, (data, _) = made(ignore_label=255, **options), inputs(rng)
        head.hybridize()
        head(data, mx.nd.array([3, 255, 3, 11]))
        with pytest.raises(gops.OpError, match=r"label\[2\] is 12; expected a whole number from 0 to 11"):
            head(data, mx.nd.array([3, 255, 12, 7]))


def test_refused():
    with pytest.raises(gops.OpError, match="sample_rate is 2.0; expected a number above 0 and at most 1"):
        made(sample_rate=2)
    with pytest.raises(gops.OpError, match="sparse_grad is True and sample_rate is 1.0; expected a sample_rate below "
                       "1"):
        made(sparse_grad=True)
    with pytest.raises(gops.OpError, match="m2 is 4; expected a finite number of at least 0 and below 3.14"):
        made(m2=4)
    with pytest.raises(gops.OpError, match="sample_rate is 0.15, which samples 1 of 12 classes; expected at least 2"):
        made(sample_rate=0.15)
    head = made(sample_rate=0.5, sparse_grad=True)
    head.weight.grad_req = "add"
    with pytest.raises(gops.OpError, match="sparse_grad is True and the weight's grad_req is 'add'"):
        head(mx.nd.zeros((4, FEATURES)), mx.nd.zeros(4))
    head = made(sample_rate=0.3)
    with pytest.raises(gops.OpError, match="the batch has 4 labels, and sample_rate 0.3 samples 3 of 12 classes"):
        head(mx.nd.zeros((4, FEATURES)), mx.nd.zeros(4))
    with pytest.raises(gops.OpError, match=r"data has shape \(2, 7\) and label \(2,\); expected \(batch, 5\) and"):
        head(mx.nd.zeros((2, 7)), mx.nd.zeros(2))
    assert repr(head) == ("ArcFaceHead(classes=12, features=5, scale=8.0, m1=1.0, m2=0.3, m3=0.0, easy_margin=False, "
                          "ignore_label=None, sample_rate=0.3, sparse_grad=False, weight_initializer=None)")
