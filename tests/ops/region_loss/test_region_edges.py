"""region_loss where data sets are untidy: borders, crowds, empty images, rows that are no boxes."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.contract import registry
from in_turn import in_turn
from mxnet import autograd
from op_suite import CUSTOM
from ops._region.oracle import split
from ops.region_loss import oracle

ANCHORS = (1.5, 0.5, 0.75, 2.0)
ATTRS = {"anchors": ANCHORS, "classes": 3, "warmup_images": 0}
BACKENDS = pytest.mark.parametrize("backend", [CUSTOM, "reference", "native", "builtin"], indirect=True)
BOX = (0.5, 0.5, 0.2, 0.2, 1)


def run(truth, backend, data=None, head=None, shape=(3, 5), dtype="float32", seed=0, **attrs):
    """Loss, parts and gradient; data (B, 16, H, W) is random unless given."""
    truth = np.array(truth, dtype)
    if data is None:
        data = np.random.RandomState(seed).randn(len(truth), 16, *shape)
    data = mx.nd.array(data, dtype=dtype)
    data.attach_grad()
    inputs = [data, mx.nd.array(truth, dtype=dtype), mx.nd.array([99])]
    with gops.backend(backend), autograd.record():
        loss, parts = gops.ops.region_loss(*inputs, **{**ATTRS, **attrs}, parts=True)
    loss.backward(None if head is None else mx.nd.array(head, dtype=dtype))
    return loss.asnumpy(), parts.asnumpy(), data.grad.asnumpy()


def expected(truth, shape=(3, 5), seed=0, **attrs):
    """The same from the formulas, in float64; the gradient with respect to the activations' logits."""
    op = registry.get("region_loss").op
    typed, truth = op.parse({**ATTRS, **attrs}), np.array(truth, "float64")
    data = np.random.RandomState(seed).randn(len(truth), 16, *shape).astype("float32").astype("float64")
    result = oracle.forward(typed, data, truth, [99])
    return result["output"], result["gradient"]


def claimed(gradient):
    """(image, anchor, row, column) of the places with a class gradient."""
    return [tuple(int(n) for n in place) for place in np.argwhere(split(gradient, 3)[:, :, 5:].any(axis=2))]


@BACKENDS
class TestPlaces:
    def test_a_centre_at_the_far_border_is_in_the_last_cell(self, backend):
        truth = [[(1.0, 1.0, 0.3, 0.1, 2), (0.0,) * 5]]
        loss, _, gradient = run(truth, backend)
        assert claimed(gradient) == [(0, 0, 2, 4)]
        want, want_gradient = expected(truth)
        np.testing.assert_allclose(loss, want, rtol=1e-5)
        np.testing.assert_allclose(gradient, want_gradient, rtol=1e-4, atol=1e-5)

    def test_a_centre_at_zero_is_a_box_and_ends_no_list(self, backend):
        truth = [[(0, 0, 0.3, 0.1, 0), (0, 0.5, 0.15, 0.6, 1), (0.5, 0.5, 0.3, 0.1, 2)]]
        loss, parts, gradient = run(truth, backend)
        assert claimed(gradient) == [(0, 0, 0, 0), (0, 0, 1, 2), (0, 1, 1, 0)] and parts[0, 8] == 3
        np.testing.assert_allclose(loss, expected(truth)[0], rtol=1e-5)

    def test_padding_may_stand_anywhere(self, backend):
        first, second, nothing = (0.3, 0.3, 0.3, 0.1, 0), (0.7, 0.9, 0.15, 0.6, 1), (0.0,) * 5
        apart = run([[nothing, first, nothing, second]], backend)
        for one, other in zip(apart, run([[first, second, nothing, nothing]], backend)):
            np.testing.assert_array_equal(one, other)

    def test_no_truth_in_an_image(self, backend):
        truth = [[(0.0,) * 5] * 2, [BOX, (0.0,) * 5]]
        loss, parts, gradient = run(truth, backend)
        assert claimed(gradient)[0][0] == 1 and len(claimed(gradient)) == 1
        assert not parts[0, [0, 1, 3, 5, 6, 7, 8]].any() and parts[0, 2] == loss[0] > 0
        np.testing.assert_allclose(loss, expected(truth)[0], rtol=1e-5)

    def test_a_box_without_a_truth_may_be_infinite(self, backend):
        data = np.zeros((1, 16, 1, 1))
        data[0, 10:12] = 1e3   # w and h of the anchor that is not matched
        assert all(np.isfinite(result).all() for result in run([[BOX]], backend, data=data, box_loss="giou"))

    def test_no_room_for_truths(self, backend):
        with mx.util.np_shape(True):
            loss, parts, _ = run(np.zeros((2, 0, 5)), backend)
        nothing = run(np.zeros((2, 1, 5)), backend)
        np.testing.assert_array_equal(loss, nothing[0])
        np.testing.assert_array_equal(parts, nothing[1])

    def test_a_later_truth_takes_the_place_of_an_earlier_one(self, backend):
        first, second = (0.5, 0.5, 0.28, 0.16, 0), (0.52, 0.52, 0.32, 0.15, 2)
        both, alone = run([[first, second]], backend, thresh=2), run([[second, second]], backend, thresh=2)
        np.testing.assert_array_equal(both[2], alone[2])
        np.testing.assert_array_equal(both[0], alone[0])
        assert both[1][0, 8] == 2 and not np.array_equal(both[2], run([[second, first]], backend, thresh=2)[2])

    @in_turn("order", [(2, 1), (1, 0, 2), (0, 1, 1), (1, 2, 1, 0), (0, 0)])
    @in_turn("logit", [0.5, 120, -120])
    def test_classes_of_one_place_add_up_without_softmax(self, logit, order, backend):
        """Darknet starts anew if the error of class 0 is exactly 0 on the way, with a saturated sigmoid."""
        rng, classes, first = np.random.RandomState(1), [], np.float32(1 / (1 + np.exp(-logit)))
        for k in order:
            if not classes or (0 in classes) == first:
                classes = []
            classes.append(k)
        data = rng.randn(1, 16, 1, 1)
        data[0, [5, 13]] = logit
        truth = [[(0.5, 0.5, 0.9, 0.4 + k / 100, k) for k in order]]
        _, parts, gradient = run(truth, backend, data=data, softmax=False, anchors=(1, 0.4, 0.2, 1))
        p = 1 / (1 + np.exp(-data[0, 5:8, 0, 0]))
        np.testing.assert_allclose(gradient[0, 5:8, 0, 0], p - np.isin(range(3), classes), rtol=1e-5, atol=1e-6)
        z = data[0, 5:8, 0, 0]
        nll = np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z))) - z * np.isin(range(3), classes)
        np.testing.assert_allclose(parts[0, 3], nll.sum(), rtol=1e-5)

    def test_a_crowd(self, backend):
        rng = np.random.RandomState(3)
        truth = [[(*rng.rand(2), *rng.uniform(0.05, 0.9, 2), rng.randint(3)) for _ in range(200)]]
        loss, parts, gradient = run(truth, backend, shape=(4, 3))
        want, want_gradient = expected(np.array(truth, "float32"), shape=(4, 3))
        np.testing.assert_allclose(loss, want, rtol=1e-5)
        np.testing.assert_allclose(gradient, want_gradient, rtol=1e-4, atol=1e-5)
        assert parts[0, 8] == 200

    def test_head_gradient(self, backend):
        truth = [[BOX], [BOX], [BOX]]
        plain, weighted = run(truth, backend)[2], run(truth, backend, head=[2, 0, -0.5])[2]
        np.testing.assert_allclose(weighted, plain * np.reshape([2, 0, -0.5], (3, 1, 1, 1)), rtol=1e-6)


NO_BOXES = {"nan": (0.5, 0.5, np.nan, 0.2, 1), "infinite": (0.5, 0.5, np.inf, 0.2, 1), "width": (0.5, 0.5, 0, 0.2, 1),
            "height": (0.5, 0.5, 0.2, -0.1, 1), "class": (0.5, 0.5, 0.2, 0.2, 3), "negative": (0.5, 0.5, 0.2, 0.2, -1),
            "fraction": (0.5, 0.5, 0.2, 0.2, 0.5), "huge_class": (0.5, 0.5, 0.2, 0.2, 1e30),
            "x": (1.5, 0.5, 0.2, 0.2, 1), "y": (0.5, -0.01, 0.2, 0.2, 1), "pixels": (208, 208, 80, 80, 1),
            "too_large": (0.5, 0.5, 2, 2, 1)}


@BACKENDS
@in_turn("name", NO_BOXES)
class TestRowsThatAreNoBoxes:
    def test_nan_in_their_image_alone(self, name, backend, monkeypatch):
        monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "0")
        truth = [[BOX, BOX], [BOX, NO_BOXES[name]], [BOX, BOX]]
        loss, parts, gradient = run(truth, backend)
        good = run([[BOX, BOX], [BOX, BOX], [BOX, BOX]], backend)
        assert np.isnan(loss[1]) and np.isnan(parts[1]).all() and np.isnan(gradient[1]).all()
        for got, want in zip((loss, parts, gradient), good):
            np.testing.assert_array_equal(got[[0, 2]], want[[0, 2]])

    def test_named_where_labels_are_checked(self, name, backend, monkeypatch):
        monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "1")
        with pytest.raises(gops.OpError, match=r"gluonops\.region_loss: truth\[1, 1\], box 1 of image 1, is \(.*\) "
                           r"\(and 1 more\); expected a centre from 0 to 1, w and h above 0 with w \* h below 2, and a "
                           r"whole class from 0 to 2\. Correct the box, or make it a row of zeros to leave it out\."):
            run([[BOX, BOX], [BOX, NO_BOXES[name]], [BOX, NO_BOXES[name]]], backend)


def test_without_seen_the_warm_up_is_over():
    data, truth = mx.nd.random.normal(shape=(2, 16, 3, 2)), mx.nd.array([[BOX]] * 2)
    options = {"anchors": ANCHORS, "classes": 3}
    late = gops.ops.region_loss(data, truth, mx.nd.array([12800]), **options)
    np.testing.assert_array_equal(gops.ops.region_loss(data, truth, **options).asnumpy(), late.asnumpy())
    early = gops.ops.region_loss(data, truth, mx.nd.array([12799], dtype="int32"), **options)
    assert (early > late).asnumpy().all()
    graph = gops.ops.region_loss(mx.sym.var("data"), mx.sym.var("truth"), **options)
    np.testing.assert_allclose(graph.eval(data=data, truth=truth)[0].asnumpy(), late.asnumpy(), rtol=1e-6)
