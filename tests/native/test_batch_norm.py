"""MXNet's BatchNorm in training, which the library computes: values, layouts, threads, and what it leaves to MXNet."""
import ctypes
import itertools
import os

import fresh
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.backends import native
from mxnet.gluon import nn
from native_cases import require_library

EPS, MOMENTUM = 1e-5, 0.9
BOTH_PASSES = 2


@pytest.fixture(scope="module", autouse=True)
def _library():
    require_library()


def calls():
    """How many passes of BatchNorm the library has computed."""
    mx.nd.waitall()
    count = ctypes.CDLL(native.library_path()).gluonops_batch_norm_calls
    count.restype = ctypes.c_int64
    return count()


def draw(shape, mean=0.0):
    """Data, head gradient, gamma and beta of a case."""
    rng = np.random.RandomState(0)
    channels = shape[1]
    return {"x": rng.normal(mean, 1, shape).astype("float32"), "head": rng.normal(0, 1, shape).astype("float32"),
            "gamma": rng.uniform(0.5, 1.5, channels).astype("float32"),
            "beta": rng.normal(0, 1, channels).astype("float32")}


def oracle(x, head, gamma, beta, fix_gamma):
    """Batch norm in training, its gradients and the moving statistics, which were 0 and 1, in float64."""
    over = (0, *range(2, x.ndim))
    x, head, gamma, beta = (np.asarray(array, "float64") for array in (x, head, gamma, beta))
    each = (slice(None), *[None] * (x.ndim - 2))
    gamma = np.ones_like(gamma) if fix_gamma else gamma
    mean, variance = x.mean(over), x.var(over)
    scale = 1 / np.sqrt(variance + EPS)
    normal = (x - mean[each]) * scale[each]
    projection = (head * normal).mean(over)
    gradient = head - head.mean(over)[each] - normal * projection[each]
    return {"y": normal * gamma[each] + beta[each], "x_grad": gradient * (gamma * scale)[each],
            "gamma_grad": np.zeros_like(gamma) if fix_gamma else (head * normal).sum(over),
            "beta_grad": head.sum(over), "mean": (1 - MOMENTUM) * mean,
            "variance": MOMENTUM + (1 - MOMENTUM) * variance}


class Around(nn.HybridBlock):
    """A BatchNorm between two convolutions that change no value, but whose layouts are oneDNN's."""

    def __init__(self, channels, axis=1, blocked=(True, True), **options):
        super().__init__()
        self.blocked, self.channels = blocked, channels
        with self.name_scope():
            self.norm = nn.BatchNorm(axis=axis, momentum=MOMENTUM, epsilon=EPS, in_channels=channels, **options)
            self.identity = self.params.get_constant("identity", np.eye(channels, dtype="float32")[:, :, None, None])

    def hybrid_forward(self, F, x, identity):
        before, behind = self.blocked
        y = self.norm(self.convolve(F, x, identity) if before else x)
        return self.convolve(F, y, identity) if behind else F.identity(y)

    def convolve(self, F, x, identity):
        return F.Convolution(x, identity, kernel=(1, 1), num_filter=self.channels, no_bias=True)


def step(net, x, head, gamma, beta):
    """One step of an :class:`Around`, by name."""
    net.initialize()
    parameters = {"gamma": net.norm.gamma, "beta": net.norm.beta}
    for name, values in (("gamma", gamma), ("beta", beta)):
        parameters[name].set_data(mx.nd.array(values))
    x = mx.nd.array(x)
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
    y.backward(mx.nd.array(head))
    found = {"y": y, "x_grad": x.grad, "beta_grad": parameters["beta"].grad(), "mean": net.norm.running_mean.data(),
             "variance": net.norm.running_var.data()}
    if parameters["gamma"].grad_req != "null":
        found["gamma_grad"] = parameters["gamma"].grad()
    return {name: array.asnumpy() for name, array in found.items()}


def assert_right(found, arrays, fix_gamma=False, tolerance=2e-6):
    expected = oracle(**arrays, fix_gamma=fix_gamma)
    for name, values in found.items():
        np.testing.assert_allclose(values, expected[name], rtol=tolerance, err_msg=name,
                                   atol=tolerance * max(1, np.abs(expected[name]).max()))


LAYOUTS = list(itertools.product((False, True), repeat=2))
# Channels in blocks of 16, of 8 and in none; pieces of several images and of a part of one; one position.
SHAPES = [(3, 32, 9, 11), (2, 16, 37, 41), (2, 8, 30, 31), (3, 20, 5, 7), (1, 3, 70, 70), (40, 16, 1, 1)]


@pytest.mark.parametrize("blocked", LAYOUTS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients(shape, blocked):
    arrays = draw(shape)
    before = calls()
    found = step(Around(shape[1], blocked=blocked), **arrays)
    assert calls() - before == BOTH_PASSES
    assert_right(found, arrays)


@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("static", [False, True])
def test_in_a_graph(static, blocked):
    arrays = draw((4, 32, 10, 10))
    net = Around(32, blocked=(blocked, blocked))
    net.hybridize(static_alloc=static, static_shape=static)
    before = calls()
    first = step(net, **arrays)
    assert_right(first, arrays)
    again = step(net, **arrays)
    assert calls() - before == 2 * BOTH_PASSES
    for name in ("y", "x_grad", "gamma_grad", "beta_grad"):
        np.testing.assert_array_equal(again[name], first[name])


@pytest.mark.parametrize("blocked", [False, True])
def test_fix_gamma(blocked):
    arrays = draw((2, 16, 8, 8))
    net = Around(16, blocked=(blocked, blocked), scale=False)
    before = calls()
    found = step(net, **arrays)
    assert calls() - before == BOTH_PASSES
    assert_right(found, arrays, fix_gamma=True)
    assert (net.norm.gamma.data().asnumpy() == 1).all()


@pytest.mark.parametrize("blocked", [False, True])
def test_a_mean_far_from_zero(blocked):
    """oneDNN's output is off by 4e-5 and 2e-4 here."""
    arrays = draw((4, 16, 20, 20), mean=1000.0)
    found = step(Around(16, blocked=(blocked, blocked)), **arrays)
    assert_right({name: found[name] for name in ("y", "beta_grad", "mean", "variance")}, arrays)


def test_a_small_first_part_far_from_the_rest():
    """The sums of a piece start from its own average, not from the first numbers of the tensor."""
    arrays = draw((16, 16, 40, 40))
    arrays["x"][0, :, :8] += 1e4
    assert_right({"y": step(Around(16), **arrays)["y"]}, arrays)


def test_not_a_number_stays():
    arrays = draw((2, 16, 4, 4))
    arrays["x"][1, 5, 2, 3] = np.nan
    found = step(Around(16, blocked=(False, False)), **arrays)
    for name in ("y", "x_grad"):
        is_nan = np.isnan(found[name]).any(axis=(0, 2, 3))
        np.testing.assert_array_equal(is_nan, np.arange(16) == 5)
    assert np.isnan(found["mean"][5])


@pytest.mark.parametrize("blocked", [(False, False), (True, True), (True, False)], ids=str)
def test_threads_change_no_bit(blocked):
    """Several threads share this tensor: one is worth 192 kB."""
    arrays = draw((4, 32, 48, 48))
    results = []
    count = gops.tune_threads()
    try:
        for threads in (1, 2, 3):
            gops.tune_threads(threads)
            results.append(step(Around(32, blocked=blocked), **arrays))
    finally:
        gops.tune_threads(count)
    for other in results[1:]:
        for name, values in results[0].items():
            np.testing.assert_array_equal(other[name], values, err_msg=name)


@pytest.mark.parametrize("request_", ["add", "null"])
def test_requests_for_the_gradients_of_parameters(request_):
    arrays = draw((2, 16, 6, 6))
    net = Around(16)
    net.initialize()
    for parameter in (net.norm.gamma, net.norm.beta):
        parameter.grad_req = request_
    x, head = mx.nd.array(arrays["x"]), mx.nd.array(arrays["head"])
    x.attach_grad()
    before = calls()
    for _ in range(2):
        with mx.autograd.record():
            y = net(x)
        y.backward(head)
    assert calls() - before == 2 * BOTH_PASSES
    expected = oracle(**{**arrays, "gamma": np.ones(16), "beta": np.zeros(16)}, fix_gamma=False)
    np.testing.assert_allclose(x.grad.asnumpy(), expected["x_grad"], rtol=1e-5, atol=1e-5)
    if request_ == "add":
        for name, parameter in (("gamma_grad", net.norm.gamma), ("beta_grad", net.norm.beta)):
            np.testing.assert_allclose(parameter.grad().asnumpy(), 2 * expected[name], rtol=1e-5, atol=1e-4)


class TestWhatMXNetComputes:
    def test_another_number_of_dimensions(self):
        arrays = draw((6, 16, 10))
        before = calls()
        assert_right(step(Around(16, blocked=(False, False)), **arrays), arrays, tolerance=1e-5)
        assert calls() == before

    def test_another_axis(self):
        arrays = draw((2, 16, 5, 7))
        last = {name: np.moveaxis(arrays[name], 1, -1).copy() for name in ("x", "head")}
        before = calls()
        found = step(Around(16, axis=3, blocked=(False, False)), **{**arrays, **last})
        assert calls() == before
        found = {name: np.moveaxis(values, -1, 1) if values.ndim == 4 else values for name, values in found.items()}
        assert_right(found, arrays, tolerance=1e-5)

    def test_global_statistics(self):
        arrays = draw((2, 16, 5, 7))
        before = calls()
        found = step(Around(16, use_global_stats=True), **arrays)
        assert calls() == before
        each = (slice(None), None, None)
        expected = arrays["x"] * arrays["gamma"][each] / np.sqrt(1 + EPS) + arrays["beta"][each]
        np.testing.assert_allclose(found["y"], expected, rtol=1e-5, atol=1e-5)

    def test_prediction(self):
        arrays = draw((2, 16, 5, 7))
        net = Around(16)
        net.initialize()
        before = calls()
        found = net(mx.nd.array(arrays["x"])).asnumpy()
        assert calls() == before
        np.testing.assert_allclose(found, arrays["x"] / np.sqrt(1 + EPS), rtol=1e-5, atol=1e-6)

    def test_float64(self):
        arrays = {name: mx.nd.array(values, dtype="float64") for name, values in draw((2, 16, 5, 7)).items()}
        mean, variance = mx.nd.zeros(16, dtype="float64"), mx.nd.ones(16, dtype="float64")
        before = calls()
        with mx.autograd.train_mode():
            found = mx.nd.BatchNorm(arrays["x"], arrays["gamma"], arrays["beta"], mean, variance, fix_gamma=False,
                                    eps=EPS)
        expected = oracle(**{name: array.asnumpy() for name, array in arrays.items()}, fix_gamma=False)
        np.testing.assert_allclose(found.asnumpy(), expected["y"], rtol=1e-6, atol=1e-6)
        assert calls() == before

    def test_a_gradient_that_adds_up(self):
        """The gradient of the data: here the forward pass is ours, and the backward pass MXNet's."""
        arrays = draw((2, 16, 5, 7))
        x, gamma, beta = (mx.nd.array(arrays[name]) for name in ("x", "gamma", "beta"))
        mean, variance = mx.nd.zeros(16), mx.nd.ones(16)
        x.attach_grad("add")
        before = calls()
        for _ in range(2):
            with mx.autograd.record():
                y = mx.nd.BatchNorm(x, gamma, beta, mean, variance, fix_gamma=False, eps=EPS)
            y.backward(mx.nd.array(arrays["head"]))
        assert calls() - before == 2
        expected = oracle(**arrays, fix_gamma=False)
        np.testing.assert_allclose(x.grad.asnumpy(), 2 * expected["x_grad"], rtol=1e-5, atol=1e-5)


PROGRAM = """
import ctypes
import gluonops as gops, mxnet as mx
net = mx.gluon.nn.BatchNorm(in_channels=16)
net.initialize()
x = mx.nd.ones((2, 16, 3, 3))
x.attach_grad()
with mx.autograd.record():
    net(x).backward()
mx.nd.waitall()
print(ctypes.CDLL(gops.native_library_path()).gluonops_batch_norm_calls())
"""


@pytest.mark.parametrize("value, calls", [("0", "0"), ("1", "2")])
def test_it_can_be_left_to_mxnet(value, calls):
    done = fresh.python("-c", PROGRAM, env={**os.environ, "GLUONOPS_BATCH_NORM": value})
    assert done.stdout.strip() == calls, done.stderr
