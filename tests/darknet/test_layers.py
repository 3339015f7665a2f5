"""Darknet's layers against loops and formulas in float64."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.darknet import Convolution, MaxPool
from gluonops.darknet.activations import ACTIVATIONS, Softmax
from gluonops.darknet.merging import Route, Shortcut
from gluonops.darknet.resizing import Upsample
from in_turn import in_turn
from mxnet import autograd

HYBRID = pytest.mark.parametrize("hybridize", [False, True])


def run(block, *arrays, hybridize=False):
    block.initialize()
    if hybridize:
        block.hybridize()
    return block(*[mx.nd.array(a) for a in arrays]).asnumpy()


def max_pool(data, size, stride, padding):
    """Darknet's forward_maxpool_layer, and where each maximum is."""
    batch, channels, height, width = data.shape
    rows, columns = ((side + padding - size) // stride + 1 for side in (height, width))
    out, at = np.empty((batch, channels, rows, columns)), {}
    for b, c, i, j in np.ndindex(*out.shape):
        best = None
        for n in range(size):
            for m in range(size):
                y, x = i * stride + n - padding // 2, j * stride + m - padding // 2
                inside = 0 <= y < height and 0 <= x < width
                if inside and (best is None or data[b, c, y, x] > data[b, c, best[0], best[1]]):
                    best = y, x
        out[b, c, i, j], at[b, c, i, j] = data[b, c, best[0], best[1]], best
    return out, at


@HYBRID
@pytest.mark.parametrize("size, stride, padding", [
    (2, 2, None), (2, 1, None), (3, 1, None), (3, 2, None), (4, 1, None), (4, 2, None), (5, 1, None), (2, 3, None),
    (13, 1, None), (3, 1, 0), (3, 3, 1), (4, 2, 5), (2, 2, 0), (1, 1, None)])
def test_max_pool(size, stride, padding, hybridize, rng):
    block = MaxPool(size, stride, padding)
    for height, width in ((13, 13), (14, 15), (26, 7)):
        if height + (padding or 0) < size or width + (size - 1 if padding is None else padding) < size:
            continue
        data = -1 - rng.rand(2, 2, height, width)   # negative: a padding of zeros would win
        expected, at = max_pool(data.astype("float32"), size, stride, size - 1 if padding is None else padding)
        np.testing.assert_array_equal(run(block, data, hybridize=hybridize), expected.astype("float32"))
        head, gradient = rng.rand(*expected.shape).astype("float32"), np.zeros(data.shape)
        for where, (y, x) in at.items():
            gradient[where[0], where[1], y, x] += head[where]
        x = mx.nd.array(data)
        x.attach_grad()
        with autograd.record():
            y = block(x)
        y.backward(mx.nd.array(head))
        np.testing.assert_allclose(x.grad.asnumpy(), gradient, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size, stride", [(2, 2), (2, 1), (2, 3), (4, 2)])
def test_max_pool_of_images_smaller_than_the_window(size, stride, rng):
    block = MaxPool(size, stride, any_size=True)
    for height, width in ((size - 1, size - 1), (size - 1, 5), (6, size - 1), (7, 8)):
        data = -1 - rng.rand(2, 3, height, width)
        expected, _ = max_pool(data.astype("float32"), size, stride, size - 1)
        np.testing.assert_array_equal(run(block, data), expected.astype("float32"))


@pytest.mark.parametrize("padding", [-1, 3])
def test_max_pool_refuses_windows_without_a_pixel(padding):
    with pytest.raises(gops.OpError, match=rf"padding is {padding}; expected 0 to 2 for windows of 2"):
        MaxPool(2, 2, padding)


@HYBRID
@in_turn("name, formula", [
    ("leaky", lambda x: np.where(x > 0, x, 0.1 * x)), ("linear", lambda x: x), ("relu", lambda x: np.maximum(x, 0)),
    ("logistic", lambda x: 1 / (1 + np.exp(-x))), ("mish", lambda x: x * np.tanh(np.logaddexp(0, x))),
    ("swish", lambda x: x / (1 + np.exp(-x))),
    ("relu6", lambda x: np.clip(x, 0, 6)),
    ("hard_mish", lambda x: np.where(x > 0, x, np.where(x > -2, x * x / 2 + x, 0))),
    ("gelu", lambda x: 0.5 * x * (1 + np.tanh(0.797885 * x + 0.035677 * x ** 3))),
    ("elu", lambda x: np.where(x >= 0, x, np.expm1(x))), ("hardtan", lambda x: np.clip(x, -1, 1)),
    ("selu", lambda x: 1.0507 * np.where(x >= 0, x, 1.6732 * np.expm1(x)))])
def test_activations(name, formula, hybridize):
    data = np.array([[-200, -30, -3, -0.5, 0, 0.5, 3, 30, 200.0]])
    with np.errstate(over="ignore"):
        expected = formula(data)
    np.testing.assert_allclose(run(ACTIVATIONS[name](), data, hybridize=hybridize), expected, rtol=1e-5,
                               atol=1e-7)


@HYBRID
@pytest.mark.parametrize("epsilon", [None, 1e-5])
def test_batch_norm_is_darknets(epsilon, hybridize, rng):
    """It divides by sqrt(variance) + 1e-6, down to a variance of 0; with an epsilon by sqrt(variance + epsilon)."""
    variance = np.array([0, 1e-14, 1e-12, 1e-10, 1e-7, 1e-4, 0.01, 1, 50, 1e4], "float32")
    n = len(variance)
    gamma, beta, mean = (rng.randn(n).astype("float32") for _ in range(3))
    spread = np.sqrt(variance.astype("float64"))
    data = (mean + rng.randn(2, 3, 3, n) * (spread + 1e-6)).transpose(0, 3, 1, 2).astype("float32")
    mean[:4], data[:, :4] = 0, rng.randn(2, 4, 3, 3) * 1e-6   # data - mean is exact
    block = Convolution(n, 1, n, activation="linear", epsilon=epsilon)
    block.initialize()
    for parameter, value in ((block.norm.gamma, gamma), (block.norm.beta, beta), (block.norm.running_mean, mean),
                             (block.norm.running_var, variance), (block.conv.weight, np.eye(n)[:, :, None, None])):
        parameter.set_data(mx.nd.array(value))
    if hybridize:
        block.hybridize()
    divisor = spread + 1e-6 if epsilon is None else np.sqrt(spread ** 2 + epsilon)
    column = (slice(None), None, None)
    centred = data.astype("float64") - mean[column]
    expected = centred / divisor[column] * gamma[column] + beta[column]
    np.testing.assert_allclose(block(mx.nd.array(data)).asnumpy(), expected, rtol=2e-5, atol=2e-5)


@HYBRID
def test_batch_norm_trains(hybridize, rng):
    """The running statistics move by a hundredth, and every gradient is MXNet's."""
    blocks = [Convolution(4, 3, 3, epsilon=epsilon) for epsilon in (None, 1e-12)]
    data = mx.nd.array(rng.rand(8, 3, 5, 5))
    gradients = []
    for block in blocks:
        block.initialize()
        block.conv.weight.set_data(mx.nd.array(np.random.RandomState(1).randn(4, 3, 3, 3)))
        if hybridize:
            block.hybridize()
        with autograd.record():
            loss = (block(data) ** 2).sum()
        loss.backward()
        gradients.append({key.split("_", 1)[1]: p.grad().asnumpy() for key, p in block.collect_params().items()
                          if p.grad_req != "null"})
    convolved = blocks[0].conv(data).asnumpy()
    means = blocks[0].norm.running_mean.data().copy().asnumpy()
    np.testing.assert_allclose(means, 0.01 * convolved.mean((0, 2, 3)), rtol=1e-3)
    ours, theirs = (dict(sorted(g.items())) for g in gradients)
    for (key, a), b in zip(ours.items(), theirs.values()):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3, err_msg=key)


@HYBRID
def test_route(hybridize, rng):
    a, b = rng.rand(2, 6, 3, 2), rng.rand(2, 4, 3, 2)
    for groups, group in ((1, 0), (2, 0), (2, 1)):
        expected = np.concatenate([np.split(x, groups, 1)[group] for x in (a, b)], 1).astype("float32")
        np.testing.assert_array_equal(run(Route((6, 4), groups, group), a, b, hybridize=hybridize), expected)
    np.testing.assert_array_equal(run(Route((6,), 3, 1), a, hybridize=hybridize), a[:, 2:4].astype("float32"))


@HYBRID
def test_shortcut_upsample_softmax(hybridize, rng):
    a, b = rng.randn(2, 4, 3, 2), rng.randn(2, 4, 3, 2)
    found = run(Shortcut(ACTIVATIONS["leaky"], 2, 0.5), a, b, hybridize=hybridize)
    total = 2 * a + 0.5 * b
    np.testing.assert_allclose(found, np.where(total > 0, total, 0.1 * total), rtol=1e-5, atol=1e-6)
    found = run(Upsample(3, 0.5), a, hybridize=hybridize)
    np.testing.assert_allclose(found, 0.5 * a.repeat(3, 2).repeat(3, 3), rtol=1e-6)
    powers = np.exp(a.reshape(2, 3, 8) / 0.5)
    found = run(Softmax(3, 0.5), a, hybridize=hybridize)
    np.testing.assert_allclose(found, (powers / powers.sum(-1, keepdims=True)).reshape(2, 24), rtol=1e-5)
