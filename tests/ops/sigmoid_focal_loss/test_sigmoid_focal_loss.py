"""sigmoid_focal_loss against torchvision's formula, at logits where a naive one fails."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.contract import registry
from in_turn import in_turn
from op_suite import CUSTOM, Bad, Case, OpSuite, Row, recorded
from ops.sigmoid_focal_loss import oracle


class TestSigmoidFocalLoss(OpSuite):
    name = "sigmoid_focal_loss"
    undefined = ("inf", "-inf", "max")   # 0 * infinity, which head * loss may be in MXNet's derivative of a product
    cases = (
        Case("matrix", ((3, 5), (3, 5))),
        Case("more", ((4, 37), (4, 37))),
        Case("ignore", ((7, 149), (7, 149)), {"ignore_label": -1, "gamma": 1.5}),
        Case("cross_entropy", ((11,), (11,)), {"alpha": -1, "gamma": 0}),
        Case("small_gamma", ((2, 1, 7), (2, 1, 7)), {"alpha": 1, "gamma": 0.5}),
    )
    empty = Case("empty", ((0, 3), (0, 3)))
    # p is 3/4: error^2 times log(4 / 3) or log(4), and the derivative by the logit.
    table = (
        Row("hard", ([[np.log(3), np.log(3)]], [[1, 0]]), {}, [[np.log(4 / 3) / 64, 27 / 64 * np.log(4)]], [[1, 1]],
            ([[-(1 / 4 + 3 / 2 * np.log(4 / 3)) / 64, 27 / 64 * (3 / 4 + np.log(4) / 2)]], [[0, 0]])),
        Row("plain", ([[0, 0]], [[1, 9]]), {"alpha": -1, "gamma": 1, "ignore_label": 9}, [[np.log(2) / 2, 0]], [[4, 4]],
            ([[-1 - np.log(2), 0]], None)),
    )
    errors = (
        Bad("label", ((4, 3), (4, 2)), {}, "label has shape (4, 2); expected (4, 3) to match data of shape (4, 3)",
            first=False),
        Bad("alpha", ((4, 3), (4, 3)), {"alpha": 1.5}, "alpha is above 1; expected at most 1"),
        Bad("gamma", ((4, 3), (4, 3)), {"gamma": -1}, "expected a finite number of at least 0"),
    )
    texts = {"alpha": ["-1", "1", "1.5", "-2"]}
    determined = (
        ({"data": (2, 3)}, {}, {"data": (2, 3), "label": (2, 3), "output": (2, 3)}),
    )

    def amplification(self, attrs, backend, *inputs):
        return self.output_amplification(attrs)

    def output_amplification(self, attrs, *inputs):
        """The power multiplies the relative error of 1 - p, which is rounded."""
        return max(1.0, attrs.gamma)


@in_turn("gamma", [0, 0.5, 2])
@pytest.mark.parametrize("backend", [CUSTOM, "reference", "native", "builtin", "cuda"], indirect=True)
def test_extreme_logits(backend, gamma):
    data = np.repeat(np.array([-3e38, -1e4, -100, -80, -20, -1e-3, 0, 1e-3, 20, 80, 100, 1e4, 3e38], "f"), 3)
    label = np.tile(np.array([0, 0.25, 1], "f"), 13)
    head = np.full(39, 0.25, "f")   # 3e38 times more is infinite
    with gops.backend(backend):
        loss, gradient = recorded(gops.ops.sigmoid_focal_loss, data, label, head=mx.nd.array(head), gamma=gamma)
    attrs = registry.get("sigmoid_focal_loss").op.parse({"gamma": gamma})
    wide = data.astype("f8")
    np.testing.assert_allclose(loss, oracle.forward(attrs, wide, label)["output"], rtol=1e-5, atol=1e-9)
    expected = oracle.backward(attrs, head, wide, label)["data"]
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-9)


def test_block():
    """It returns the mean over a sample, weighted as gluon's losses are."""
    rng = np.random.RandomState(0)
    pred, label = mx.nd.array(rng.randn(2, 5, 3)), mx.nd.array(rng.randint(0, 2, (2, 5, 3)))
    terms = gops.ops.sigmoid_focal_loss(pred, label).asnumpy()
    loss = gops.loss.SigmoidFocalLoss(weight=2)
    loss.hybridize()
    np.testing.assert_allclose(loss(pred, label).asnumpy(), 2 * terms.mean((1, 2)), rtol=1e-5)
    loss = gops.loss.SigmoidFocalLoss(weight=2)
    mask = np.array([[[1.0]], [[0.5]]])
    output = loss(pred, label, mx.nd.array(mask)).asnumpy()
    np.testing.assert_allclose(output, 2 * (mask * terms).mean((1, 2)), rtol=1e-5)
    assert repr(loss) == "SigmoidFocalLoss(alpha=0.25, gamma=2.0, weight=2, batch_axis=0, ignore_label=None)"
    with pytest.raises(gops.OpError, match="alpha is above 1"):
        gops.loss.SigmoidFocalLoss(alpha=2)
