import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from in_turn import in_turn
from op_suite import Bad, Case, OpSuite, Row, recorded

LOG_3 = np.log(3)


class TestDiceLoss(OpSuite):
    name = "dice_loss"
    cases = (
        Case("maps", ((2, 3, 4, 5), (2, 4, 5))),
        Case("more", ((1, 5, 1, 7), (1, 1, 7))),
        Case("plain", ((2, 3, 5), (2, 5)), {"squared": False, "smooth": 1}),
        Case("ignore", ((2, 4, 11), (2, 11)), {"ignore_label": 255}),
        Case("rows", ((3, 5), (3,)), {"ignore_label": 1}),
        Case("blocks", ((1, 2, 1031), (1, 1031))),
    )
    empty = Case("empty", ((0, 3, 4), (0, 4)))
    # The probabilities are (3/4, 1/4) and (1/2, 1/2), the labels 0 and 1: the sums of class 0 are 3/4 and 13/16 + 1,
    # those of class 1 are 1/2 and 5/16 + 1. With squared=False class 0 has 3/4 and 5/4 + 1.
    table = (
        Row("two_places", ([[[LOG_3, 0], [0, 0]]], [[0, 1]]), {"smooth": 1}, [[1 - 2.5 / 2.8125, 1 - 2 / 2.3125]],
            [[0, 0]], ([[[0, 0], [0, 0]]], None)),
        # A place with two classes and probabilities of 1/2: the loss of class 0 is 1 - 2 / (1/4 + 2). The gradients of
        # the probabilities are g * (2 / (9/4)^2 - 2 / (9/4)) = -g * 40/81 and 0; those of the logits a quarter of them.
        Row("gradient", ([[[0.0], [0]]], [[0]]), {"smooth": 1}, [[1 / 9, 1 - 1 / 1.25]], [[81, 0]],
            ([[[-10], [10]]], None)),
        Row("plain", ([[[LOG_3, 0], [0, 0]]], [[0, 9]]), {"squared": False, "smooth": 1, "ignore_label": 9},
            [[1 - 2.5 / 2.75, 1 - 1 / 1.25]], [[0, 0]], ([[[0, 0], [0, 0]]], None)),
    )
    errors = (
        Bad("label", ((4, 3, 5), (4, 6)), {},
            "label has shape (4, 6); expected (4, 5) to match data of shape (4, 3, 5)", first=False),
        Bad("vector", ((4,), (4,)), {}, "data has shape (4,); expected 2 dimensions (batch, classes)", first=False),
        Bad("smooth", ((4, 3, 5), (4, 5)), {"smooth": 0}, "expected a finite number of at least 1e-07 and below"),
        Bad("integers", ((4, 3, 5), (4, 5)), {}, "data has dtype int32; expected float16, float32, float64",
            ("int32", "float32")),
    )
    texts = {"smooth": ["1", "1e-8"], "squared": ["0", "maybe"], "ignore_label": ["255"]}
    determined = (({"data": (2, 3, 5)}, {}, {
        "data": (2, 3, 5), "label": (2, 5), "output": (2, 3), "intersection": (2, 3), "total": (2, 3), "max": (2, 5),
        "log_sum": (2, 5)}),)


@pytest.mark.parametrize("backend", ["native", "cuda", "reference", "builtin"], indirect=True)
def test_what_an_ignored_place_holds_and_an_invalid_label(backend, monkeypatch):
    """NaN at an ignored place changes nothing; a label out of range makes its sample NaN, and no other."""
    monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "0")
    data, label = np.zeros((2, 3, 4), "float32"), np.array([[0, 1, 2, 9], [0, 1, 2, 1]], "float32")
    data[0, :, 3] = np.nan
    with gops.backend(backend):
        loss, gradient = recorded(gops.ops.dice_loss, data, label, ignore_label=9, smooth=1.0)
    # Three places with probabilities of 1/3: 1 - (2/3 + 1) / (1/3 + 1 + 1).
    np.testing.assert_allclose(loss[0], 2 / 7, rtol=1e-6)
    assert np.isfinite(gradient).all() and not gradient[0, :, 3].any()
    label[0, 1] = 3
    with gops.backend(backend):
        loss, gradient = recorded(gops.ops.dice_loss, data, label, ignore_label=9, smooth=1.0)
    assert np.isnan(loss[0]).all() and np.isfinite(loss[1]).all()
    assert np.isnan(gradient[0, :, :3]).all() and np.isfinite(gradient[1]).all()


@in_turn("attrs", [{}, {"squared": False}, {"ignore_label": 9}])
@in_turn("logit", [5.0, 7.0, 30.0])
def test_a_small_total_in_a_float16_graph_of_unknown_types(attrs, logit):
    """Class 1 has a total near 0, whose square is 0 in float16. The last place is ignored, or like the others."""
    suite, case = TestDiceLoss(), Case("absent", ((1, 2, 3), (1, 3)), attrs)
    data = np.array([[[logit] * 3, [-logit, -logit - 1, -logit]]], "float16")
    label = np.zeros((1, 3), "float16")
    label[0, 2] = attrs.get("ignore_label", 0)
    data[0, 1, 2] = logit if "ignore_label" in attrs else -logit
    head = np.ones((1, 2))
    gradient = suite.run(case, [data, label], head, "builtin", "reloaded")[1]["data"]
    expected = suite.expected(case, [data, label], head)[1]["data"]
    np.testing.assert_allclose(gradient, expected, rtol=0.01, atol=1.5e-7)


def test_block(rng):
    pred, label = mx.nd.array(rng.randn(2, 3, 4, 5)), mx.nd.array(rng.randint(0, 3, (2, 4, 5)))
    loss = gops.loss.DiceLoss(smooth=1, weight=0.5)
    classes = gops.ops.dice_loss(pred, label, smooth=1).asnumpy()
    np.testing.assert_allclose(loss(pred, label).asnumpy(), 0.5 * classes.mean(1), rtol=1e-6)
    without_background = loss(pred, label, mx.nd.array([[0, 1, 1]])).asnumpy()
    np.testing.assert_allclose(without_background, 0.5 * classes[:, 1:].sum(1) / 3, rtol=1e-6)
    assert repr(loss) == "DiceLoss(smooth=1.0, squared=True, ignore_label=None, weight=0.5, activation=softmax)"
    with pytest.raises(gops.OpError, match="smooth is 0"):
        gops.loss.DiceLoss(0)
    with pytest.raises(gops.OpError, match=r"label\[0, 0, 0\] is 3"):
        loss(pred, label * 0 + 3)


@in_turn("squared", [True, False])
def test_masks_of_sigmoids(squared, rng):
    """Each mask alone has MONAI's DiceLoss(sigmoid=True), also in a net, where shapes are not known."""
    pred, label = rng.randn(2, 3, 4, 5), rng.randint(0, 2, (2, 3, 4, 5)).astype("float64")
    head = rng.randn(2)
    loss = gops.loss.DiceLoss(smooth=0.5, squared=squared, activation="sigmoid", weight=2, ignore_label=9)
    label[0, 1, 2, 3], pred[0, 1, 2, 3] = 9, np.nan

    def composed(logits):
        counts = label != 9
        p = np.where(counts, 1 / (1 + np.exp(-logits)), 0)
        target = np.where(counts, label, 0)
        total = ((p ** 2 if squared else p) + target).sum((2, 3))
        return 2 * (1 - (2 * (p * target).sum((2, 3)) + 0.5) / (total + 0.5)).mean(1)

    for hybridize in (False, True):
        loss.hybridize(hybridize)
        output, gradient = recorded(lambda x: loss(x, mx.nd.array(label)), pred,
                                    head=mx.nd.array(head, dtype="float64"))
        np.testing.assert_allclose(output, composed(pred), rtol=1e-10)
        assert gradient[0, 1, 2, 3] == 0
        for place in ((0, 0, 0, 0), (0, 1, 3, 4), (1, 2, 1, 3)):
            step = np.zeros_like(pred)
            step[place] = 1e-5
            slope = ((composed(pred + step) - composed(pred - step)) * head).sum() / 2e-5
            np.testing.assert_allclose(gradient[place], slope, rtol=1e-6)
    with pytest.raises(gops.OpError, match=r"label has shape \(2, 4, 5\) and pred \(2, 3, 4, 5\)"):
        loss(mx.nd.array(pred), mx.nd.zeros((2, 4, 5)))
    with pytest.raises(gops.OpError, match="activation is 'tanh'; expected 'softmax' or 'sigmoid'"):
        gops.loss.DiceLoss(activation="tanh")
