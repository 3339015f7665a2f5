import functools

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from op_suite import Bad, Case, OpSuite, Row, recorded

NAN, INFINITY = float("nan"), float("inf")


class TestOHEM(OpSuite):
    name = "ohem"
    exact = True
    cases = (
        Case("ratio", ((3, 7),)),
        Case("vector", ((11,),)),
        Case("keep", ((2, 3, 4, 5),), {"keep": 9}),
        Case("per_sample", ((3, 2, 13),), {"keep": 3, "per_sample": True}),
        Case("threshold", ((4, 9),), {"ratio": 0.1, "threshold": 1, "per_sample": True}),
        Case("everything", ((2, 5),), {"keep": 99}),
        Case("blocks", ((1, 33001),), {"ratio": 0.3}),
    )
    empty = Case("empty", ((0, 3),), {"per_sample": True})
    table = (
        # 6 losses count, of which ceil(0.25 * 6) = 2 are kept.
        Row("ratio", ([0, 3, 1, 0, 5, 2, 4, 0.5],), {}, [0, 0, 0, 0, 5, 0, 4, 0], [1, 2, 3, 4, 5, 6, 7, 8],
            ([0, 0, 0, 0, 5, 0, 7, 0],)),
        Row("the_first_of_equal_ones", ([[1, 2, 2], [3, 2, 1]],), {"keep": 2}, [[0, 2, 0], [3, 0, 0]],
            [[1, 2, 3], [4, 5, 6]], ([[0, 2, 0], [4, 0, 0]],)),
        Row("per_sample", ([[1, 2, 2], [3, 2, 1]],), {"keep": 2, "per_sample": True}, [[0, 2, 2], [3, 2, 0]],
            [[1, 2, 3], [4, 5, 6]], ([[0, 2, 3], [4, 5, 0]],)),
        Row("threshold", ([1, 2, 3, 4],), {"keep": 1, "threshold": 1.5}, [0, 2, 3, 4], [1, 1, 1, 1], ([0, 1, 1, 1],)),
        Row("at_the_threshold", ([1, 2, 3],), {"keep": 1, "threshold": 2}, [0, 0, 3], [1, 1, 1], ([0, 0, 1],)),
        Row("no_more_than_count", ([0, 1, 0, -2],), {"keep": 3}, [0, 1, 0, -2], [1, 1, 1, 1], ([0, 1, 0, 1],)),
        Row("none", ([0, 0],), {}, [0, 0], [1, 1], ([0, 0],)),
        Row("none_wanted", ([1, 2],), {"ratio": 0}, [0, 0], [1, 1], ([0, 0],)),
        Row("nan_is_infinite", ([1, INFINITY, NAN, INFINITY, -INFINITY],), {"keep": 2}, [0, INFINITY, NAN, 0, 0],
            [1, 2, NAN, NAN, NAN], ([0, 2, NAN, 0, 0],)),
        Row("ordered_as_numbers", ([-1, -INFINITY, -3, 1e-30, -2],), {"keep": 4}, [-1, 0, -3, 1e-30, -2],
            [1, 1, 1, 1, 1], ([1, 0, 1, 1, 1],)),
    )
    errors = (
        Bad("ratio", ((4, 3),), {"ratio": 1.5}, "ratio is above 1; expected a number from 0 to 1. Pass a fraction"),
        Bad("keep", ((4, 3),), {"keep": -1}, "expected None or an integer of at least 0"),
        Bad("integers", ((4, 3),), {}, "data has dtype int32; expected float16, float32, float64", ("int32",)),
    )
    texts = {"ratio": ["5e-324", "-1e-310", "3e-308", "-3e-308"]}
    determined = (({"data": (2, 3)}, {}, {"data": (2, 3), "output": (2, 3)}),)


@pytest.mark.parametrize("backend", ["native", "cuda", "reference", "builtin"], indirect=True)
def test_many_equal_losses(backend):
    """The first of all are kept; some blocks have none of them."""
    losses = np.tile(np.array([1, 2, 0, 2], "float32"), 9000)
    losses[:17000] = 1
    kept = np.flatnonzero(losses == 2)[:501]
    for _ in range(2):   # the second time with what the first one has left
        with gops.backend(backend):
            output, gradient = recorded(gops.ops.ohem, losses, keep=501)
        np.testing.assert_array_equal(np.flatnonzero(output), kept)
        np.testing.assert_array_equal(np.flatnonzero(gradient), kept)


class TestBlock:
    def test_of_places(self, rng):
        """The mean over the batch is the mean of the kept losses."""
        pred, label = mx.nd.array(rng.randn(3, 4, 5, 6)), mx.nd.array(rng.randint(0, 4, (3, 5, 6)))
        places = functools.partial(gops.ops.softmax_cross_entropy, axis=1, ignore_label=0)
        losses = places(pred, label).asnumpy().reshape(-1)
        hardest = np.sort(losses)[-8:].mean()
        loss = gops.loss.OHEM(places, keep=8)
        for hybridize in (False, True):
            loss.hybridize(hybridize)
            values = loss(pred, label)
            assert values.shape == (3,)
            np.testing.assert_allclose(values.asnumpy().mean(), hardest, rtol=1e-6)

    def test_of_samples(self, rng):
        """It takes a loss block of the house, and each sample for itself."""
        pred, label = mx.nd.array(rng.randn(4, 3)), mx.nd.array([0, 1, 2, 0])
        samples = gops.loss.SoftmaxCELoss()(pred, label).asnumpy()
        loss = gops.loss.OHEM(gops.loss.SoftmaxCELoss(), ratio=0.5)
        expected = np.where(samples >= np.sort(samples)[-2], samples, 0) * 4 / 2
        np.testing.assert_allclose(loss(pred, label).asnumpy(), expected, rtol=1e-6)
        rows = mx.nd.array([[1, 3, 2], [0, 0, 0], [5, 0, 0], [1, 1, 1]])
        each = gops.loss.OHEM(lambda losses: losses, keep=2, per_sample=True)
        np.testing.assert_allclose(each(rows).asnumpy(), [2.5, 0, 5, 1])

    def test_repr_and_refusal(self):
        loss = gops.loss.OHEM(gops.loss.SoftmaxFocalLoss(axis=1), 5, threshold=1)
        assert repr(loss) == (f"OHEM(loss={loss._loss!r}, keep=5, ratio=0.25, threshold=1.0, per_sample=False)")
        with pytest.raises(gops.OpError, match="ratio is above 1"):
            gops.loss.OHEM(gops.loss.SoftmaxCELoss(), ratio=2)
