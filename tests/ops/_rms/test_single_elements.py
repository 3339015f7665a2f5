"""Rows of one element, whose gradients would cancel."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from in_turn import in_turn
from op_suite import recorded


@pytest.mark.parametrize("backend", ["native", "cuda", "reference"], indirect=True)
@in_turn("name", ["rms_norm", "l2_normalize"])
@in_turn("shape, axis", [((7, 1), -1), ((3, 1, 5), 1)])
@in_turn("eps", [1e-12, 1e-6, 0.1])
def test_rows_of_one_element(backend, name, shape, axis, eps, rng):
    """What is left of the gradient is eps / (square + eps) of it; a difference of rounded numbers is not."""
    data, head = (rng.randn(*shape).astype("float32") for _ in range(2))
    scale = np.float32([1.7])
    with gops.backend(backend):
        _, by_data = recorded(getattr(gops.ops, name), data, scale, head=mx.nd.array(head), axis=axis, eps=eps)
    wide = data.astype("float64")
    expected = head.astype("float64") * float(scale[0]) * eps * (wide * wide + eps) ** -1.5
    np.testing.assert_allclose(by_data, expected, rtol=1e-5)
