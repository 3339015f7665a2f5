import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from in_turn import in_turn
from op_suite import CUSTOM, Bad, Case, OpSuite, Row
from ops._softmax.oracle import softmax


class TestSoftmax(OpSuite):
    name = "softmax"
    cases = (
        Case("rows", ((3, 5),)),
        Case("vector", ((7,),)),
        Case("rank_4", ((2, 3, 2, 5),)),
        Case("one_class", ((4, 1),)),
        Case("channels", ((2, 5, 3, 7),), {"axis": 1}),
        Case("first_axis", ((5, 3),), {"axis": 0}),
        Case("warm", ((3, 5),), {"temperature": 2.5}),
        Case("cold", ((3, 5),), {"temperature": 0.25, "axis": -2}),
        Case("many_rows", ((1031, 3),)),
        Case("many_classes", ((3, 1031),)),
    )
    empty = Case("empty", ((0, 3),))
    table = (
        Row("even", ([[0, 0], [np.log(3), 0]],), {}, [[0.5, 0.5], [0.75, 0.25]], [[1, 0], [1, 0]],
            ([[0.25, -0.25], [0.1875, -0.1875]],)),
        Row("temperature", ([[2 * np.log(3), 0]],), {"temperature": 2}, [[0.75, 0.25]], [[1, 0]],
            ([[0.09375, -0.09375]],)),
    )
    errors = (
        Bad("axis", ((2, 3),), {"axis": 2},
            "axis 2 is out of range for data of 2 dimensions. Choose an axis from -2 to 1."),
        Bad("temperature", ((2, 3),), {"temperature": 0}, "expected a finite number above 0"),
        Bad("nan", ((2, 3),), {"temperature": "nan"}, "temperature is 'nan'"),
        Bad("integers", ((2, 3),), {}, "data has dtype int32; expected float16, float32, float64", ("int32",)),
    )
    texts = {"axis": ["1", " -1", "٠"],
             "temperature": ["1", "1e-310", ".5", "5.", "inf", "nan", "-1", "0", "0x1p3", "1_000.5", "1e999", "",
                             "+2", "٢", "9" * 198, "x" * 198, "x" * 199, "x" * 5000, "\u732b" * 300]}
    determined = (({"output": (2, 3)}, {}, {"data": (2, 3), "output": (2, 3)}),)

    def amplification(self, attrs, backend, *inputs):
        return max(1.0, 1 / attrs.temperature)


@pytest.mark.parametrize("backend", [CUSTOM, "native", "builtin", "cuda"], indirect=True)
@in_turn("dtype", ["float16", "float32", "float64"])
def test_many_equal_classes(backend, dtype):
    """MXNet's own softmax gives twice this in float16: its sum sticks at 2,048."""
    with gops.backend(backend):
        output = gops.ops.softmax(mx.nd.ones((2, 4096), dtype=dtype)).asnumpy()
    np.testing.assert_allclose(output, 1 / 4096, rtol=1e-3)


@pytest.mark.parametrize("backend", [CUSTOM, "native", "builtin", "cuda"], indirect=True)
def test_large_logits(backend):
    with gops.backend(backend):
        output = gops.ops.softmax(mx.nd.array([[1e4, 1e4 - np.log(3), -1e4]])).asnumpy()
    np.testing.assert_allclose(output, softmax(np.array([[1e4, 1e4 - np.log(3), -1e4]], "f"), -1), rtol=1e-3)
