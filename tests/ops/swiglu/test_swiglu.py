import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from op_suite import Bad, Case, OpSuite, Row

LOG_3 = np.log(3)   # there the sigmoid is 3 / 4


class TestSwiglu(OpSuite):
    name = "swiglu"
    undefined = ("inf", "-inf", "max", "huge")   # products
    cases = (
        Case("matrix", ((3, 4),)),
        Case("prime", ((7, 2 * 131),)),
        Case("channels", ((2, 6, 5, 1, 1, 3, 1),), {"axis": 1}),
    )
    empty = Case("empty", ((0, 4),))
    table = (
        Row("halves", ([[0.0, LOG_3, 5, 4]],), {}, [[0, 3 * LOG_3]], [[2, 4]],
            ([[5, 12 + 3 * LOG_3, 0, 3 * LOG_3]],)),
        Row("axis", ([[LOG_3], [4]],), {"axis": 0}, [[3 * LOG_3]], [[4]], ([[12 + 3 * LOG_3], [3 * LOG_3]],)),
    )
    errors = (
        Bad("odd", ((2, 5),), {}, "data has shape (2, 5); channels 5 is not divisible by 2. Give the gate and the"),
        Bad("axis", ((2, 4),), {"axis": 2}, "axis 2 is out of range for data of 2 dimensions"),
        Bad("integers", ((2, 4),), {}, "data has dtype int32; expected float16, float32, float64", ("int32",)),
    )
    texts = {"axis": ["-1", "0", "1", "-3"]}
    determined = (({"output": (2, 3)}, {}, {"data": (2, 6), "output": (2, 3)}),)


def test_block(rng):
    data = mx.nd.array(rng.randn(2, 6, 5))
    block = gops.nn.SwiGLU(axis=1)
    block.hybridize()
    np.testing.assert_array_equal(block(data).asnumpy(), gops.ops.swiglu(data, axis=1).asnumpy())
    assert repr(block) == "SwiGLU(axis=1)"
    with pytest.raises(gops.OpError, match="expected an integer"):
        gops.nn.SwiGLU("last")
