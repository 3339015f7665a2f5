import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from in_turn import in_turn
from mxnet import autograd
from op_suite import CUSTOM, Bad, Case, OpSuite, Row


class TestCenterLoss(OpSuite):
    name = "center_loss"
    undefined = ("max",)   # sums of differences
    cases = (
        Case("repeated", ((7, 5), (7,), (4, 5))),      # more samples than classes
        Case("absent", ((3, 5), (3,), (11, 5))),       # fewer
        Case("one_sample", ((1, 5), (1,), (4, 5))),
        Case("one_class", ((5, 3), (5,), (1, 3))),
        Case("one_feature", ((6, 1), (6,), (3, 1))),
        Case("ones", ((1, 1), (1,), (1, 1))),
        Case("many_samples", ((1031, 2), (1031,), (10, 2))),
        Case("many_classes", ((3, 2), (3,), (1031, 2))),
        Case("many_features", ((4, 1031), (4,), (3, 1031))),
    )
    empty = Case("empty", ((0, 3), (0,), (4, 3)))
    table = (
        Row("two_of_one", ([[1, 2], [3, 0], [0, 0]], [1, 1, 0], [[0, 1], [1, 1], [5, 5]]), {}, [0.5, 2.5, 0.5],
            [1, 2, 10], ([[0, 1], [4, -2], [0, -10]], [0, 0, 0], [[0, 10], [-4, 1], [0, 0]])),
        Row("at_the_centre", ([[3, 4]], [0], [[3, 4]]), {}, [0], [7], ([[0, 0]], [0], [[0, 0]])),
    )
    errors = (
        Bad("label", ((4, 3), (5,), (2, 3)), {}, "label has shape (5,); expected (4,) to match data of shape (4, 3)",
            first=False),
        Bad("kept_axis", ((4, 3), (4, 1), (4, 3)), {}, "label has shape (4, 1); expected 1 dimension (batch,)"),
        Bad("features", ((4, 3), (4,), (4, 5)), {},
            "centers has shape (4, 5); expected (classes, 3) to match data of shape (4, 3)"),
        Bad("rank", ((4, 3, 1), (4,), (2, 3)), {}, "data has shape (4, 3, 1); expected 2 dimensions (batch, features)",
            first=False),
        Bad("dtype", ((4, 3), (4,), (4, 3)), {}, "centers has dtype float64; expected float32, the dtype of data",
            ("float32", "float32", "float64")),
    )
    determined = (
        ({"data": (2, 3), "centers": (4, -1)}, {}, {"data": (2, 3), "label": (2,), "centers": (4, 3), "output": (2,)}),
        ({"data": (-1, 3), "label": (2,)}, {}, {"data": (2, 3), "label": (2,), "centers": (-1, 3), "output": (2,)}),
    )

    def test_shape_inference(self, case, rng):
        """Shapes follow from the data and the number of classes."""
        data, label, centers = case.shapes
        arguments, outputs, _ = self.symbol(case).infer_shape(node_data=data, node_centers=centers)
        assert (arguments, outputs) == ([data, label, centers], [label])
        assert self.symbol(case).infer_shape_partial(node_data=data)[0][2] == (0, centers[1])

    def test_a_graph_without_the_number_of_classes(self, backend):
        """The shape stays open: MXNet dies of a library's operator with two inputs that it knows nothing of."""
        with gops.backend(backend):
            graph = gops.ops.center_loss(*map(mx.sym.var, ("data", "label", "centers")), name="node")
        assert graph.infer_shape_partial(data=(7, 5))[0][0] == (7, 5)
        arguments, outputs, _ = graph.infer_shape(data=(7, 5), label=(7,), centers=(4, 5))
        assert (arguments, outputs) == ([(7, 5), (7,), (4, 5)], [(7,)])

    def test_no_samples_no_pull(self, backend):
        """The centres' gradient of an empty batch is 0, where it is written and where it is added to."""
        for request, expected in (("write", 0), ("add", 7)):
            with mx.util.np_shape(True):
                data, label, centers = mx.nd.zeros((0, 3)), mx.nd.zeros((0,)), mx.nd.ones((4, 3))
                centers.attach_grad(request)
                centers.grad[:] = 7
                with gops.backend(backend), autograd.record():
                    loss = gops.ops.center_loss(data, label, centers)
                loss.backward()
                np.testing.assert_array_equal(centers.grad.asnumpy(), np.full((4, 3), expected))


@pytest.mark.parametrize("backend", [CUSTOM, "native", "builtin", "cuda"], indirect=True)
class TestEdges:
    @in_turn("label", [-1, 3, 1.5, np.nan, np.inf, 1e30, -1e30])
    def test_a_label_that_is_no_class(self, label, backend, monkeypatch):
        """Its sample is NaN; the others, and every centre, are as if it were not there."""
        monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "0")
        data, centers = mx.nd.array([[1, 2], [5, 5], [3, 4]]), mx.nd.array([[0, 0], [1, 1], [2, 2]])
        for array in (data, centers):
            array.attach_grad()
        with gops.backend(backend), autograd.record():
            loss = gops.ops.center_loss(data, mx.nd.array([0, label, 2]), centers)
        loss.backward()
        np.testing.assert_array_equal(loss.asnumpy(), [2.5, np.nan, 2.5])
        np.testing.assert_array_equal(data.grad.asnumpy(), [[1, 2], [np.nan, np.nan], [1, 2]])
        np.testing.assert_array_equal(centers.grad.asnumpy(), [[-1, -2], [0, 0], [-1, -2]])

    def test_labels_are_checked_on_request(self, backend, monkeypatch):
        if backend == "builtin":
            pytest.skip("MXNet's own operators do not look")
        monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "1")
        with gops.backend(backend), pytest.raises((gops.OpError, mx.MXNetError)) as caught:
            gops.ops.center_loss(mx.nd.ones((2, 3)), mx.nd.array([1, 7]), mx.nd.ones((4, 3))).wait_to_read()
        assert ("gluonops.center_loss: label[1] is 7; expected a whole number from 0 to 3. Correct the labels."
                in str(caught.value))

    def test_a_nan_stays_with_its_class(self, backend):
        data, centers = mx.nd.array([[1, 2], [np.nan, 5]]), mx.nd.zeros((3, 2))
        centers.attach_grad()
        with gops.backend(backend), autograd.record():
            loss = gops.ops.center_loss(data, mx.nd.array([0, 2]), centers)
        loss.backward()
        np.testing.assert_array_equal(loss.asnumpy(), [2.5, np.nan])
        np.testing.assert_array_equal(centers.grad.asnumpy(), [[-1, -2], [0, 0], [np.nan, -5]])

    def test_head_gradient(self, backend):
        """(w * loss).backward() weights the samples, for the features and for the centres."""
        data, centers = mx.nd.array([[1, 2], [3, 4]]), mx.nd.zeros((1, 2))
        for array in (data, centers):
            array.attach_grad()
        with gops.backend(backend), autograd.record():
            (mx.nd.array([1, 10]) * gops.ops.center_loss(data, mx.nd.array([0, 0]), centers)).backward()
        np.testing.assert_array_equal(data.grad.asnumpy(), [[1, 2], [30, 40]])
        np.testing.assert_array_equal(centers.grad.asnumpy(), [[-31, -42]])

    def test_in_module(self, backend):
        """The number of classes comes with the variable; fixed_param_names holds the centres."""
        with gops.backend(backend):
            centers = mx.sym.var("centers", shape=(4, 3), init=mx.init.One())
            loss = mx.sym.make_loss(gops.ops.center_loss(mx.sym.var("data"), mx.sym.var("label"), centers))
        for fixed, expected in (([], [[0.5, 0.5, 0.5], [1, 1, 1]]), (["centers"], [[1, 1, 1], [1, 1, 1]])):
            module = mx.mod.Module(loss, ["data"], ["label"], fixed_param_names=fixed)
            module.bind([("data", (2, 3))], [("label", (2,))])
            module.init_params()
            module.init_optimizer("local", "sgd", {"learning_rate": 0.5, "rescale_grad": 0.5, "wd": 0})
            module.forward_backward(mx.io.DataBatch([mx.nd.zeros((2, 3))], [mx.nd.array([0, 0])]))
            module.update()
            np.testing.assert_allclose(module.get_params()[0]["centers"].asnumpy()[:2], expected)
