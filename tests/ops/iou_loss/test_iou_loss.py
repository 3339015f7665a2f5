"""iou_loss against the papers' formulas, and where torchvision's are not defined."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from in_turn import in_turn
from mxnet import autograd
from op_suite import Bad, Case, OpSuite, Row, recorded
from ops._boxes.oracle import corners, from_corners
from ops.iou_loss import oracle

KINDS = ("iou", "giou", "diou", "ciou")
CENTER = {"kind": "ciou", "format": "center"}
SHIFTED, TRUTH = [[0, 0, 2, 2]], [[1, 1, 3, 3]]
V = 4 / np.pi ** 2 * (np.arctan(2) - np.arctan(0.5)) ** 2


class TestIouLoss(OpSuite):
    name = "iou_loss"
    undefined = ("inf", "-inf", "max", "huge", "nan", "denormal", "equal")   # products of coordinates; ratios of sizes
    cases = (
        Case("matrix", ((7, 4), (7, 4))),
        Case("more", ((1, 4), (1, 4))),
        Case("iou_center", ((2, 3, 4), (2, 3, 4)), {"kind": "iou", "format": "center"}),
        Case("diou", ((2, 3, 2, 4), (2, 3, 2, 4)), {"kind": "diou"}),
        Case("ciou", ((19, 4), (19, 4)), {"kind": "ciou"}),
        Case("ciou_center", ((37, 4), (37, 4)), CENTER),
    )
    empty = Case("empty", ((0, 4), (0, 4)))
    # Two boxes of area 4 that share 1: the union is 7, the hull 9 and the square of its diagonal 18. Two boxes of area
    # 1 that are 2 apart. And a box of 2 x 1 on one of 1 x 2.
    table = (
        Row("iou", (SHIFTED, TRUTH), {"kind": "iou"}, [6 / 7], [7], ([[-2 / 7, -2 / 7, -6 / 7, -6 / 7]], None)),
        Row("giou", (SHIFTED, TRUTH), {}, [6 / 7 + 2 / 9], [1],
            ([[-2 / 49 - 1 / 27, -2 / 49 - 1 / 27, -6 / 49 - 1 / 9, -6 / 49 - 1 / 9]], np.zeros((1, 4)))),
        Row("diou", (SHIFTED, TRUTH), {"kind": "diou"}, [6 / 7 + 1 / 9], [1],
            ([[-2 / 49 - 1 / 54, -2 / 49 - 1 / 54, -6 / 49 - 1 / 18, -6 / 49 - 1 / 18]], None)),
        Row("apart", ([[0, 0, 1, 1]], [[3, 0, 4, 1]]), {}, [1.5], [4], ([[0.5, -1, -1, 1]], None)),
        Row("ciou", ([[1, 1, 2, 1]], [[1, 1, 1, 2]]), CENTER, [2 / 3 + V ** 2 / (2 / 3 + V)], [1], (None, None)),
    )
    errors = (
        Bad("columns", ((3, 5), (3, 5)), {}, "data has shape (3, 5); expected (batch, 4)"),
        Bad("shapes", ((3, 4), (2, 4)), {}, "truth has shape (2, 4); expected (3, 4) to match data of shape (3, 4)",
            first=False),
        Bad("kind", ((3, 4), (3, 4)), {"kind": "eiou"}, "expected 'iou', 'giou', 'diou' or 'ciou'"),
        Bad("format", ((3, 4), (3, 4)), {"format": "xywh"}, "expected 'corner' or 'center'"),
        Bad("dtype", ((3, 4), (3, 4)), {}, "truth has dtype float64; expected float32, the dtype of data",
            ("float32", "float64")),
    )
    texts = {"kind": ["iou", "diou", "ciou", "CIoU", "0"], "format": ["center", "None"]}
    determined = (
        ({"data": (2, 3, 4)}, {}, {"data": (2, 3, 4), "truth": (2, 3, 4), "output": (2, 3)}),
    )

    def test_oracle_gradient_is_the_derivative(self, case, rng):
        """CIoU's alpha is held, as Zheng et al. do."""
        attrs = self.typed(case)
        data, truth = (array.astype("float64") for array in self.draw(case, "float64", rng))
        head = self.head(case, [data, truth], rng)
        a, b = corners(data, attrs.format), corners(truth, attrs.format)
        alpha = oracle.weight_of(a, b)
        numeric = self.central_difference(lambda: (head * oracle.loss(attrs.kind, a, b, alpha)).sum(), a)
        gradient = self.oracle_gradient(attrs, head, data, truth)["data"]
        np.testing.assert_allclose(gradient, from_corners(numeric, attrs.format), rtol=1e-6, atol=1e-6)


POINT, BOX, FLAT, THIN = [1, 1, 1, 1], [0, 0, 2, 2], [0, 1, 2, 1], [1, 0, 1, 2]
EXCHANGED = [2, 2, 0, 0]


@pytest.mark.parametrize("backend", ["custom", "reference", "builtin", "cuda"], indirect=True)
class TestEdges:
    @in_turn("kind", KINDS)
    def test_degenerate_boxes(self, kind, backend):
        """Points, lines, exchanged corners and the box itself have what the formula says with its eps; it is finite."""
        pairs = [(POINT, POINT), (POINT, BOX), (BOX, POINT), (FLAT, BOX), (THIN, BOX), (BOX, FLAT), (FLAT, THIN),
                 (EXCHANGED, BOX), (BOX, BOX), ([5, 5, 6, 7], BOX)]
        data, truth = np.array(pairs, "float64").transpose(1, 0, 2)
        with gops.backend(backend):
            loss, gradient = recorded(lambda x, y: gops.ops.iou_loss(x, y, kind=kind), data, truth)
        attrs = gops.contract.registry.get("iou_loss").op.parse({"kind": kind})
        np.testing.assert_allclose(loss, oracle.forward(attrs, data, truth)["output"], rtol=1e-9, atol=1e-12)
        expected = oracle.backward(attrs, np.ones(len(data)), data, truth)["data"]
        assert np.isfinite(loss).all() and np.isfinite(gradient).all()
        np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-7)

    def test_a_nan_stays_with_its_box(self, backend):
        data = mx.nd.array([[0, 0, np.nan, 1], [0, 0, 1, 1]])
        with gops.backend(backend):
            loss = gops.ops.iou_loss(data, mx.nd.array([[0, 0, 1, 1]] * 2)).asnumpy()
        np.testing.assert_array_equal(np.isnan(loss), [True, False])


def test_block():
    """It returns the mean over the boxes of a sample, weighted as gluon's losses are."""
    rng = np.random.RandomState(0)
    low = rng.rand(2, 3, 2)
    pred = mx.nd.array(np.concatenate([low, low + 1], axis=2))
    label = mx.nd.array([[[0, 0, 1, 1]] * 3] * 2)
    per_box = gops.ops.iou_loss(pred, label, "diou").asnumpy()
    mask = np.array([[1, 0, 1], [0, 0, 1]])
    loss = gops.loss.IoULoss("diou", weight=2)
    loss.hybridize()
    got = loss(pred, label, mx.nd.array(mask).expand_dims(-1)).asnumpy()
    np.testing.assert_allclose(got, 2 * (per_box * mask).mean(axis=1), rtol=1e-5)
    by_sample = gops.loss.IoULoss("diou")(pred, label).asnumpy()
    np.testing.assert_allclose(by_sample, per_box.mean(axis=1), rtol=1e-5)
    by_last = gops.loss.IoULoss("diou", batch_axis=1)(pred, label).asnumpy()
    np.testing.assert_allclose(by_last, per_box.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(gops.loss.IoULoss("diou")(pred[0], label[0]).asnumpy(), per_box[0], rtol=1e-5)
    assert repr(loss) == "IoULoss(kind=diou, format=corner, weight=2, batch_axis=0)"
    with pytest.raises(gops.OpError, match="expected 'iou'"):
        gops.loss.IoULoss("l1")


def test_boxes_move_to_their_ground_truth():
    """Gradient descent with each kind that has a gradient for boxes that are apart. The steps become smaller."""
    truth = mx.nd.array([[0.0, 0.0, 2.0, 1.0]])
    steps = 0.5 * np.linspace(1, 0, 300)
    for kind in KINDS[1:]:
        box = mx.nd.array([[3.0, 2.0, 4.0, 4.0]])
        box.attach_grad()
        for step in steps:
            with autograd.record():
                loss = gops.ops.iou_loss(box, truth, kind)
            loss.backward()
            box -= step * box.grad
        np.testing.assert_allclose(box.asnumpy(), truth.asnumpy(), atol=0.02, err_msg=kind)
