import gluonops as gops
import mxnet as mx
import numpy as np
import oracles
import pytest
from gluonops.contract import registry
from op_suite import Case, Row, recorded
from ops._rms.suite import ScaledRowsSuite

# A row of (1, 7) has the mean square 25, so it is divided by 5; eps is too small to count.
ROW, SCALE, EPS = [[1.0, 7]], [2.0, 3], {"eps": 1e-12}


class TestRmsNorm(ScaledRowsSuite):
    name = "rms_norm"
    cases = (
        Case("matrix", ((5, 8), (8,))),
        Case("more", ((1, 6), (6,))),
        Case("vector", ((7,), (7,))),
        Case("wide", ((9, 1031), (1031,))),
        Case("channels", ((3, 5, 2, 7), (5,)), {"axis": 1, "eps": 0.1}),
        Case("many_columns", ((2, 3, 1100), (3,)), {"axis": 1}),   # several blocks of columns in C++
    )
    empty = Case("empty", ((0, 4), (4,)))
    # The gradient before the scale is (10, 15) / (2, 3) = (5, 5) times the scale: (10, 15). Its mean with the unit row
    # (0.2, 1.4) is 11.5.
    table = (
        Row("root_of_25", (ROW, SCALE), EPS, [[0.4, 4.2]], [[5, 5]], ([[1.54, -0.22]], [1, 7])),
        Row("zeros", ([[0.0, 0]], SCALE), {"eps": 0.25}, [[0, 0]], [[1, 1]], ([[4, 6]], [0, 0])),
    )


def test_squares_of_small_and_large_numbers_in_a_graph_of_float16(rng):
    """A builtin graph of variables with unknown types computes in float16, which holds squares of 1e-3 to 255."""
    with gops.backend("builtin"):
        graph = gops.ops.rms_norm(mx.sym.var("data"), mx.sym.var("scale"))
    for size in (1e-4, 1, 2e4):
        data = (rng.choice([-1, 1], (3, 8)) * rng.uniform(0.5, 2, (3, 8)) * size).astype("float16")
        inputs = {"data": mx.nd.array(data, dtype="float16"), "scale": mx.nd.ones(8, dtype="float16")}
        gradients = {name: mx.nd.zeros_like(array) for name, array in inputs.items()}
        executor = graph.bind(mx.cpu(), inputs, gradients)
        output = executor.forward(is_train=True)[0].asnumpy()
        executor.backward([mx.nd.ones((3, 8), dtype="float16")])
        attrs = registry.get("rms_norm").op.parse({})
        expected = oracles.get("rms_norm").forward(attrs, data.astype("float64"), np.ones(8))["output"]
        np.testing.assert_allclose(output, expected, 1e-2, 1e-2)
        by_data = oracles.get("rms_norm").backward(attrs, 1.0, data.astype("float64"), np.ones(8))["data"]
        np.testing.assert_allclose(gradients["data"].asnumpy(), by_data, 2e-2, 2e-2 * np.abs(by_data).max())


def test_block(rng):
    data = mx.nd.array(rng.randn(4, 6, 5))
    block = gops.nn.RMSNorm(axis=1)
    block.initialize()
    block.hybridize()
    expected, _ = recorded(gops.ops.rms_norm, data.asnumpy(), np.ones(6, "float32"), axis=1)
    np.testing.assert_allclose(block(data).asnumpy(), expected, rtol=1e-6)
    assert block.scale.shape == (6,)
    assert repr(block) == "RMSNorm(axis=1, eps=1e-06, in_channels=0, scale_initializer=ones)"
    with pytest.raises(gops.OpError, match="eps is 0"):
        gops.nn.RMSNorm(eps=0)
