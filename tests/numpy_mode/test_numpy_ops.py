"""Every operator takes arrays and symbols of MXNet's NumPy interface: the same numbers to the bit as in legacy mode."""
import gluonops as gops
import mxnet as mx
import numpy as onp
import op_suite
import pytest
from in_turn import in_turn
from mxnet import autograd, np, npx
from mxnet.gluon import HybridBlock

BACKENDS = ("custom", "native", "builtin")


class UsersNet(HybridBlock):
    """The operator in a net that a user writes for NumPy mode."""

    def __init__(self, function, attrs):
        super().__init__()
        self._function, self._attrs = function, attrs

    def hybrid_forward(self, F, data, *others):
        return self._function(data, *others, **self._attrs)


def first(outputs):
    return outputs[0] if isinstance(outputs, (tuple, list)) else outputs


def run(net, arrays, head):
    """Return the first output and the gradients of all inputs, as NumPy arrays of the process."""
    for array in arrays:
        array.attach_grad()
    with autograd.record():
        output = first(net(*arrays))
    assert type(output) is type(arrays[0])
    output.backward(head(output))
    return [output.asnumpy(), *(array.grad.asnumpy() for array in arrays)]


@in_turn("hybridized", [False, True])
@in_turn("backend", BACKENDS)
@in_turn("name", gops.ops.list())
def test_operators(name, backend, hybridized, rng):
    suite = op_suite.suite_of(name)()
    if backend == "native" and "kernel.cc" in suite.op.unsupported:
        pytest.skip("it has no native kernel")
    case = suite.cases[0]
    drawn = suite.draw(case, "float32", rng)
    numbers = {}

    def head(output):
        numbers.setdefault("head", onp.asarray(rng.randn(*output.shape), output.dtype))
        array = np.array if type(output) is np.ndarray else mx.nd.array
        return array(numbers["head"], dtype=output.dtype)

    def net():
        block = UsersNet(suite.function, case.attrs)
        if hybridized:
            block.hybridize()
        return block

    with gops.backend(backend):
        legacy = run(net(), [mx.nd.array(a, dtype=a.dtype) for a in drawn], head)
        npx.set_np()
        try:
            ours = run(net(), [np.array(a, dtype=a.dtype) for a in drawn], head)
        finally:
            npx.reset_np()
    for got, expected in zip(ours, legacy):
        assert got.dtype == expected.dtype
        onp.testing.assert_array_equal(got, expected)


@in_turn("backend", BACKENDS)
@in_turn("shape", [(), (0, 3), (3, 0)])
@in_turn("hybridized", [False, True])
def test_shapes_that_only_numpy_mode_has(shape, backend, hybridized, numpy_mode):
    if backend == "builtin" and hybridized and 0 in shape:
        pytest.skip("MXNet's own operators fail in a graph on tensors without elements, see docs/limits.md")
    with gops.backend(backend):
        net = UsersNet(gops.ops.mish, {})
        if hybridized:
            net.hybridize()
        data = np.ones(shape)
        data.attach_grad()
        with autograd.record():
            output = net(data)
        output.backward()
        assert output.shape == data.grad.shape == shape
        onp.testing.assert_allclose(output.asnumpy(), onp.full(shape, onp.tanh(onp.log1p(onp.e))), rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_labels_of_integers(backend, numpy_mode):
    with gops.backend(backend):
        data = np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]])
        losses = gops.ops.softmax_cross_entropy(data, np.array([2, 0], dtype="int64"))
        onp.testing.assert_allclose(losses.asnumpy(), [0.407606, 1.098612], rtol=1e-5)


def test_a_symbol_is_returned_for_a_symbol(numpy_mode):
    data = mx.sym.var("data").as_np_ndarray()
    result = gops.ops.group_norm(data, mx.sym.var("g").as_np_ndarray(), mx.sym.var("b").as_np_ndarray(), num_groups=2)
    assert type(result) is mx.sym.np._Symbol
    assert result.list_arguments() == ["data", "g", "b"]


def test_arrays_of_both_kinds_are_named(numpy_mode):
    with pytest.raises(gops.OpError, match="lhs is mxnet.numpy.ndarray, rhs is NDArray"):
        gops.ops.box_iou(np.ones((1, 4)), mx.nd.ones((1, 4)))
