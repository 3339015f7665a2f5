"""softmax_focal_loss against the paper's formula, at logits where a naive formula fails."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.contract import registry
from op_suite import Bad, Case, OpSuite, Row, recorded
from ops.softmax_focal_loss import oracle

ALPHA = (0.5, 2, 0, 1, 0.25)


class TestSoftmaxFocalLoss(OpSuite):
    name = "softmax_focal_loss"
    cases = (
        Case("rows", ((3, 5), (3,))),
        Case("many_rows", ((1031, 3), (1031,))),
        Case("channels", ((2, 5, 3, 7), (2, 3, 7)), {"axis": 1, "alpha": ALPHA, "ignore_label": 255}),
        Case("kept_axis", ((3, 5), (3, 1)), {"gamma": 1, "alpha": 0.25}),
        Case("ignore", ((11, 5), (11,)), {"ignore_label": -1, "gamma": 0.5, "alpha": ALPHA}),
        Case("cross_entropy", ((1, 7), (1,)), {"gamma": 0}),
        Case("many_classes", ((3, 1031), (3,)), {"gamma": 3.5}),
    )
    empty = Case("empty", ((0, 3), (0,)))
    # p is 3/4 and 1/4: (1 - p)^2 * -log(p), and its derivative by the logit of the class.
    table = (
        Row("two", ([[np.log(3), 0], [np.log(3), 0]], [0, 1]), {}, [np.log(4 / 3) / 16, 9 / 16 * np.log(4)], [1, 2],
            ([[-(1 / 16 + 3 / 8 * np.log(4 / 3)) / 4, (1 / 16 + 3 / 8 * np.log(4 / 3)) / 4],
              [2 * (9 / 16 + 3 / 8 * np.log(4)) * 3 / 4, -2 * (9 / 16 + 3 / 8 * np.log(4)) * 3 / 4]], [0, 0])),
        Row("alpha", ([[0, 0], [0, 0]], [9, 1]), {"ignore_label": 9, "gamma": 1, "alpha": (1, 3)},
            [0, 1.5 * np.log(2)], [1, 1],
            ([[0, 0], [1.5 * (0.5 + 0.5 * np.log(2)), -1.5 * (0.5 + 0.5 * np.log(2))]], None)),
    )
    errors = (
        Bad("label", ((4, 3), (5,)), {}, "label has shape (5,); expected (4,) to match data of shape (4, 3)",
            first=False),
        Bad("vector", ((4,), (1,)), {"axis": 0}, "data has 1 dimension; expected at least 2: a batch of rows",
            first=False),
        Bad("gamma", ((4, 3), (4,)), {"gamma": -1}, "expected a finite number of at least 0"),
        Bad("alpha", ((4, 3), (4,)), {"alpha": (1.0, 2.0)},
            "alpha has 2 numbers; expected 3, one for each of the classes. Pass another alpha"),
    )
    texts = {"gamma": ["0", "-1", "inf"], "alpha": ["0.25", "(1, 2)"]}
    determined = (
        ({"data": (2, 3)}, {}, {"data": (2, 3), "label": (2,), "output": (2,), "max": (2,), "log_sum": (2,)}),
    )

    def amplification(self, attrs, backend, *inputs):
        return self.output_amplification(attrs)

    def output_amplification(self, attrs, *inputs):
        """The power multiplies the relative error of 1 - p, which is rounded."""
        return max(1.0, attrs.gamma)


@pytest.mark.parametrize("backend", ["custom", "native", "builtin", "cuda"], indirect=True)
class TestEdges:
    @pytest.mark.parametrize("gamma", [0, 0.5, 2])
    def test_extreme_probabilities(self, gamma, backend):
        """The results are float64's, from a p of 0 to a p of 1."""
        data = np.array([[1e4, -1e4, 0], [1e4, -1e4, 0], [-1e4, -1e4, 1 - 1e4], [40, 0, 0], [90, 0, 0], [120, 0, 0],
                         [-90, 0, 0]], "f")
        label = np.array([0, 1, 2, 0, 1, 1, 0], "f")
        with gops.backend(backend):
            loss, gradient = recorded(gops.ops.softmax_focal_loss, data, label, gamma=gamma)
        attrs = registry.get("softmax_focal_loss").op.parse({"gamma": gamma})
        wide = data.astype("f8")
        np.testing.assert_allclose(loss, oracle.forward(attrs, wide, label)["output"], rtol=2e-6, atol=1e-7)
        expected = oracle.backward(attrs, np.ones(7), wide, label)["data"]
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=5e-6)

    def test_an_impossible_class(self, backend):
        """A logit of -infinity at the class: the loss is infinite, and the gradient that of the cross-entropy."""
        with gops.backend(backend):
            loss, gradient = recorded(gops.ops.softmax_focal_loss, np.array([[-np.inf, 0, 0]], "f"), np.zeros(1, "f"))
        np.testing.assert_array_equal(loss, [np.inf])
        np.testing.assert_allclose(gradient, [[-1, 0.5, 0.5]], rtol=1e-6)

    def test_labels_that_do_not_count(self, backend, monkeypatch):
        monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "0")
        data = np.array([[np.nan, 1], [0, 0], [0, 0]], "f")
        with gops.backend(backend):
            loss, gradient = recorded(gops.ops.softmax_focal_loss, data, np.array([-1, 2, 0], "f"), ignore_label=-1)
        np.testing.assert_allclose(loss, [0, np.nan, np.log(2) / 4], rtol=1e-6)
        np.testing.assert_array_equal(gradient[0], [0, 0])
        assert np.isnan(gradient[1]).all() and np.isfinite(gradient[2]).all()


def test_block():
    """It returns the mean over the rows of a sample, weighted as gluon's losses are."""
    rng = np.random.RandomState(0)
    pred, label = mx.nd.array(rng.randn(2, 5, 3)), mx.nd.array([[0, 1, 2], [4, 3, 9]])
    loss = gops.loss.SoftmaxFocalLoss(axis=1, alpha=ALPHA, weight=2, ignore_label=9)
    loss.hybridize()
    rows = gops.ops.softmax_focal_loss(pred, label, axis=1, alpha=ALPHA, ignore_label=9).asnumpy()
    mask = mx.nd.array([[[1, 0, 1]], [[0, 1, 1]]])
    np.testing.assert_allclose(loss(pred, label, mask).asnumpy(), 2 * (rows * mask.asnumpy()[:, 0]).mean(axis=1),
                               rtol=1e-5)
    assert repr(loss) == ("SoftmaxFocalLoss(axis=1, gamma=2.0, alpha=(0.5, 2.0, 0.0, 1.0, 0.25), weight=2, "
                          "batch_axis=0, ignore_label=9)")
    with pytest.raises(gops.OpError, match="label has shape"):
        loss(pred, label[:1])
