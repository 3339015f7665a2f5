"""What MXNet 1.9.1's own tests ask of the operators that ours stand for, asked of ours.

Facts from apache/mxnet 1.9.1: ``test_abs``, ``test_tile``, ``test_new_softmax``, ``test_softmax_with_temperature``,
``test_softmax_with_large_inputs``, ``test_softmax_dtype``, ``check_softmax_grad``, ``check_smoothed_softmax_grad``,
``check_softmax_with_ignore_label``, ``check_softmax_with_shape``, ``test_softmax_output_normalization``,
``test_softmax_cross_entropy``, ``test_depthtospace`` and ``test_spacetodepth`` of
``tests/python/unittest/test_operator.py``; ``test_loss_ndarray`` of ``test_loss.py``. MXNet has no counterpart of
``center_loss``, ``region_decode`` and ``region_loss``.
"""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from in_turn import in_turn
from mxnet import gluon
from op_suite import CUSTOM, recorded
from ops._softmax.oracle import nll, onehot, softmax

BACKENDS = pytest.mark.parametrize("backend", [CUSTOM, "reference", "native", "builtin"], indirect=True)
REFUSED = (gops.OpError, mx.MXNetError)


def graph(name, backend, *inputs, **attrs):
    """Return the operator on variables."""
    with gops.backend(backend):
        return getattr(gops.ops, name)(*[mx.sym.var(variable) for variable in inputs], **attrs)


@BACKENDS
def test_abs_writes_over_its_gradient(backend):
    data, gradient = mx.nd.full((3, 4), -5), mx.nd.full((3, 4), 3)
    executor = graph("abs", backend, "data").bind(mx.cpu(), [data], [gradient])
    np.testing.assert_array_equal(executor.forward(is_train=True)[0].asnumpy(), np.full((3, 4), 5))
    executor.backward(mx.nd.full((3, 4), 2))
    np.testing.assert_array_equal(gradient.asnumpy(), np.full((3, 4), -2))


@BACKENDS
class TestTile:
    @in_turn("ndim", range(1, 6))
    def test_as_numpy(self, backend, ndim, rng):
        """int64 data have up to five dimensions; there are fewer counts, as many, or more."""
        data = rng.randint(0, 100, rng.randint(1, 7, ndim))
        for counts in ((3,), (2, 3), (4, 1, 2)):
            with gops.backend(backend):
                output = gops.ops.tile(mx.nd.array(data, dtype="int64"), counts)
            np.testing.assert_array_equal(output.asnumpy(), np.tile(data, counts))

    def test_an_empty_tensor(self, backend):
        with mx.util.np_shape(True), gops.backend(backend):
            assert gops.ops.tile(mx.nd.zeros((2, 3, 0, 4), dtype="int32"), (2, 4, 6)).shape == (2, 6, 0, 24)

    def test_gradient_is_the_sum_over_copies(self, backend, rng):
        data, head = rng.randint(0, 10, (2, 2)).astype("f"), rng.randint(0, 10, (4, 4)).astype("f")
        with gops.backend(backend):
            _, gradient = recorded(gops.ops.tile, data, head=mx.nd.array(head), tiles=(2, 2))
        np.testing.assert_array_equal(gradient, head.reshape(2, 2, 2, 2).sum((0, 2)))

    def test_numeric_gradient(self, backend, rng):
        mx.test_utils.check_numeric_gradient(graph("tile", backend, "data", tiles=(2, 2)), [rng.randn(2, 2)],
                                             numeric_eps=1e-4, rtol=1e-4, dtype=np.float64)

    @in_turn("counts", [(1, 2, -3), (1, 0, 3)])
    def test_counts_below_one_are_refused(self, backend, counts):
        with gops.backend(backend), pytest.raises(REFUSED, match="expected an integer of at least 1"):
            gops.ops.tile(mx.nd.arange(16).reshape((4, 4)), counts)


@BACKENDS
class TestSoftmax:
    @in_turn("ndim", range(1, 5))
    def test_every_axis_and_request(self, backend, ndim, rng):
        """A head gradient of ones gives a gradient of zeros."""
        data = rng.uniform(-2, 2, rng.randint(1, 5, ndim))
        for axis in range(-ndim, ndim):
            symbol = graph("softmax", backend, "data", axis=axis)
            mx.test_utils.check_symbolic_forward(symbol, [data], [softmax(data, axis)], 1e-5, 1e-7)
            for request in ("null", "add", "write"):
                mx.test_utils.check_symbolic_backward(symbol, [data], [np.ones(data.shape)], [np.zeros(data.shape)],
                                                      1e-5, 1e-6, grad_req=request)

    @in_turn("temperature", [1, 3, 10])
    def test_temperature(self, backend, temperature, rng):
        """MXNet's own test has all from 1 to 10."""
        data = rng.uniform(-2, 2, (4, 3, 2))
        symbol = graph("softmax", backend, "data", axis=0, temperature=temperature)
        mx.test_utils.check_symbolic_forward(symbol, [data], [softmax(data, 0, temperature)], 1e-5, 1e-7)
        mx.test_utils.check_numeric_gradient(symbol, [data], numeric_eps=1e-4, rtol=1e-4, atol=1e-6, dtype=np.float64)

    @in_turn("value", [-1e30, 1e30, -3.4e38, 3.4e38])
    def test_large_inputs(self, backend, value):
        """Equal logits at the ends of float32; the axis has one class, so each is certain."""
        with gops.backend(backend):
            output = gops.ops.softmax(mx.nd.full((1, 1, 1, 2), value), axis=1)
            shared = gops.ops.softmax(mx.nd.full((1, 1, 1, 2), value))
        np.testing.assert_array_equal(output.asnumpy(), np.ones((1, 1, 1, 2)))
        np.testing.assert_array_equal(shared.asnumpy(), np.full((1, 1, 1, 2), 0.5))

    @in_turn("narrow, wide", [("float16", "float32"), ("float32", "float64")])
    def test_a_narrow_dtype_as_a_wide_one(self, backend, narrow, wide, rng):
        """500 classes are within the bounds that MXNet's test has under MXNET_SAFE_ACCUMULATION=1."""
        data = rng.uniform(size=(100, 500)).astype(narrow)
        with gops.backend(backend):
            results = [recorded(gops.ops.softmax, data.astype(dtype)) for dtype in (narrow, wide)]
        for got, expected in zip(*results):
            np.testing.assert_allclose(got, expected, 1e-5, 1e-5)


@BACKENDS
class TestSoftmaxOutput:
    def test_a_row_by_hand(self, backend):
        """The row is (1, 6, 4, 2), its class 1."""
        with gops.backend(backend):
            output, gradient = recorded(gops.ops.softmax_output, np.array([[1, 6, 4, 2]], "f"), np.array([1.0]))
        np.testing.assert_allclose(output, [[0.005806628, 0.861780069, 0.116629249, 0.015784052]], 1e-6)
        np.testing.assert_allclose(gradient - output, [[0, -1, 0, 0]], atol=1e-6)

    def test_smoothed(self, backend):
        """MXNet spreads ``smooth_alpha`` over the other classes, ours over all: so C / (C - 1) times that."""
        alpha, classes = 0.2, 4
        with gops.backend(backend):
            _, gradient = recorded(gops.ops.softmax_cross_entropy, np.array([[1, 6, 4, 2]], "f"), np.array([1.0]),
                                   smoothing=alpha * classes / (classes - 1))
        target = np.full((1, classes), alpha / (classes - 1))
        target[0, 1] = 1 - alpha
        np.testing.assert_allclose(gradient, softmax(np.array([[1.0, 6, 4, 2]]), -1) - target, atol=1e-6)

    def test_ignored_rows_leave_the_others_alone(self, backend, rng):
        data, label = rng.rand(20, 10).astype("f"), rng.randint(1, 9, 20).astype("f")
        with gops.backend(backend):
            _, before = recorded(gops.ops.softmax_output, data, label, ignore_label=0)
            label[:10] = 0
            _, after = recorded(gops.ops.softmax_output, data, label, ignore_label=0)
        np.testing.assert_array_equal(after[:10], np.zeros((10, 10)))
        np.testing.assert_array_equal(after[10:], before[10:])

    @in_turn("shape", [(3, 4), (3, 4, 2)])
    def test_probabilities_as_labels(self, backend, shape, rng):
        """A label has the data's shape, along the last axis; ours takes it in the loss."""
        data, label = rng.uniform(-1, 1, shape).astype("f"), softmax(rng.uniform(-1, 1, shape), -1).astype("f")
        with gops.backend(backend):
            _, gradient = recorded(gops.ops.softmax_cross_entropy, data, label, sparse_label=False)
        np.testing.assert_allclose(gradient, softmax(data.astype("f8"), -1) - label, 1e-5, 1e-6)

    @in_turn("normalization", ["null", "batch", "valid"])
    @in_turn("ignore_label", [None, 3])
    @in_turn("positions", [(), (3, 3)])
    def test_normalization(self, backend, positions, ignore_label, normalization, rng):
        """Ours counts its own way, and, with the page's replacement, as MXNet's SoftmaxOutput does."""
        data = rng.uniform(-1, 1, (8, 6, *positions)).astype("f")
        label = rng.randint(0, 6, (8, *positions)).astype("f")
        counted = np.ones(label.shape) if ignore_label is None else (label != ignore_label)
        scale = {"null": 0.7, "batch": 0.7 / 8, "valid": 0.7 / counted.sum()}[normalization]
        with gops.backend(backend):
            output, gradient = recorded(gops.ops.softmax_output, data, label, axis=1, ignore_label=ignore_label,
                                        normalization=normalization, grad_scale=0.7)
        expected = softmax(data.astype("f8"), 1)
        np.testing.assert_allclose(output, expected, 1e-5, 1e-7)
        expected = (expected - onehot(label, 6, 1)) * np.expand_dims(counted, 1) * scale
        np.testing.assert_allclose(gradient, expected, 1e-5, 1e-7)
        theirs = {} if ignore_label is None else {"use_ignore": True, "ignore_label": ignore_label}
        _, gradient = recorded(mx.nd.SoftmaxOutput, data, label, multi_output=bool(positions), grad_scale=0.7,
                               normalization=normalization, **theirs)
        if positions and normalization != "valid":
            expected = expected / np.prod(positions)
        np.testing.assert_allclose(gradient, expected, 1e-4, 1e-6)


@BACKENDS
class TestCrossEntropy:
    def test_the_sum_is_mxnets(self, backend, rng):
        data, label = rng.uniform(-1, 1, (101, 103)).astype("f"), rng.randint(0, 103, 101).astype("f")
        with gops.backend(backend):
            loss = gops.ops.softmax_cross_entropy(mx.nd.array(data), mx.nd.array(label))
        expected = (nll(data.astype("f8"), -1) * onehot(label, 103, -1)).sum()
        np.testing.assert_allclose(loss.asnumpy().sum(), expected, 1e-6)
        theirs = mx.nd.softmax_cross_entropy(mx.nd.array(data), mx.nd.array(label))
        np.testing.assert_allclose(theirs.asnumpy(), [expected], 1e-3)

    @in_turn("weight, expected", [(None, [2.12692809, 0.04858733]),
                                  ([[0.5], [1.0]], [1.06346405, 0.04858733])])
    def test_losses_by_hand(self, backend, weight, expected):
        arrays = [mx.nd.array([[0, 2], [1, 4]]), mx.nd.array([0, 1])] + ([mx.nd.array(weight)] if weight else [])
        with gops.backend(backend):
            ours = gops.loss.SoftmaxCELoss()(*arrays)
        np.testing.assert_allclose(ours.asnumpy(), expected, 1e-6)
        theirs = gluon.loss.SoftmaxCrossEntropyLoss()(*arrays)   # the bounds are those of MXNet's test
        np.testing.assert_allclose(theirs.asnumpy(), expected, 1e-3, 1e-4)


@BACKENDS
@in_turn("reverse, theirs", [(False, "space_to_depth"), (True, "depth_to_space")])
class TestReorg:
    @in_turn("block", [2, 3, 4])
    def test_as_mxnet(self, backend, reverse, theirs, block, rng):
        """DCR agrees, forward and backward, on sizes of three, five and the blocks' multiples."""
        shape = (3, 2 * block * block, 5, 1) if reverse else (3, 5, 2 * block, block)
        data = rng.randn(*shape).astype("f")
        want, _ = recorded(getattr(mx.nd, theirs), data, block_size=block)
        head = rng.randn(*want.shape).astype("f")
        _, want_gradient = recorded(getattr(mx.nd, theirs), data, head=mx.nd.array(head), block_size=block)
        with gops.backend(backend):
            output, gradient = recorded(gops.ops.reorg, data, head=mx.nd.array(head), stride=block, mode="DCR",
                                        reverse=reverse)
        np.testing.assert_array_equal(output, want)
        np.testing.assert_array_equal(gradient, want_gradient)

    @in_turn("shape, block", [((2, 3, 3, 4), 2), ((2, 8, 3, 3), 0), ((2, 3, 1, 5), 4)])
    def test_refused(self, backend, reverse, theirs, shape, block):
        """Some do not divide, and one is no block at all; MXNet refuses the same."""
        with pytest.raises(mx.MXNetError):
            getattr(mx.nd, theirs)(mx.nd.zeros(shape), block_size=block).wait_to_read()
        with gops.backend(backend), pytest.raises(REFUSED, match="divisible by|at least 1"):
            gops.ops.reorg(mx.nd.zeros(shape), stride=block, mode="DCR", reverse=reverse)
