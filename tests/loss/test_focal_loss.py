"""gluonops.loss.FocalLoss against the paper's formula in float64, and its gradient against central differences."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from in_turn import in_turn
from mxnet import autograd

# options, shape of pred, shape of label
CASES = {
    "plain": ({}, (4, 5), (4,)),
    "kept_axis": ({}, (4, 5), (4, 1)),
    "channels": ({"axis": 1}, (2, 5, 3, 2), (2, 3, 2)),
    "first_axis": ({"axis": 0, "batch_axis": 1}, (5, 4), (4,)),
    "dense": ({"sparse_label": False}, (4, 5), (4, 5)),
    "sum": ({"size_average": False, "weight": 0.5}, (2, 3, 5), (2, 3)),
    "cross_entropy": ({"gamma": 0, "alpha": None}, (4, 5), (4,)),
    "steep": ({"gamma": 5, "alpha": 0.9}, (4, 5), (4,)),
    "flat": ({"gamma": 0.5}, (4, 5), (4,)),
    "probabilities": ({"from_logits": True}, (4, 5), (4,)),
}


def oracle(pred, label, axis=-1, alpha=0.25, gamma=2.0, sparse_label=True, from_logits=False, batch_axis=0, weight=1,
           size_average=True, eps=1e-12):
    """Equations 1 to 5 of the paper, from probabilities."""
    classes = np.moveaxis(pred, axis, -1)
    target = np.moveaxis(label, axis, -1) if not sparse_label else (
        label.reshape(classes.shape[:-1])[..., None] == np.arange(pred.shape[axis]))
    p = classes if from_logits else 1 / (1 + np.exp(-classes))
    p = np.where(target, p, 1 - p)
    balance = 1 if alpha is None else np.where(target, alpha, 1 - alpha)
    terms = -balance * (1 - p) ** gamma * np.log(np.maximum(p, eps))
    terms = np.moveaxis(terms, -1, axis) * weight
    rest = tuple(i for i in range(pred.ndim) if i != batch_axis)
    return (terms.mean if size_average else terms.sum)(rest)


def draw(name, rng):
    options, pred, label = CASES[name]
    classes = pred[options.get("axis", -1)]
    pred = rng.rand(*pred) * 0.9 + 0.05 if options.get("from_logits") else rng.randn(*pred) * 2
    if options.get("sparse_label", True):
        return options, pred, rng.randint(0, classes, label)
    return options, pred, (rng.rand(*label) < 0.3) * 1.0


def run(loss, pred, label, *weights, dtype="float64"):
    pred = mx.nd.array(pred, dtype=dtype)
    pred.attach_grad()
    with autograd.record():
        value = loss(pred, mx.nd.array(label, dtype=dtype), *weights)
    value.backward()
    return value.asnumpy(), pred.grad.asnumpy()


@in_turn("hybridize", [False, True])
@in_turn("name", CASES)
def test_value_and_gradient(name, hybridize, rng):
    options, pred, label = draw(name, rng)
    loss = gops.loss.FocalLoss(**options)
    loss.hybridize(hybridize)
    value, gradient = run(loss, pred, label)
    np.testing.assert_allclose(value, oracle(pred, label, **options), rtol=1e-10)
    for index in np.ndindex(*pred.shape):
        sums = []
        for step in (1e-5, -1e-5):
            moved = pred.copy()
            moved[index] += step
            sums.append(oracle(moved, label, **options).sum())
        np.testing.assert_allclose(gradient[index], (sums[0] - sums[1]) / 2e-5, rtol=1e-6, atol=1e-8)


@in_turn("backend", ["custom", "native", "builtin"])
@in_turn("dtype, tolerance", [("float32", 1e-5), ("float16", 1e-2)])
@in_turn("name", CASES)
def test_types_and_backends(name, dtype, tolerance, backend, rng):
    options, pred, label = draw(name, rng)
    with gops.backend(backend):
        value, gradient = run(gops.loss.FocalLoss(**options), pred, label, dtype=dtype)
    assert value.dtype == gradient.dtype == np.dtype(dtype)
    np.testing.assert_allclose(value, oracle(pred.astype(dtype).astype("f8"), label, **options), rtol=tolerance,
                               atol=tolerance / 10)


@in_turn("gamma", [0, 0.5, 1, 2, 5])
@in_turn("dtype", ["float16", "float32", "float64"])
def test_logits_of_any_size(dtype, gamma):
    """The loss is 0 where right and sure, and the logit where wrong and sure; nothing is NaN or infinite."""
    pred = np.array([[1e4], [-1e4], [1e4], [-1e4], [0], [100], [-100]])
    label = np.array([[1], [1], [0], [0], [1], [1], [0]])
    loss = gops.loss.FocalLoss(gamma=gamma, alpha=None, sparse_label=False)
    value, gradient = run(loss, pred, label, dtype=dtype)
    half = 0.5 ** gamma
    np.testing.assert_allclose(value, [0, 1e4, 1e4, 0, half * np.log(2), 0, 0], rtol=2e-3, atol=1e-30)
    middle = -half * (0.5 + gamma * 0.5 * np.log(2))
    np.testing.assert_allclose(gradient[:, 0], [0, -1, 1, 0, middle, 0, 0], rtol=2e-3, atol=1e-30)


def test_small_losses_keep_their_digits():
    value, gradient = run(gops.loss.FocalLoss(gamma=0, alpha=None), [[20.0]], [0], dtype="float32")
    np.testing.assert_allclose(value, np.log1p(np.exp(-20)), rtol=1e-6)
    np.testing.assert_allclose(gradient, [[-1 / (1 + np.exp(20))]], rtol=1e-6)


def test_background_is_no_class():
    value, _ = run(gops.loss.FocalLoss(gamma=0, alpha=0.25), [[0.0, 0.0]], [-1])
    np.testing.assert_allclose(value, 0.75 * np.log(2))


def test_sample_weight(rng):
    options, pred, label = draw("plain", rng)
    weights = np.arange(4.0)
    value, _ = run(gops.loss.FocalLoss(), pred, label, mx.nd.array(weights[:, None], dtype="float64"))
    np.testing.assert_allclose(value, weights * oracle(pred, label), rtol=1e-10)


@pytest.mark.parametrize("options, text", [
    ({"gamma": -1}, "gluonops.FocalLoss: gamma is -1; expected a finite number of at least 0"),
    ({"alpha": 1.5}, "alpha is above 1; expected at most 1"),
])
def test_refused(options, text):
    with pytest.raises(gops.OpError, match=text):
        gops.loss.FocalLoss(**options)


@pytest.mark.parametrize("options, shape, text", [
    ({}, (5,), r"label has shape \(5,\); expected \(4,\) to match pred of shape \(4, 3\)"),
    ({"sparse_label": False}, (4,), r"label has shape \(4,\); expected \(4, 3\) to match pred"),
    ({"axis": 2}, (4,), "axis 2 is out of range for pred of 2 dimensions"),
])
def test_labels_that_do_not_fit(options, shape, text):
    with pytest.raises(gops.OpError, match=text):
        gops.loss.FocalLoss(**options)(mx.nd.zeros((4, 3)), mx.nd.zeros(shape))
