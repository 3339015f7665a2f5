import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.contract import registry
from in_turn import in_turn
from mxnet import autograd
from op_suite import Bad, Case, OpSuite, Row, largest_finite, recorded
from ops.group_norm import oracle

TWO = {"num_groups": 2}


class TestGroupNorm(OpSuite):
    name = "group_norm"
    needs_types = ("float16",)   # the derivative of the root of eps is infinite in float16
    undefined = ("inf", "-inf", "max", "huge", "nan")   # squares
    cases = (
        Case("maps", ((2, 4, 3, 5), (4,), (4,)), TWO),
        Case("more", ((3, 6, 1, 7), (6,), (6,)), TWO),
        Case("rows", ((5, 66), (66,), (66,)), {"num_groups": 3, "eps": 0.1}),
        Case("instances", ((2, 3, 131), (3,), (3,)), {"num_groups": 3}),
    )
    empty = Case("empty", ((0, 4, 3), (4,), (4,)), TWO)
    # The groups (1, 3) and (0, 4) have the deviations 1 and 2. The gradients of the normalised data are (2, 2) times
    # gamma (1, 3) = (2, 6), and (4, 0) times gamma (2, 5) = (8, 0). Less their means they are (-2, 2) and (4, -4):
    # multiples of the normalised data (-1, 1), of which nothing is left.
    table = (
        Row("groups_of_two", ([[1.0, 3, 0, 4]], [1.0, 3, 2, 5], [0.0, 1, 0, 1]), {**TWO, "eps": 1e-12},
            [[-1, 4, -2, 6]], [[2, 2, 4, 0]], ([[0, 0, 0, 0]], [-2, 2, -4, 0], [2, 2, 4, 0])),
        # A group of one place has mean 2 and deviation 0: what is left is beta.
        Row("constant", ([[2.0]], [3.0], [5.0]), {"num_groups": 1}, [[5]], [[7]], ([[0]], [0], [7])),
    )
    errors = (
        Bad("groups", ((5, 5), (5,), (5,)), TWO,
            "channels 5 is not divisible by num_groups 2. Choose another num_groups"),
        Bad("no_groups", ((4, 4), (4,), (4,)), {"num_groups": 0}, "expected an integer of at least 1"),
        Bad("gamma", ((2, 4), (3,), (4,)), TWO, "gamma has shape (3,); expected (4,) to match data of shape (2, 4)",
            first=False),
        Bad("eps", ((4, 4), (4,), (4,)), {**TWO, "eps": 0}, "expected a finite number of at least 1e-12 and below 1"),
        Bad("integers", ((4, 4), (4,), (4,)), TWO, "data has dtype int32; expected float16, float32, float64",
            ("int32",) * 3),
    )
    texts = {"num_groups": ["1", "5", "0", "-1", "2.0"], "eps": ["1e-5", "0"]}
    determined = (({"output": (2, 4)}, TWO, {"data": (2, 4), "gamma": (4,), "beta": (4,), "output": (2, 4),
                                             "mean": (2, 2), "rstd": (2, 2)}),)

    def amplification(self, attrs, backend, *inputs):
        """The gradient is multiplied by the rstd. That of a pair does not cancel, but for MXNet's derivative.

        MXNet's has the normalised data as a factor, with their own rounding.
        """
        rstd = largest_finite(oracle.forward(attrs, *inputs)["rstd"])
        if backend == "builtin":
            return rstd * self.output_amplification(attrs, *inputs)
        return 1.0 if inputs[0][0].size <= 2 * attrs.num_groups else rstd

    def output_amplification(self, attrs, *inputs):
        """The mean is rounded, and the data less the mean are multiplied by the rstd."""
        results = oracle.forward(attrs, *inputs)
        return max(1.0, largest_finite(np.abs(results["mean"])) * largest_finite(results["rstd"]))


@pytest.mark.parametrize("backend", ["native", "cuda", "reference"], indirect=True)
@in_turn("shape, num_groups", [((5, 2), 1), ((5, 4), 2), ((5, 2, 2), 2), ((5, 2), 2)])
@in_turn("eps", [1e-12, 1e-5, 0.1])
def test_groups_of_one_and_two_elements(backend, shape, num_groups, eps, rng):
    """What is left of a pair's gradient is eps / (variance + eps) of it; a difference of rounded numbers is not."""
    data, head = (rng.randn(*shape).astype("float32") for _ in range(2))
    gamma = rng.randn(shape[1]).astype("float32")
    options = {"num_groups": num_groups, "eps": eps}
    attrs = registry.get("group_norm").op.parse(options)
    with gops.backend(backend):
        _, by_data = recorded(gops.ops.group_norm, data, gamma, gamma, head=mx.nd.array(head), **options)
    wide = [array.astype("float64") for array in (head, data, gamma, gamma)]
    groups = wide[1].reshape(5, num_groups, -1)
    by_x_hat = (wide[0] * oracle.of_channels(wide[2], data)).reshape(groups.shape)
    half = (by_x_hat - by_x_hat[..., ::-1]) / 2
    expected = half * eps * (groups.var(-1, keepdims=True) + eps) ** -1.5
    np.testing.assert_allclose(by_data.reshape(groups.shape), expected, rtol=1e-4, atol=1e-30)
    np.testing.assert_allclose(oracle.backward(attrs, *wide)["data"].reshape(groups.shape), expected, atol=1e-9)


@pytest.mark.parametrize("backend", ["native", "cuda"], indirect=True)
@in_turn("places", [9, 1])
def test_a_large_mean_costs_no_digits(backend, places, rng):
    """The sum of squares minus the square of the sum would be off by 16 here, at a variance of 1."""
    data = (rng.randn(2, 512, places) + 16384).astype("float32")
    with gops.backend(backend):
        output, _ = recorded(gops.ops.group_norm, data, np.ones(512, "float32"), np.zeros(512, "float32"), **TWO)
    groups = data.astype("float64").reshape(2, 2, -1)
    expected = (groups - groups.mean(-1, keepdims=True)) / groups.std(-1, keepdims=True)
    half_a_place = 2.0 ** -10   # half a place of the mean in float32
    np.testing.assert_allclose(output, expected.reshape(data.shape), 1e-5, 1.1 * half_a_place)
    np.testing.assert_allclose(output.reshape(2, 2, -1).std(-1), 1, 1e-5)


def test_constant_groups_in_float16():
    """MXNet computes a graph of unknown types in float16, and eps^-1.5 is beyond it."""
    with gops.backend("builtin"):
        graph = gops.ops.group_norm(*map(mx.sym.var, ("data", "gamma", "beta")), **TWO)
    arrays = {"data": np.full((2, 4, 3), 3), "gamma": np.ones(4), "beta": np.zeros(4)}
    inputs = {name: mx.nd.array(array, dtype="float16") for name, array in arrays.items()}
    gradients = {name: mx.nd.zeros_like(array) for name, array in inputs.items()}
    executor = graph.bind(mx.cpu(), inputs, gradients)
    np.testing.assert_array_equal(executor.forward(is_train=True)[0].asnumpy(), 0)
    executor.backward([mx.nd.ones((2, 4, 3), dtype="float16")])
    for name, expected in {"data": 0, "gamma": 0, "beta": 6}.items():
        np.testing.assert_array_equal(gradients[name].asnumpy(), expected, err_msg=name)


def test_a_group_for_each_channel_is_mxnets_instance_norm(rng):
    data, gamma, beta = (rng.randn(*shape).astype("float32") for shape in ((2, 3, 4, 5), (3,), (3,)))
    expected, gradient = recorded(mx.nd.InstanceNorm, data, gamma, beta, eps=1e-5)
    output, by_data = recorded(gops.ops.group_norm, data, gamma, beta, num_groups=3)
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(by_data, gradient, rtol=1e-5, atol=1e-5)


def test_block(rng):
    data = mx.nd.array(rng.randn(4, 6, 5))
    block = gops.nn.GroupNorm(3, scale=False, beta_initializer=mx.init.Constant(2))
    block.initialize()
    block.hybridize()
    with autograd.record():
        output = block(data)
    output.backward()
    np.testing.assert_allclose(output.asnumpy().reshape(4, 3, -1).mean(-1), 2, rtol=1e-5)
    assert block.gamma.grad_req == "null" and block.beta.grad_req == "write"
    np.testing.assert_allclose(block.beta.grad().asnumpy(), 4 * 5)
    assert repr(block) == ("GroupNorm(num_groups=3, epsilon=1e-05, center=True, scale=False, "
                           "beta_initializer=Constant(value=2), gamma_initializer=ones, in_channels=0)")
    with pytest.raises(gops.OpError, match="num_groups is 0"):
        gops.nn.GroupNorm(0)


def test_norm_layer_of_gluoncv(rng):
    """A residual net of gluoncv, which hybridizes with this layer, and not with its own GroupNorm."""
    resnetv1b = pytest.importorskip("gluoncv.model_zoo.resnetv1b")
    net = resnetv1b.ResNetV1b(resnetv1b.BottleneckV1b, [1, 1, 1, 1], classes=5, norm_layer=gops.nn.GroupNorm)
    net.initialize(mx.init.Xavier())
    data = mx.nd.array(rng.rand(2, 3, 64, 64))
    expected = net(data).asnumpy()
    net.hybridize()
    with autograd.record():
        output = net(data)
    output.backward()
    np.testing.assert_allclose(output.asnumpy(), expected, rtol=1e-4, atol=1e-5)
    gradients = [parameter.grad().norm().asscalar() for name, parameter in net.collect_params().items()
                 if name.endswith("gamma")]
    assert len(gradients) == 17 and min(gradients) > 0
