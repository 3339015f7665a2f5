"""sigmoid_cross_entropy against torch's formula, at logits where a naive one fails."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.contract import registry
from op_suite import CUSTOM, Bad, Case, OpSuite, Row, recorded
from ops.sigmoid_cross_entropy import oracle

WEIGHTS = (0.5, 2, 0, 1, 7)


class TestSigmoidCrossEntropy(OpSuite):
    name = "sigmoid_cross_entropy"
    undefined = ("inf", "-inf")   # 0 * infinity
    cases = (
        Case("matrix", ((3, 5), (3, 5))),
        Case("more", ((1, 37), (1, 37))),
        Case("weights", ((7, 5), (7, 5)), {"pos_weight": WEIGHTS, "ignore_label": -1}),
        Case("channels", ((2, 5, 3, 7), (2, 5, 3, 7)), {"pos_weight": WEIGHTS, "axis": 1, "ignore_label": 255}),
        Case("one_weight", ((149,), (149,)), {"pos_weight": 3}),
    )
    empty = Case("empty", ((0, 3), (0, 3)))
    table = (
        Row("hard", ([[0, np.log(3)]], [[1, 0]]), {}, [[np.log(2), np.log(4)]], [[2, 4]], ([[-1, 3]], [[0, 0]])),
        Row("soft", ([[np.log(3), np.log(3)]], [[0.5, 9]]), {"pos_weight": (3, 1), "ignore_label": 9},
            [[1.5 * np.log(4 / 3) + 0.5 * np.log(4), 0]], [[1, 1]], ([[0, 0]], None)),
    )
    errors = (
        Bad("label", ((4, 3), (4, 2)), {}, "label has shape (4, 2); expected (4, 3) to match data of shape (4, 3)",
            first=False),
        Bad("weights", ((4, 3), (4, 3)), {"pos_weight": (1.0, 2.0)},
            "pos_weight has 2 numbers; expected 3, one for each of the classes. Pass another pos_weight"),
        Bad("dtype", ((4, 3), (4, 3)), {}, "label has dtype float64; expected float32, the dtype of data",
            ("float32", "float64")),
    )
    texts = {"pos_weight": ["(1, 2, 0, 3, 0.5)", "(1, 2)"]}
    determined = (
        ({"data": (2, 3)}, {}, {"data": (2, 3), "label": (2, 3), "output": (2, 3)}),
    )


@pytest.mark.parametrize("backend", [CUSTOM, "native", "builtin", "cuda"], indirect=True)
def test_extreme_logits(backend):
    """Loss and gradient of hard labels keep their digits, also where they are tiny."""
    data = np.repeat(np.array([-1e4, -100, -80, -20, -1e-3, 0, 1e-3, 20, 80, 100, 1e4], "f"), 2)
    label = np.tile(np.array([0, 1], "f"), 11)
    with gops.backend(backend):
        loss, gradient = recorded(gops.ops.sigmoid_cross_entropy, data, label)
    attrs = registry.get("sigmoid_cross_entropy").op.parse({})
    wide = data.astype("f8")
    np.testing.assert_allclose(loss, oracle.forward(attrs, wide, label)["output"], rtol=2e-6, atol=1e-37)
    expected = oracle.backward(attrs, np.ones(22), wide, label)["data"]
    np.testing.assert_allclose(gradient, expected, rtol=2e-6, atol=1e-37)


@pytest.mark.parametrize("backend", [CUSTOM, "native", "builtin", "cuda"], indirect=True)
def test_what_an_ignored_element_holds_does_not_matter(backend):
    data = np.array([[np.nan, 0], [np.inf, 0]], "f")
    with gops.backend(backend):
        loss, gradient = recorded(gops.ops.sigmoid_cross_entropy, data, np.array([[9, 1], [9, 9]], "f"), ignore_label=9)
    np.testing.assert_allclose(loss, [[0, np.log(2)], [0, 0]], rtol=1e-6)
    np.testing.assert_allclose(gradient, [[0, -0.5], [0, 0]], rtol=1e-6)


def test_block():
    rng = np.random.RandomState(0)
    pred, label = mx.nd.array(rng.randn(2, 5, 3)), mx.nd.array(rng.rand(2, 5, 3))
    loss = gops.loss.SigmoidCELoss(axis=1, pos_weight=WEIGHTS, weight=2)
    loss.hybridize()
    mask = mx.nd.array([[[1.0]], [[0.5]]])
    terms = gops.ops.sigmoid_cross_entropy(pred, label, axis=1, pos_weight=WEIGHTS).asnumpy()
    np.testing.assert_allclose(loss(pred, label, mask).asnumpy(), 2 * (terms * mask.asnumpy()).mean(axis=(1, 2)),
                               rtol=1e-5)
    assert repr(loss) == ("SigmoidCELoss(axis=1, pos_weight=(0.5, 2.0, 0.0, 1.0, 7.0), weight=2, batch_axis=0, "
                          "ignore_label=None)")


def test_gluons_loss(rng):
    """The numbers are those of gluon.loss.SigmoidBinaryCrossEntropyLoss."""
    pred, label = mx.nd.array(rng.randn(4, 5)), mx.nd.array(rng.randint(0, 2, (4, 5)))
    theirs = mx.gluon.loss.SigmoidBinaryCrossEntropyLoss()(pred, label, None, mx.nd.array([WEIGHTS]))
    ours = gops.loss.SigmoidCELoss(pos_weight=WEIGHTS)(pred, label)
    np.testing.assert_allclose(ours.asnumpy(), theirs.asnumpy(), rtol=1e-5)
