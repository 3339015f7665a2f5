"""yolo_loss against what both programs do prediction by prediction, and against their recorded deltas."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.contract import registry
from mxnet import autograd
from op_suite import Bad, Case, OpSuite, Row
from ops._region.oracle import giou, iou, split
from ops._region.recorded_yolo import GOLDEN_CASES, STRIDE, golden
from ops._region.suite import BOX, TWO, YoloEdges, YoloSuite
from ops.yolo_loss import oracle

V4 = {**TWO, "dialect": "alexeyab", "box_loss": "ciou", "iou_normalizer": 0.07, "scale_x_y": 1.1, "iou_thresh": 0.213,
      "max_delta": 5}
V7 = {**V4, "new_coords": True, "objectness_smooth": True, "scale_x_y": 2, "obj_normalizer": 0.4, "box_loss": "mse"}


class TestYoloLoss(YoloSuite):
    name = "yolo_loss"
    layers = golden
    small = {**YoloSuite.small, "dialect": "alexeyab"}
    texts = {"other_anchors": ["None", "(1, 2)", "[1.5,2,]", "none", "()", "(1, 2, 3)", "(1, 0)", ""],
             "dialect": ["alexeyab", "Pjreddie"], "box_loss": ["ciou"], "scale_x_y": ["1.2", "1e-3", "9e-4"],
             "label_smooth_eps": ["0", "0.1", "1"], "new_coords": ["1"]}
    cases = (
        Case("v3", ((2, 16, 1, 3), (2, 3, 5)), TWO),
        Case("larger", ((1, 16, 3, 4), (1, 5, 5)), TWO),
        Case("v4", ((1, 16, 2, 2), (1, 7, 5)), V4),
        Case("v7", ((1, 16, 2, 2), (1, 7, 5)), V7),
        Case("giou_focal", ((1, 16, 3, 2), (1, 8, 5)), {**V4, "box_loss": "giou", "focal_loss": True,
                                                       "label_smooth_eps": 0.1, "truth_thresh": 0.3}),
        Case("coco", ((1, 255, 5, 7), (1, 12, 5)), {"anchors": (3.625, 2.8125, 4.875, 6.1875, 11.65625, 10.1875),
                                                    "classes": 80, "dialect": "alexeyab", "box_loss": "iou"}),
    )
    empty = Case("empty", ((0, 16, 2, 3), (0, 4, 5)), TWO)
    # One cell and one anchor as large as the image, all numbers 0: the box is right, the objectness 1/2 short of 1,
    # both classes at 1/2; x and y have the cross-entropy of 1/2, with the weight 2 - 1. And a map without truths.
    table = (
        Row("right_box", (np.zeros((1, 7, 1, 1)), [[[0.5, 0.5, 1, 1, 1]]]), {"anchors": (1, 1), "classes": 2},
            [5 * np.log(2)], [2], (np.reshape([0, 0, 0, 0, -1, 1, -1], (1, 7, 1, 1)), np.zeros((1, 1, 5)))),
        # The truth's sides are half the box's: IoU 1/4. Its increase by a side of 1 is -1/4, which Darknet doubles.
        Row("iou", (np.zeros((1, 7, 1, 1)), [[[0.5, 0.5, 0.5, 0.5, 1]]]),
            {"anchors": (1, 1), "classes": 2, "dialect": "alexeyab", "box_loss": "iou", "iou_normalizer": 2},
            [3 / 2 + 3 * np.log(2)], [2],
            (np.reshape([0, 0, 2, 2, -1, 1, -1], (1, 7, 1, 1)), np.zeros((1, 1, 5)))),
        Row("no_truth", (np.zeros((1, 7, 1, 1)), np.zeros((1, 1, 5))), {"anchors": (1, 1), "classes": 2},
            [np.log(2)], [2], (np.reshape([0, 0, 0, 0, 1, 0, 0], (1, 7, 1, 1)), np.zeros((1, 1, 5)))),
    )
    errors = (
        Bad("channels", ((1, 15, 2, 2), (1, 3, 5)), TWO, "data has shape (1, 15, 2, 2); expected (batch, 16, "
            "height, width) with anchors * (5 + classes) = 16. Change the layer in front or the attributes."),
        Bad("columns", ((2, 16, 2, 2), (2, 3, 6)), TWO,
            "truth has shape (2, 3, 6); expected (batch, truths, 5)", first=False),
        Bad("anchors", ((1, 16, 2, 2), (1, 3, 5)), {**TWO, "anchors": (1,)}, "expected pairs of finite numbers"),
        Bad("other_anchors", ((1, 16, 2, 2), (1, 3, 5)), {**TWO, "other_anchors": (1, 0)},
            "expected None or pairs of finite numbers"),
        Bad("dialect", ((1, 16, 2, 2), (1, 3, 5)), {**TWO, "box_loss": "ciou"}, "dialect is 'pjreddie', whose Darknet"),
    )
    determined = (
        ({"data": (2, 16, 3, 4)}, TWO,
         {"data": (2, 16, 3, 4), "truth": (2, -1, 5), "output": (2,), "parts": (2, 9), "gradient": (2, 16, 3, 4)}),
        ({"data": (-1, 16, 3, 4), "truth": (2, 6, 5)}, TWO,
         {"data": (2, 16, 3, 4), "truth": (2, 6, 5), "output": (2,), "parts": (2, 9), "gradient": (2, 16, 3, 4)}),
    )

    def scalar(self, attrs, head, data, truth):
        """Return the loss with the weights and targets of the assignment.

        An IoU loss has the gradient that Darknet gives.
        """
        total = 0
        for h, image, numbers in zip(head, self.assignments, split(data, attrs.classes)):
            total += h * image.terms(numbers).sum()
            if attrs.box_loss != "mse":
                total -= h * (image.delta[:, :4] * numbers[:, :4]).sum()
        return total

    def oracle_gradient(self, attrs, head, data, truth):
        self.assignments = oracle.images(attrs, data, truth)
        return super().oracle_gradient(attrs, head, data, truth)

    @pytest.mark.parametrize("recorded", GOLDEN_CASES[::6])
    def test_darknets_deltas(self, recorded, backend):
        """The gradient that runs is minus what the programs compute."""
        self.compare_with_recorded(recorded, backend)


@pytest.mark.parametrize("recorded", GOLDEN_CASES[::4])
def test_the_oracle_computes_darknets_deltas(recorded):
    case = golden(recorded)
    attrs = registry.get("yolo_loss").op.parse(case.attrs)
    results = oracle.forward(attrs, case.input.astype("float64"), case.truth.astype("float64"))
    np.testing.assert_allclose(results["gradient"], case.gradient, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("kind", "measure"), [("iou", iou), ("giou", giou)])
def test_alexeyabs_derivatives(kind, measure, rng):
    """They are the derivatives of the measure by x and y, and twice those by w and h, where boxes overlap."""
    for _ in range(20):
        box, truth = rng.uniform(0.4, 0.6, (2, 4))
        numeric = OpSuite.central_difference(lambda: measure(box, truth), box, 1e-6)   # noqa: B023
        np.testing.assert_allclose(oracle.iou_derivatives(kind, box, truth), numeric * [1, 1, 2, 2], atol=1e-6)


@pytest.mark.parametrize("backend", ["custom", "reference", "native", "builtin"], indirect=True)
class TestEdges(YoloEdges):
    name, channels, sizes = "yolo_loss", 16, slice(2, 4)
    untidy = (TWO, V4)
    overlap_loss = {**V4, "max_delta": 0}

    @pytest.mark.parametrize("limit", [1e-45, 0.001])
    def test_the_limit_of_a_derivative_is_not_rounded(self, limit, backend):
        """0.001 has another value in float32, and 1e-45 none that is normal."""
        data = mx.nd.zeros((1, 16, 1, 1), dtype="float64")
        data.attach_grad()
        with gops.backend(backend), autograd.record():
            loss = gops.ops.yolo_loss(data, mx.nd.array([[BOX]], dtype="float64"), **{**V4, "max_delta": limit})
        loss.backward()
        assert np.abs(split(data.grad.asnumpy(), 3)[:, :, :4]).max() == limit


class TestBlock:
    MASKS, STRIDES = ((3, 4, 5), (0, 1, 2)), (32, 16)
    ANCHORS = (10, 14, 23, 27, 37, 58, 81, 82, 135, 169, 344, 319)

    def inputs(self, rng):
        preds = [mx.nd.array(rng.randn(2, 24, size, size)) for size in (2, 4)]
        boxes = np.concatenate([rng.uniform(0.1, 0.9, (2, 5, 4)), rng.randint(0, 3, (2, 5, 1))], axis=2)
        return preds, mx.nd.array(boxes)

    @pytest.mark.parametrize("hybrid", [False, True])
    def test_the_sum_over_the_heads(self, hybrid, rng):
        options = {"dialect": "alexeyab", "box_loss": "giou", "scale_x_y": (1.05, 1.1)}
        loss = gops.loss.YOLOLoss(self.ANCHORS, self.MASKS, self.STRIDES, 3, **options)
        if hybrid:
            loss.hybridize()
        preds, truth = self.inputs(rng)
        output = loss(preds, truth)
        sizes = np.reshape(self.ANCHORS, (-1, 2))
        expected = 0
        for i, pred in enumerate(preds):
            cells = sizes / self.STRIDES[i]
            others = np.delete(cells, self.MASKS[i], axis=0)
            expected = expected + gops.ops.yolo_loss(
                pred, truth, anchors=cells[list(self.MASKS[i])].ravel().tolist(),
                other_anchors=others.ravel().tolist(), classes=3, dialect="alexeyab", box_loss="giou",
                scale_x_y=options["scale_x_y"][i])
        np.testing.assert_allclose(output.asnumpy(), expected.asnumpy(), rtol=1e-6)
        assert 0 < loss.report()["truths"].asscalar() <= 10 and loss.parts[mx.cpu()].shape == (2, 9)

    def test_a_recorded_head(self):
        case = golden("c13")
        options = {name: value for name, value in case.attrs.items() if name not in ("anchors", "other_anchors")}
        loss = gops.loss.YOLOLoss(case.anchors.ravel().tolist(), [case.mask], [STRIDE], **options)
        loss(mx.nd.array(case.input), mx.nd.array(case.truth))
        np.testing.assert_allclose(loss.report()["cost"].asscalar(), case.cost, rtol=2e-5)

    def test_errors(self, rng):
        make = gops.loss.YOLOLoss
        for arguments, options, text in (
                ((self.ANCHORS, self.MASKS, (32,), 3), {}, "masks has 2 rows and strides has 1 number;"),
                ((self.ANCHORS, ((6,),), (32,), 3), {}, "a mask is .6,.; expected different numbers from 0 to 5"),
                ((self.ANCHORS, ((0, 0),), (32,), 3), {}, "expected different numbers"),
                ((self.ANCHORS, ((0,),), (0,), 3), {}, "a stride is 0; expected a number above 0"),
                (((1, 2, 3), ((0,),), (32,), 3), {}, "anchors is .1, 2, 3.; expected pairs"),
                (([[(1, 2)], [(3, 4)]], ((0,),), (32,), 3), {}, "anchors has 2 lists of pairs; expected 1, one for"),
                ((self.ANCHORS, ((0,),), (32,), 3), {"scale_x_y": (1, 2)}, "scale_x_y has 2 values; expected 1"),
                ((self.ANCHORS, ((0,),), (32,), 3), {"parts": True}, "'parts' is not an argument of the block"),
                ((self.ANCHORS, ((0,),), (32,), 3), {"counters_per_class": 1}, "'counters_per_class' is not an"),
        ):
            with pytest.raises(gops.OpError, match=text):
                make(*arguments, **options)
        preds, truth = self.inputs(rng)
        with pytest.raises(gops.OpError, match="preds has 1 array; expected 2"):
            make(self.ANCHORS, self.MASKS, self.STRIDES, 3)(preds[:1], truth)
