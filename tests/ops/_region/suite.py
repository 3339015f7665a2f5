"""What the suites of the losses of YOLO's maps share."""
import gluonops as gops
import mxnet as mx
import numpy as np
import oracles
from gluonops.contract import registry
from mxnet import autograd
from op_suite import TOLERANCE, Case, OpSuite, recorded

TWO = {"anchors": (1.5, 0.5, 0.75, 2.0), "other_anchors": (2.5, 2.5), "classes": 3, "ignore_thresh": 0.4}   # a head's
BOX = (0.5, 0.5, 0.3, 0.1, 2)
NOTHING = (0.0,) * 5
ROUNDING = 2.0 ** -24   # the relative error of a number in float32
FEW = 100               # numbers of a map that is drawn until float16 decides nothing in it


class MapLossSuite(OpSuite):
    """A class of a test derives from it."""

    own_shapes = ("truth",)
    undefined = ("inf", "-inf", "nan", "max")   # it is not defined which truth a box without a size overlaps
    needs_types = ("float16",)   # float16 puts a ground truth into another cell

    def draw(self, case, dtype, rng, label_dtype="float32"):
        """A few images may be drawn again for float16, in which rounding must not decide what a prediction is."""
        arrays = super().draw(case, dtype, rng, label_dtype)
        for _ in range(9 if dtype == "float16" and arrays[0].size <= FEW else 0):
            if self._is_steady(case, *(array.astype("float64") for array in arrays)):
                break
            arrays = super().draw(case, dtype, rng, label_dtype)
        return arrays

    def compare(self, case, dtype, arrays, head, backend, **how):
        """A builtin graph computes a larger map of float16 as float32.

        It rounds after each of its operators, and so float16 moves some of many predictions over a threshold. The
        kernels round at the end alone.
        """
        if backend == "builtin" and dtype == "float16" and arrays[0].size > FEW:
            dtype, arrays = "float32", [array.astype("float32") for array in arrays]
        super().compare(case, dtype, arrays, head, backend, **how)

    def _is_steady(self, case, *inputs):
        """Return whether no threshold is as near as float16 moves a number in a graph of several operators."""
        rng, head = np.random.RandomState(0), np.ones(len(inputs[0]))
        expected, *moved = (self.oracle_gradient(self.typed(case), head, *arrays)["data"] for arrays in (
            inputs, *(_rounded(rng, 2.0 ** -9, *inputs) for _ in range(3))))
        return max(_largest(gradient - expected) for gradient in moved) < 0.1 * _largest(expected)

    def amplification(self, attrs, backend, *inputs):
        """How many times larger than the rounding of the inputs is the change that it makes in the gradient.

        The overlap of small boxes is a difference of places: what rounding moves in an image, 3e-8, is 5e-6 of a box of
        0.006 of the image. And next to a threshold both of its sides are right.
        """
        rng, head = np.random.RandomState(0), np.ones(len(inputs[0]))

        def gradient(data, truth, *others):
            return self.oracle_gradient(attrs, head, data, truth, *others)["data"]

        expected = gradient(*inputs)
        change = max(_largest(gradient(*_rounded(rng, ROUNDING, *inputs)) - expected) for _ in range(4))
        return max(1.0, change / (ROUNDING * max(1.0, _largest(expected))))


def _rounded(rng, step, data, truth, *others):
    """Return the inputs, with each number and each box as far away as rounding moves it."""
    data, truth = (array * (1 + rng.choice([-step, step], array.shape)) for array in (data, truth))
    truth[..., 4] = np.round(truth[..., 4])   # the class
    return data, truth, *others


def _largest(array):
    return np.abs(array[np.isfinite(array)]).max(initial=0)


class YoloSuite(MapLossSuite):
    """The same, of the losses of YOLOv3's to YOLOv7's heads. ``layers`` are the recorded ones."""

    layers = None
    small = {"anchors": (0.0178, 0.0178), "classes": 2, "box_loss": "ciou"}   # 0.006 of the image

    def test_small_boxes(self, backend, rng):
        """They are as exact as rounding the inputs lets them be."""
        case = Case("small", ((1, self.layers.numbers + 2, 3, 3), (1, 4, 5)), self.small)
        for dtype in ("float32", "float64"):
            arrays = self.draw(case, dtype, rng)
            head = np.ones(1, dtype)
            _, expected = self.expected(case, arrays, head)
            _, gradients = self.run(case, arrays, head, backend)
            amplification = self.amplification(self.typed(case), backend, *(array.astype("f8") for array in arrays))
            tolerance = TOLERANCE[dtype] * amplification * max(1, _largest(expected["data"]))
            np.testing.assert_allclose(gradients["data"], expected["data"], TOLERANCE[dtype], tolerance)

    def test_all_of_darknets_deltas(self):
        for case in self.layers.cases:
            self.compare_with_recorded(case, "native")

    def compare_with_recorded(self, case, backend, of_parts=2e-5):
        """The gradient and the cost are within 2e-5 of the program's, and the parts are the oracle's."""
        case = self.layers(case)
        inputs = [mx.nd.array(a) for a in (case.input, case.truth)]
        inputs[0].attach_grad()
        with gops.backend(backend), autograd.record():
            loss, parts = self.function(*inputs, **case.attrs, parts=True)
        loss.backward()
        np.testing.assert_allclose(inputs[0].grad.asnumpy(), case.gradient, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(parts[:, 4].sum().asscalar(), case.cost, rtol=2e-5)
        wide = case.input.astype("float64"), case.truth.astype("float64")
        expected = oracles.get(self.name).forward(self.op.parse(case.attrs), *wide)["parts"]
        np.testing.assert_allclose(parts.asnumpy(), expected, rtol=of_parts, atol=of_parts)
        np.testing.assert_allclose(loss.asnumpy(), expected[:, :4].sum(axis=1), rtol=of_parts)


class YoloEdges:
    """Unusual ground truths and numbers, in every backend. A class of a test derives from it."""

    name = None          # the operator
    channels = None      # those of two anchors and three classes
    sizes = None         # the channels of w and h
    untidy = ()          # attributes
    overlap_loss = {}    # attributes, without a limit of the derivatives

    def run(self, truth, data, **attrs):
        function = getattr(gops.ops, self.name)
        return recorded(lambda data: function(data, mx.nd.array(truth), **attrs), data)

    def random(self, images):
        return np.random.RandomState(0).randn(images, self.channels, 3, 5).astype("float32")

    def test_untidy_ground_truth(self, backend):
        """Centres and corners are at the borders and outside; there are padding, crowds, and an image without any."""
        truth = np.array([[(1, 1, 0.3, 0.1, 2), NOTHING, (0, 0.5, 0.15, 0.6, 1), (0, 0.5, 0.16, 0.6, 0)],
                          [BOX, BOX, (0.5, 0.5, 0.31, 0.1, 1), BOX], [NOTHING] * 4], "float32")
        data = self.random(3)
        for attrs in self.untidy:
            with gops.backend(backend):
                loss, gradient = self.run(truth, data, **attrs)
            typed = registry.get(self.name).op.parse(attrs)
            expected = oracles.get(self.name).forward(typed, data.astype("float64"), truth.astype("float64"))
            np.testing.assert_allclose(loss, expected["output"], rtol=1e-5)
            np.testing.assert_allclose(gradient, expected["gradient"], rtol=1e-4, atol=1e-5)

    def test_an_invalid_row_makes_its_image_nan(self, backend, monkeypatch):
        monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "0")
        with gops.backend(backend):
            loss, gradient = self.run([[BOX, (0.5, 0.5, 0.3, 0.1, 3)], [BOX, NOTHING]], self.random(2), **TWO)
        assert np.isnan(loss[0]) and np.isnan(gradient[0]).all()
        assert np.isfinite(loss[1]) and np.isfinite(gradient[1]).all()

    def test_large_sizes_have_a_finite_gradient(self, backend):
        data = np.zeros((1, self.channels, 1, 1), "float32")
        data[:, self.sizes] = 80   # exp(80) squared is infinite
        with gops.backend(backend):
            assert np.isfinite(self.run([[BOX]], data, **self.overlap_loss)[1]).all()
