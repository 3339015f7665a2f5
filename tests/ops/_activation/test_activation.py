"""The activations where numbers are large, small, or none."""
import math

import gluonops as gops
import mxnet as mx
import numpy as np
import oracles
import pytest
from in_turn import in_turn
from op_suite import recorded

ACTIVATIONS = [("mish", {}), ("swish", {}), ("swish", {"beta": 30.0}), ("hard_swish", {}), ("gelu", {}),
               ("gelu", {"approximation": "tanh"})]
LARGEST = {"float16": 65504, "float32": 3.4e38, "float64": 1.7e308}


@pytest.mark.parametrize("backend", ["native", "reference", "builtin", "cuda"], indirect=True)
@in_turn("name, attrs", ACTIVATIONS)
def test_every_size_of_numbers(name, attrs, backend):
    """Nothing overflows, the slopes at the ends are 0 and 1, and NaN stays where it is."""
    typed, oracle = gops.contract.registry.get(name).op.parse(attrs), oracles.get(name)
    for dtype, largest in LARGEST.items():
        data = np.array([-largest, -1e3, -100, -9, -1e-7, -0.0, 0, 1e-7, 9, 100, 1e3, largest, np.nan], dtype)
        with gops.backend(backend):
            output, gradient = recorded(getattr(gops.ops, name), data, **attrs)
        with np.errstate(all="ignore"):
            expected = oracle.forward(typed, data.astype("float64"))["output"]
            slope = oracle.backward(typed, 1.0, data.astype("float64"))["data"]
        tolerance = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-14}[dtype]
        np.testing.assert_allclose(output, expected, tolerance, tolerance)
        np.testing.assert_allclose(gradient[:-1], slope[:-1], tolerance, tolerance)
        if backend != "builtin":
            assert np.isnan(gradient[-1])


@pytest.mark.parametrize("backend", ["native", "cuda"], indirect=True)
@in_turn("dtype, tolerance", [("float32", 5e-6), ("float64", 1e-14)])
def test_gelu_keeps_its_digits_below_zero(backend, dtype, tolerance):
    """The formula is x erfc(-x / sqrt(2)) / 2; 1 + erf is off by 3 % at -8 in float64."""
    data = np.linspace(-8, 8, 1601).astype(dtype)
    with gops.backend(backend):
        output, _ = recorded(gops.ops.gelu, data)
    expected = [x / 2 * math.erfc(-x / math.sqrt(2)) for x in data.astype("float64")]
    np.testing.assert_allclose(output, expected, tolerance * 10, 0)


@in_turn("block, text", [
    (gops.nn.Mish(), "Mish()"), (gops.nn.HardSwish(), "HardSwish()"), (gops.nn.Swish(2.0), "Swish(beta=2.0)"),
    (gops.nn.GELU("tanh"), "GELU(approximation=tanh)"),
])
def test_blocks(block, text, rng):
    data = mx.nd.array(rng.randn(3, 4))
    block.hybridize()
    name = text.split("(")[0]
    function = {"Mish": gops.ops.mish, "HardSwish": gops.ops.hard_swish, "Swish": lambda x: gops.ops.swish(x, 2.0),
                "GELU": lambda x: gops.ops.gelu(x, "tanh")}[name]
    np.testing.assert_array_equal(block(data).asnumpy(), function(data).asnumpy())
    assert repr(block) == text


@in_turn("make", [lambda: gops.nn.Swish(-1.0), lambda: gops.nn.GELU("none")])
def test_blocks_refuse_attributes(make):
    with pytest.raises(gops.OpError, match="expected"):
        make()
