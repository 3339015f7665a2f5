import gluonops as gops
import mxnet as mx
import numpy as np
from op_suite import Case, Row, recorded
from ops._rms.suite import ScaledRowsSuite


class TestL2Normalize(ScaledRowsSuite):
    name = "l2_normalize"
    cases = (
        Case("map", ((2, 5, 3, 7), (5,))),
        Case("more", ((3, 4, 1, 2), (4,))),
        Case("last", ((9, 37), (37,)), {"axis": -1, "eps": 0.1}),
    )
    empty = Case("empty", ((0, 4), (4,)))
    # A row of (3, 4) has the length 5. The gradient before the scale is (10, 15); its sum with the unit row is 18.
    table = (
        Row("length_5", ([[3.0, 4]], [2.0, 3]), {}, [[1.2, 2.4]], [[5, 5]], ([[-0.16, 0.12]], [3, 4])),
    )


def test_as_mxnet(rng):
    data = rng.randn(2, 5, 3, 4).astype("float32")
    expected, gradient = recorded(lambda x: mx.nd.L2Normalization(x, mode="channel"), data)
    output, by_data = recorded(gops.ops.l2_normalize, data, np.ones(5, "float32"))
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(by_data, gradient, rtol=1e-4, atol=1e-5)


def test_block(rng):
    data = mx.nd.array(rng.randn(2, 6, 3, 3))
    block = gops.nn.L2Normalize(scale_initializer=mx.init.Constant(20))
    block.initialize()
    block.hybridize()
    lengths = block(data).norm(axis=1).asnumpy()
    np.testing.assert_allclose(lengths, 20, rtol=1e-5)
    assert repr(block) == "L2Normalize(axis=1, eps=1e-10, in_channels=0, scale_initializer=Constant(value=20))"
