"""The softmax family where numbers are extreme: float16 and many classes, infinities, temperatures near 0."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from in_turn import in_turn
from mxnet import autograd
from mxnet.gluon import HybridBlock
from op_suite import CUSTOM
from ops._softmax.oracle import nll, onehot, softmax

BACKENDS = pytest.mark.parametrize("backend", [CUSTOM, "reference", "native", "builtin", "cuda"], indirect=True)


class Apply(HybridBlock):
    """A function of Symbols, hybridized."""

    def __init__(self, function, **attrs):
        super().__init__()
        self._function, self._attrs = function, attrs
        self.hybridize()

    def hybrid_forward(self, F, data, *others):
        return self._function(data, *others, **self._attrs)


def run(function, inputs, backend):
    """Return the output, and the gradient of every input under a head gradient of ones."""
    for value in inputs:
        value.attach_grad()
    with gops.backend(backend), autograd.record():
        output = function(*inputs)
    output.backward()
    return output.asnumpy(), [value.grad.asnumpy() for value in inputs]


def smoothed(logits, label, e):
    s = nll(logits.astype("float64"), -1)
    return (1 - e) * s[np.arange(len(label)), label] + e * s.mean(-1)


@BACKENDS
@in_turn("axis", [0, 3, -1])
@in_turn("function", [gops.ops.softmax_output, gops.ops.softmax_cross_entropy])
def test_eight_dimensions(function, axis, backend, rng):
    """MXNet transposes six at most."""
    shape = (2, 3, 1, 2, 1, 2, 1, 3)
    data = rng.randn(*shape)
    probabilities = softmax(data, axis)
    label = rng.randint(0, shape[axis], np.delete(shape, axis))
    inputs = [mx.nd.array(data, dtype="float64"), mx.nd.array(label)]
    _, (gradient, _) = run(lambda *inputs: function(*inputs, axis=axis), inputs, backend)
    np.testing.assert_allclose(gradient, probabilities - onehot(label, shape[axis], axis), rtol=0, atol=1e-12)


@BACKENDS
@in_turn("classes", [20000, 100000])
def test_many_classes_in_float16(classes, backend, rng):
    """The sum of as many logits, and that of as many powers, is beyond float16's largest number, 65,504."""
    logits = mx.nd.array(rng.randn(2, classes), dtype="float16")
    label = rng.randint(0, classes, 2)
    loss, (gradient, _) = run(lambda *inputs: gops.ops.softmax_cross_entropy(*inputs, smoothing=0.1),
                              [logits, mx.nd.array(label, dtype="float32")], backend)
    wide = logits.asnumpy().astype("float64")
    np.testing.assert_allclose(loss, smoothed(wide, label, 0.1), rtol=1e-3)
    target = np.full((2, classes), 0.1 / classes)
    target[[0, 1], label] += 0.9
    np.testing.assert_allclose(gradient, softmax(wide, -1) - target, rtol=2e-3, atol=1e-7)


def test_many_classes_in_a_graph_without_types(rng):
    """A builtin graph of variables alone does not know that it computes float16."""
    logits, label = mx.nd.array(rng.randn(2, 20000), dtype="float16"), rng.randint(0, 20000, 2)
    with gops.backend("builtin"):
        net = Apply(gops.ops.softmax_cross_entropy, smoothing=0.1)
        loss = net(logits, mx.nd.array(label)).asnumpy()
    np.testing.assert_allclose(loss, smoothed(logits.asnumpy(), label, 0.1), rtol=1e-2)


def test_a_graph_that_knows_its_types_computes_in_float32(rng):
    """float16 weights say what the logits are; the result is float16 again."""
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Embedding(2, 100000, dtype="float16"), gops.nn.Softmax())
    net.initialize(mx.init.Normal(1))
    net.hybridize()
    with gops.backend("builtin"):
        data = mx.nd.array([0, 1])
        output = net(data).asnumpy()
        logits = net[0](data).asnumpy().astype("float64")
    assert output.dtype == np.float16
    np.testing.assert_allclose(output, softmax(logits, -1), rtol=1e-3, atol=6e-8)


@BACKENDS
@in_turn("dtype", ["float16", "float32", "float64"])
def test_a_class_that_cannot_be_with_smoothing(dtype, backend):
    """Its logit is -infinity, and smoothing gives it a share of the label: the loss is infinite."""
    data = mx.nd.array([[1, -np.inf, 2], [1, 0, 2]], dtype=dtype)
    label = mx.nd.array([[1, 0, 0], [0, 0, 1]], dtype=dtype)
    loss, gradients = run(lambda *inputs: gops.ops.softmax_cross_entropy(*inputs, smoothing=0.1, sparse_label=False),
                          [data, label], backend)
    p = softmax(np.array([1.0, -np.inf, 2]), -1)
    assert loss[0] == np.inf and np.isfinite(loss[1])
    np.testing.assert_allclose(gradients[0][0], p - 0.9 * np.eye(3)[0] - 0.1 / 3, rtol=2e-3)
    np.testing.assert_allclose(gradients[1][0], [0.9 * -np.log(p[0]), np.inf, 0.9 * -np.log(p[2])], rtol=2e-3)


@BACKENDS
@in_turn("dtype", ["float16", "float32", "float64"])
@in_turn("hybridized", [False, True])
@in_turn("temperature", [1e-30, 1e-40, 1e-300, 3e-308])
def test_temperatures_near_zero(temperature, hybridized, dtype, backend):
    """The largest has everything, and nothing moves it."""
    data = mx.nd.array([[1, 3, -2, 2], [0, 0, 0, 0]], dtype=dtype)
    function = Apply(gops.ops.softmax, temperature=temperature) if hybridized else (
        lambda data: gops.ops.softmax(data, temperature=temperature))
    output, (gradient,) = run(function, [data], backend)
    np.testing.assert_array_equal(output, [[0, 1, 0, 0], [0.25] * 4])
    np.testing.assert_array_equal(gradient, np.zeros((2, 4)))


@pytest.mark.parametrize("backend", ["custom", "native", "builtin"])
def test_two_heads_of_one_name(backend):
    """Each sends back its gradient."""
    data, label = mx.sym.var("x"), mx.sym.var("l")
    with gops.backend(backend):
        heads = mx.sym.Group([gops.ops.softmax_output(data, label, name="h") for _ in range(2)])
    inputs = {"x": mx.nd.array([[1.0, 2, 3]]), "l": mx.nd.array([0])}
    for graph in (heads, mx.sym.load_json(heads.tojson())):
        gradients = {name: mx.nd.zeros_like(value) for name, value in inputs.items()}
        executor = graph.bind(mx.cpu(), inputs, gradients)
        executor.forward(is_train=True)
        executor.backward()
        expected = 2 * (softmax(np.array([[1.0, 2, 3]]), -1) - [[1, 0, 0]])
        np.testing.assert_allclose(gradients["x"].asnumpy(), expected, rtol=1e-6)


@in_turn("hybridized", [False, True])
@pytest.mark.parametrize("backend", ["custom", "native", "builtin"])
def test_labels_of_the_other_kind(backend, hybridized):
    """One-hot labels come where classes are expected, and the other way round."""
    one_hot, classes, data = mx.nd.one_hot(mx.nd.arange(4), 5), mx.nd.arange(4), mx.nd.ones((4, 5))
    for label, sparse, text in ((classes, False, "expected probabilities in the shape of pred, (4, 5). Pass class "
                                 "indices with sparse_label=True"), (one_hot, True, "with sparse_label=False")):
        loss = gops.loss.SoftmaxCELoss(sparse_label=sparse)
        loss.hybridize(hybridized)
        with gops.backend(backend), pytest.raises(gops.OpError) as caught:
            loss(data, label).wait_to_read()
        assert text in str(caught.value)
