"""region_loss against the page's formulas worked off truth by truth, and against Darknet's recorded layers."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd
from op_suite import Bad, Case, Row
from ops._region.oracle import activate, split
from ops._region.recorded import GOLDEN_CASES, golden
from ops._region.suite import MapLossSuite
from ops.region_loss import oracle

# The first case's IoU must not move its objective, for finite differences of the forward pass that runs.
TWO = {"anchors": (1.5, 0.5, 0.75, 2.0), "classes": 3, "rescore": False, "thresh": 0.4, "warmup_images": 50}
RESCORE = {**TWO, "rescore": True}
LATE, EARLY = 80, 20


class TestRegionLoss(MapLossSuite):
    name = "region_loss"
    cases = (
        Case("two_anchors", ((2, 16, 2, 3), (2, 4, 5), (1,)), TWO),
        Case("larger", ((1, 16, 5, 9), (1, 7, 5), (1,)), TWO),
        Case("one_cell", ((2, 6, 1, 1), (2, 1, 5), (1,)), {"anchors": (2, 1), "classes": 1, "warmup_images": 50}),
        Case("rescore", ((2, 16, 2, 3), (2, 4, 5), (1,)), RESCORE),
        Case("predicted_size", ((2, 16, 3, 2), (2, 3, 5), (1,)), {**RESCORE, "bias_match": False}),
        Case("sigmoid", ((2, 16, 2, 3), (2, 9, 5), (1,)), {**RESCORE, "softmax": False}),
        Case("scales", ((1, 16, 3, 3), (1, 3, 5), (1,)), {**RESCORE, "object_scale": 2.5, "noobject_scale": 0.5,
                                                         "coord_scale": 3, "class_scale": 1.5}),
        Case("no_warm_up", ((2, 16, 2, 3), (2, 4, 5), (1,)), {**RESCORE, "warmup_images": 0}),
        Case("giou", ((2, 16, 2, 3), (2, 4, 5), (1,)), {**TWO, "box_loss": "giou", "coord_scale": 3}),
        Case("many_truths", ((1, 16, 5, 7), (1, 131, 5), (1,)), RESCORE),
        Case("voc", ((2, 125, 6, 7), (2, 30, 5), (1,)), {"anchors": golden("c00").attrs["anchors"], "classes": 20}),
        Case("many_cells", ((1, 14, 7, 23), (1, 5, 5), (1,)), {"anchors": (3, 1, 1, 2), "classes": 2}),
    )
    empty = Case("empty", ((0, 16, 2, 3), (0, 4, 5), (1,)), TWO)
    # One cell and one anchor as large as the image, all logits 0, a truth as large in the middle: the box is right, the
    # objectness 1/2 short of 1, both classes at 1/2. And a map without truths: the objectness is 1/2 above 0.
    table = (
        Row("right_box", (np.zeros((1, 7, 1, 1)), [[[0.5, 0.5, 1, 1, 1]]], [0]),
            {"anchors": (1, 1), "classes": 2, "warmup_images": 0}, [5 / 8 + np.log(2)], [2],
            (np.reshape([0, 0, 0, 0, -5 / 4, 1, -1], (1, 7, 1, 1)), np.zeros((1, 1, 5)), [0])),
        # The truth's sides are half the box's: IoU 1/4, and the hull is the union.
        Row("giou", (np.zeros((1, 7, 1, 1)), [[[0.5, 0.5, 0.5, 0.5, 1]]], [0]),
            {"anchors": (1, 1), "classes": 2, "warmup_images": 0, "box_loss": "giou", "coord_scale": 2,
             "rescore": False}, [3 / 2 + 5 / 8 + np.log(2)], [2],
            (np.reshape([0, 0, 1, 1, -5 / 4, 1, -1], (1, 7, 1, 1)), np.zeros((1, 1, 5)), [0])),
        Row("no_truth", (np.zeros((1, 7, 1, 1)), np.zeros((1, 1, 5)), [0]),
            {"anchors": (1, 1), "classes": 2, "noobject_scale": 2}, [1 / 4], [2],
            (np.reshape([0, 0, 0, 0, 1 / 2, 0, 0], (1, 7, 1, 1)), np.zeros((1, 1, 5)), [0])),
    )
    errors = (
        Bad("channels", ((1, 15, 2, 2), (1, 3, 5), (1,)), TWO, "data has shape (1, 15, 2, 2); expected (batch, 16, "
            "height, width) with anchors * (5 + classes) = 16. Change the layer in front or the attributes."),
        Bad("batch", ((2, 16, 2, 2), (1, 3, 5), (1,)), TWO,
            "truth has shape (1, 3, 5); expected (2, truths, 5) to match data of shape (2, 16, 2, 2)", first=False),
        Bad("columns", ((2, 16, 2, 2), (2, 3, 6), (1,)), TWO,
            "truth has shape (2, 3, 6); expected (batch, truths, 5)", first=False),
        Bad("seen", ((2, 16, 2, 2), (2, 3, 5), (2,)), TWO, "seen has shape (2,); expected (1,)"),
        Bad("anchors", ((1, 16, 2, 2), (1, 3, 5), (1,)), {**TWO, "anchors": (1,)}, "expected pairs of finite numbers"),
        Bad("scale", ((1, 16, 2, 2), (1, 3, 5), (1,)), {**TWO, "coord_scale": -1}, "expected a finite number of at"),
        Bad("truth_dtype", ((1, 16, 2, 2), (1, 3, 5), (1,)), TWO,
            "truth has dtype float64; expected float32, the dtype of data", ("float32", "float64", "float32")),
    )
    texts = {"anchors": ["(1, 2, 3, 4)", "(1, 2, 3)"], "thresh": ["0", "-0.1", "inf"],
             "object_scale": ["2.5", "x"], "warmup_images": ["0", "-1"], "rescore": ["1", "maybe"],
             "parts": ["True", "2"], "box_loss": ["giou", "GIoU"]}
    determined = (
        ({"data": (2, 16, 3, 4)}, TWO,
         {"data": (2, 16, 3, 4), "truth": (2, -1, 5), "seen": (1,), "output": (2,), "parts": (2, 9),
          "gradient": (2, 16, 3, 4)}),
        ({"data": (-1, 16, 3, 4), "truth": (2, 6, 5)}, TWO,
         {"data": (2, 16, 3, 4), "truth": (2, 6, 5), "seen": (1,), "output": (2,), "parts": (2, 9),
          "gradient": (2, 16, 3, 4)}),
    )

    def draw(self, case, dtype, rng, label_dtype="float32"):
        data, truth, seen = super().draw(case, dtype, rng, label_dtype)
        seen[:] = LATE if case.id in ("one_cell", "scales") else EARLY
        return [data, truth, seen]

    def scalar(self, attrs, head, data, truth, seen):
        """The assignment, its IoU above all, stays what it was when the gradient was taken."""
        out = activate(split(data, attrs.classes), attrs.softmax)
        return sum(h * sum(one.terms(attrs, image)) for h, one, image in zip(head, self.assignments, out))

    def oracle_gradient(self, attrs, head, data, truth, seen):
        _, self.assignments = oracle.assign(attrs, data, truth, seen)
        return super().oracle_gradient(attrs, head, data, truth, seen)

    def test_parts(self, case, dtype, backend, rng):
        """They are the terms of the loss, Darknet's cost and the statistics, image by image."""
        arrays = self.draw(case, dtype, rng)
        attrs, wide = self.typed(case), [a.astype("float64") for a in arrays]
        expected = oracle.forward(attrs, *wide)["parts"]
        with gops.backend(backend):
            loss, parts = self.function(*[mx.nd.array(a, dtype=a.dtype) for a in arrays], **case.attrs, parts=True)
        self.close(parts.asnumpy(), expected, "parts", backend, dtype)
        self.close(loss.asnumpy(), expected[:, :4].sum(axis=1), "loss", backend, dtype)

    def test_darknets_deltas(self, backend):
        """The C++ kernel computes every recorded layer, the others some: the oracle compares them in every case."""
        for recorded in GOLDEN_CASES[::1 if backend == "native" else 5]:
            self.compare_with_recorded(recorded, backend)

    @pytest.mark.slow
    def test_all_of_darknets_deltas(self, backend):
        for recorded in GOLDEN_CASES:
            self.compare_with_recorded(recorded, backend)

    def compare_with_recorded(self, recorded, backend):
        """Gradients are within 2e-5 of what Darknet's layer computed, and so is the cost."""
        case = golden(recorded)
        inputs = [mx.nd.array(a) for a in (case.input, case.ground_truth, [case.seen])]
        inputs[0].attach_grad()
        with gops.backend(backend), autograd.record():
            loss, parts = self.function(*inputs, **case.attrs, parts=True)
        loss.backward()
        np.testing.assert_allclose(inputs[0].grad.asnumpy().reshape(case.gradient.shape), case.gradient, rtol=2e-5,
                                   atol=2e-5 * np.abs(case.gradient).max() / 10, err_msg=recorded)
        np.testing.assert_allclose(parts[:, 4].sum().asscalar(), case.cost, rtol=2e-5, err_msg=recorded)
