import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from op_suite import Bad, Case, OpSuite, Row, recorded

LOG_3 = np.log(3)


class TestLovaszSoftmax(OpSuite):
    name = "lovasz_softmax"
    undefined = ("inf", "-inf", "nan", "max", "huge", "equal")   # no softmax; errors that only float64 tells apart
    cases = (
        Case("maps", ((2, 3, 4, 3), (2, 4, 3))),
        Case("more", ((1, 5, 1, 7), (1, 1, 7))),
        Case("per_sample", ((3, 4, 5), (3, 5)), {"per_sample": True}),
        Case("all_classes", ((2, 6, 5), (2, 5)), {"present_only": False, "class_weight": (1, 0, 2, 0.5, 1, 3)}),
        Case("ignore", ((2, 4, 11), (2, 11)), {"ignore_label": 255, "per_sample": True, "present_only": False}),
        Case("rows", ((9, 3), (9,)), {"ignore_label": 1, "class_weight": (1, 2, 3)}),
        Case("sorted_by_digits", ((2, 2, 311), (2, 311)), {"ignore_label": 255}),
    )
    empty = Case("empty", ((0, 3, 4), (0, 4)))
    table = (
        # The probabilities are (3/4, 1/4) and (1/2, 1/2), the labels 0 and 1. Class 0 has the errors 1/4 at its own
        # place and 1/2 at the other: both are worth 1/2. Class 1 has 1/2 at its own place, which is worth 1, and 1/4 at
        # the other, which is worth 0.
        Row("two_places", ([[[LOG_3, 0], [0, 0]]], [[0, 1]]), {}, [(0.25 * 0.5 + 0.5 * 0.5 + 0.5) / 2], [0],
            ([[[0, 0], [0, 0]]], None)),
        # One place: class 0 has the error 1/2, worth 1, and the gradient -1 by its probability. Absent classes add
        # their largest error. Weights count by their ratios, although float32 does not hold the sum of these.
        Row("one_place", ([[[0.0], [0]]], [[0]]), {}, [0.5], [8], ([[[-2], [2]]], None)),
        Row("absent", ([[[0.0], [0]]], [[0]]), {"present_only": False, "class_weight": (3e38,)}, [0.5], [8],
            ([[[-2], [2]]], None)),
        Row("none", ([[[0.0], [0]]], [[9]]), {"ignore_label": 9}, [0], [8], ([[[0], [0]]], None)),
        # Both samples have the loss of the batch, so the head gradients add up.
        Row("batch", ([[[0.0], [0]], [[0], [0]]], [[0], [9]]), {"ignore_label": 9}, [0.5, 0.5], [8, 4],
            ([[[-3], [3]], [[0], [0]]], None)),
        # The first of equal errors comes first: at both places class 0 has the error 1/2, which is worth 1 at its own
        # place and then 0. The class 1, with equal errors as well, has the place elsewhere first: 1/2 and 1/2.
        Row("ties", ([[[0.0, 0], [0, 0]]], [[0, 1]]), {}, [0.5], [16], ([[[-3, 1], [3, -1]]], None)),
    )
    errors = (
        Bad("label", ((4, 3, 5), (4, 6)), {},
            "label has shape (4, 6); expected (4, 5) to match data of shape (4, 3, 5)", first=False),
        Bad("vector", ((4,), (4,)), {}, "data has shape (4,); expected 2 dimensions (batch, classes)", first=False),
        Bad("weights", ((4, 3, 5), (4, 5)), {"class_weight": (1, 2)}, "class_weight has 2 numbers; expected 3"),
        Bad("integers", ((4, 3, 5), (4, 5)), {}, "data has dtype int32; expected float16, float32, float64",
            ("int32", "float32")),
    )
    determined = (({"data": (2, 3, 5)}, {}, {
        "data": (2, 3, 5), "label": (2, 5), "output": (2,), "derivative": (2, 3, 5)}),)


@pytest.mark.parametrize("backend", ["native", "reference", "builtin"], indirect=True)
def test_what_an_ignored_place_holds_and_an_invalid_label(backend, monkeypatch):
    """NaN at an ignored place changes nothing; a label out of range makes its selection NaN, and no other."""
    monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "0")
    data, label = np.zeros((2, 3, 4), "float32"), np.array([[0, 1, 2, 9], [0, 0, 0, 0]], "float32")
    data[0, :, 3] = np.nan
    options = {"ignore_label": 9, "per_sample": True}
    with gops.backend(backend):
        loss, gradient = recorded(gops.ops.lovasz_softmax, data, label, **options)
    # Errors of 2/3 at the own place and of 1/3 at two others: worth 1 and 0. The other sample has 2/3 alone.
    np.testing.assert_allclose(loss, [2 / 3, 2 / 3], rtol=1e-6)
    assert np.isfinite(gradient).all() and not gradient[0, :, 3].any()
    label[0, 1] = 3
    with gops.backend(backend):
        loss, gradient = recorded(gops.ops.lovasz_softmax, data, label, **options)
        whole, _ = recorded(gops.ops.lovasz_softmax, data, label, ignore_label=9)
    assert np.isnan(loss[0]) and np.isfinite(loss[1]) and np.isnan(whole).all()
    assert np.isnan(gradient[0, :, :3]).all() and not gradient[0, :, 3].any() and np.isfinite(gradient[1]).all()


def test_steps_do_not_cancel_out(rng):
    """A hundred thousand places in float32: every gradient is as exact as the number of a place allows."""
    data, label = rng.randn(1, 2, 100003).astype("float32"), rng.randint(0, 2, (1, 100003)).astype("float32")
    with gops.backend("native"):
        _, gradient = recorded(gops.ops.lovasz_softmax, data, label)
        _, exact = recorded(gops.ops.lovasz_softmax, data.astype("float64"), label)
    same_order = np.abs(gradient / exact - 1) < 1e-4
    assert same_order.mean() > 0.999   # errors that float32 does not tell apart change places


def test_block(rng):
    pred, label = mx.nd.array(rng.randn(2, 3, 4, 5)), mx.nd.array(rng.randint(0, 3, (2, 4, 5)))
    loss = gops.loss.LovaszSoftmaxLoss(per_sample=True, class_weight=[1, 2, 3], weight=0.5)
    losses = gops.ops.lovasz_softmax(pred, label, per_sample=True, class_weight=(1, 2, 3)).asnumpy()
    np.testing.assert_allclose(loss(pred, label).asnumpy(), 0.5 * losses, rtol=1e-6)
    np.testing.assert_allclose(loss(pred, label, mx.nd.array([0, 1])).asnumpy(), [0, 0.5 * losses[1]], rtol=1e-6)
    assert repr(loss) == ("LovaszSoftmaxLoss(per_sample=True, present_only=True, ignore_label=None, "
                          "class_weight=(1.0, 2.0, 3.0), weight=0.5)")
    with pytest.raises(gops.OpError, match="class_weight is"):
        gops.loss.LovaszSoftmaxLoss(class_weight=-1)
    with pytest.raises(gops.OpError, match=r"label\[0, 0, 0\] is 3"):
        loss(pred, label * 0 + 3)
