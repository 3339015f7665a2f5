"""gaussian_yolo_loss against what AlexeyAB's program does prediction by prediction, and against its recorded deltas."""
import functools

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.contract import registry
from op_suite import Bad, Case, Row
from ops._region.recorded_yolo import GAUSSIAN_CASES, STRIDE, gaussian
from ops._region.suite import BOX, TWO, YoloEdges, YoloSuite
from ops.gaussian_yolo_loss import oracle

BDD = {**TWO, "box_loss": "giou", "iou_normalizer": 0.5, "iou_thresh": 0.213}
SMOOTH = {**TWO, "objectness_smooth": True, "ignore_thresh": 0.2, "truth_thresh": 0.4, "label_smooth_eps": 0.1,
          "obj_normalizer": 0.4, "uc_normalizer": 0.5, "scale_x_y": 1.1, "point": "left_top"}


def density(score, deviation=0.5):
    return np.exp(-score ** 2 / 2) / (np.sqrt(2 * np.pi) * (deviation + 0.3))


class TestGaussianYoloLoss(YoloSuite):
    name = "gaussian_yolo_loss"
    layers = gaussian
    texts = {"other_anchors": ["None", "(1, 2)", "(1, 0)"], "box_loss": ["nll", "mse"], "point": ["left_top", "middle"],
             "uc_normalizer": ["0", "-1"]}
    cases = (
        Case("nll", ((2, 24, 1, 3), (2, 3, 5)), TWO),
        Case("larger", ((1, 24, 2, 2), (1, 4, 5)), TWO),
        Case("bdd", ((1, 24, 3, 5), (1, 7, 5)), BDD),
        Case("smooth", ((1, 24, 2, 2), (1, 7, 5)), SMOOTH),
        Case("ciou", ((1, 24, 3, 2), (1, 8, 5)), {**BDD, "box_loss": "ciou", "point": "right_bottom"}),
    )
    empty = Case("empty", ((0, 24, 2, 3), (0, 4, 5)), TWO)
    # One cell, one anchor as large as the image, all numbers 0: means in the middle of the cell, deviations of 1/2.
    # By a deviation the density decreases by 1 / (1/2 + 0.3), half of which counts. Next the truth lies a quarter
    # beside the mean: a score of 1/2. And if x and y are the corner, the mean lies half a cell beside it: 1.
    table = (
        Row("right_box", (np.zeros((1, 11, 1, 1)), [[[0.5, 0.5, 1, 1, 1]]]), {"anchors": (1, 1), "classes": 2},
            [-2 * np.log(density(0)) + 3 * np.log(2)], [2],
            (np.reshape([0, 1.25, 0, 1.25, 0, 1.25, 0, 1.25, -1, 1, -1], (1, 11, 1, 1)), np.zeros((1, 1, 5)))),
        Row("beside", (np.zeros((1, 11, 1, 1)), [[[0.75, 0.5, 1, 1, 1]]]), {"anchors": (1, 1), "classes": 2},
            [-np.log(density(0.5)) / 2 - 1.5 * np.log(density(0)) + 3 * np.log(2)], [2],
            (np.reshape([-1, 0.75, 0, 1.25, 0, 1.25, 0, 1.25, -1, 1, -1], (1, 11, 1, 1)), np.zeros((1, 1, 5)))),
        Row("corner", (np.zeros((1, 11, 1, 1)), [[[0.5, 0.5, 1, 1, 1]]]),
            {"anchors": (1, 1), "classes": 2, "point": "left_top"},
            [-np.log(density(1)) - np.log(density(0)) + 3 * np.log(2)], [2],
            (np.reshape([2, -0.75, 2, -0.75, 0, 1.25, 0, 1.25, -1, 1, -1], (1, 11, 1, 1)), np.zeros((1, 1, 5)))),
    )
    errors = (
        Bad("channels", ((1, 16, 2, 2), (1, 3, 5)), TWO, "data has shape (1, 16, 2, 2); expected (batch, 24, "
            "height, width) with anchors * (9 + classes) = 24. Change the layer in front or the attributes."),
        Bad("columns", ((2, 24, 2, 2), (2, 3, 6)), TWO,
            "truth has shape (2, 3, 6); expected (batch, truths, 5)", first=False),
        Bad("box_loss", ((1, 24, 2, 2), (1, 3, 5)), {**TWO, "box_loss": "mse"}, "box_loss is 'mse'; expected"),
    )
    determined = (
        ({"data": (2, 24, 3, 4)}, TWO,
         {"data": (2, 24, 3, 4), "truth": (2, -1, 5), "output": (2,), "parts": (2, 9), "gradient": (2, 24, 3, 4)}),
    )

    def scalar(self, attrs, head, data, truth):
        return sum(h * image.scalar(start, numbers) for h, image, start, numbers in
                   zip(head, self.assignments, self.start, oracle.split(data, attrs.classes)))

    def oracle_gradient(self, attrs, head, data, truth):
        self.assignments = oracle.images(attrs, data, truth)
        self.start = oracle.split(data, attrs.classes).copy()
        return super().oracle_gradient(attrs, head, data, truth)

    def test_finite_differences_of_the_reference(self, backend):
        """The gradient that runs, times the slopes of a box's sigmoids, is the derivative of the forward pass."""
        inputs, head, slopes, numeric = sigmoid_differences()
        _, gradients = self.run(self.cases[1], inputs, head, backend)
        np.testing.assert_allclose(gradients["data"] * slopes, numeric, rtol=1e-6, atol=1e-6)

    @pytest.mark.parametrize("recorded", GAUSSIAN_CASES[::7])
    def test_darknets_deltas(self, recorded, backend):
        """The gradient that runs is minus what the program computes."""
        self.compare_with_recorded(recorded, backend)

    def compare_with_recorded(self, case, backend, of_parts=5e-5):
        super().compare_with_recorded(case, backend, of_parts)


@functools.cache
def sigmoid_differences():
    """Inputs of the second case, a head gradient, the slopes of the sigmoids, and what the forward pass differs by."""
    suite, case, rng = TestGaussianYoloLoss(), TestGaussianYoloLoss.cases[1], np.random.RandomState(0)
    data, truth = suite.draw(case, "float64", rng)
    head = suite.head(case, [data, truth], rng)
    slopes = np.ones(data.shape)
    for channel in (0, 1, 2, 3, 5, 7):
        p = oracle.sigmoid(oracle.split(data, 3)[:, :, channel])
        oracle.split(slopes, 3)[:, :, channel] = p * (1 - p)
    with gops.backend("builtin"):
        net = suite.net(case, "static")
        net(*[mx.nd.array(a, dtype=a.dtype) for a in (data, truth)])

    def scalar():
        return (net(*[mx.nd.array(a, dtype=a.dtype) for a in (data, truth)]).asnumpy() * head).sum()

    return (data, truth), head, slopes, suite.central_difference(scalar, data)


def test_the_oracle_computes_darknets_deltas():
    """Darknet's float32 is the less exact one where a density is nearly 0."""
    for recorded in GAUSSIAN_CASES[::4]:
        case = gaussian(recorded)
        attrs = registry.get("gaussian_yolo_loss").op.parse(case.attrs)
        results = oracle.forward(attrs, case.input.astype("float64"), case.truth.astype("float64"))
        np.testing.assert_allclose(results["gradient"], case.gradient, rtol=5e-5, atol=5e-5)


@pytest.mark.parametrize("backend", ["custom", "reference", "native", "builtin"], indirect=True)
class TestEdges(YoloEdges):
    name, channels, sizes = "gaussian_yolo_loss", 24, [4, 6]
    untidy = (SMOOTH,)
    overlap_loss = BDD

    def test_without_a_deviation(self, backend):
        """The mean of x and y is that of the ground truth; those of w and h are not."""
        data = np.zeros((1, 24, 1, 1), "float32")
        data[:, [1, 3, 5, 7]] = -120   # their sigmoid is 0 in float32
        with gops.backend(backend):
            loss, gradient = self.run([[BOX]], data, **BDD)
        assert np.isfinite(loss).all() and np.isfinite(gradient).all()


def test_the_block_sums_the_heads():
    case = gaussian("c00")
    options = {name: value for name, value in case.attrs.items() if name not in ("anchors", "other_anchors")}
    loss = gops.loss.GaussianYOLOLoss(case.anchors.ravel().tolist(), [case.mask] * 2, [STRIDE] * 2, **options)
    pred, truth = mx.nd.array(case.input), mx.nd.array(case.truth)
    loss([pred, pred], truth)
    np.testing.assert_allclose(loss.report()["cost"].asscalar(), 2 * case.cost, rtol=2e-5)
    with pytest.raises(gops.OpError, match="gaussian_yolo_loss: preds has 1 array; expected 2"):
        loss(pred, truth)
