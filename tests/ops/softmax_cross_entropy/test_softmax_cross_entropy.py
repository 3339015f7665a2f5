import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from op_suite import Bad, Case, OpSuite, Row, recorded
from ops._softmax.oracle import nll, softmax

WEIGHTS = (0.5, 2, 0, 1, 0.25)


class TestSoftmaxCrossEntropy(OpSuite):
    name = "softmax_cross_entropy"
    cases = (
        Case("rows", ((3, 5), (3,))),
        Case("one_row", ((1, 5), (1,))),
        Case("rank_3", ((2, 3, 5), (2, 3))),
        Case("one_class", ((4, 1), (4,))),
        Case("channels", ((2, 5, 3, 7), (2, 3, 7)), {"axis": 1}),
        Case("first_axis", ((5, 3), (3,)), {"axis": 0}),
        Case("kept_axis", ((3, 5), (3, 1))),
        Case("kept_channels", ((2, 5, 3), (2, 1, 3)), {"axis": 1}),
        Case("smooth", ((3, 5), (3,)), {"smoothing": 0.1}),
        Case("ignore", ((11, 5), (11,)), {"ignore_label": -1}),
        Case("ignore_smooth", ((2, 5, 7), (2, 7)), {"axis": 1, "ignore_label": 255, "smoothing": 0.25}),
        Case("dense", ((3, 5), (3, 5)), {"sparse_label": False}),
        Case("dense_smooth", ((2, 5, 3), (2, 5, 3)), {"sparse_label": False, "axis": 1, "smoothing": 0.1}),
        Case("weights", ((7, 5), (7,)), {"class_weight": WEIGHTS}),
        Case("smooth_weights", ((2, 5, 7), (2, 7)), {"axis": 1, "class_weight": WEIGHTS, "smoothing": 0.25,
                                                      "ignore_label": 255}),
        Case("smooth_weights_rows", ((3, 5), (3,)), {"class_weight": WEIGHTS, "smoothing": 0.1}),
        Case("dense_weights", ((3, 5), (3, 5)), {"sparse_label": False, "class_weight": WEIGHTS, "smoothing": 0.1}),
        Case("dense_weights_columns", ((2, 5, 3), (2, 5, 3)), {"sparse_label": False, "axis": 1,
                                                                "class_weight": WEIGHTS}),
        Case("one_weight", ((3, 5), (3,)), {"class_weight": 2.5}),
        Case("many_rows", ((1031, 3), (1031,))),
        Case("many_classes", ((3, 1031), (3,)), {"smoothing": 0.1}),
    )
    empty = Case("empty", ((0, 3), (0,)))
    table = (
        Row("even", ([[0, 0], [np.log(3), 0]], [0, 1]), {}, [np.log(2), np.log(4)], [1, 2],
            ([[-0.5, 0.5], [1.5, -1.5]], [0, 0])),
        Row("smooth", ([[np.log(3), 0]], [1]), {"smoothing": 0.5}, [0.75 * np.log(4) + 0.25 * np.log(4 / 3)], [1],
            ([[0.5, -0.5]], None)),
        Row("ignored", ([[0, 0], [0, 0]], [9, 1]), {"ignore_label": 9}, [0, np.log(2)], [1, 1],
            ([[0, 0], [0.5, -0.5]], None)),
        Row("weights", ([[np.log(3), 0]] * 2, [0, 1]), {"class_weight": (2, 4), "smoothing": 0.5},
            [1.5 * np.log(4 / 3) + np.log(4), 0.5 * np.log(4 / 3) + 3 * np.log(4)], [1, 2],
            ([[3 / 8, -3 / 8], [2 * 17 / 8, -2 * 17 / 8]], None)),
        Row("dense", ([[np.log(3), 0]], [[0.5, 0.5]]), {"sparse_label": False}, [0.5 * np.log(16 / 3)], [2],
            ([[0.5, -0.5]], [[2 * np.log(4 / 3), 2 * np.log(4)]])),
    )
    errors = (
        Bad("label", ((4, 3), (5,)), {}, "label has shape (5,); expected (4,) to match data of shape (4, 3)",
            first=False),
        Bad("kept_axis", ((4, 3), (4, 3)), {},
            "label has shape (4, 3); expected (batch, 1). Pass class indices; or "
            "pass probabilities, such as one-hot labels, with sparse_label=False"),
        Bad("dense", ((4, 3), (4,)), {"sparse_label": False},
            "label has shape (4,); expected 2 dimensions (batch, classes)"),
        Bad("vector", ((4,), (1,)), {"axis": 0}, "data has 1 dimension; expected at least 2: a batch of rows",
            first=False),
        Bad("smoothing", ((4, 3), (4,)), {"smoothing": 1}, "expected a finite number of at least 0 and below 1"),
        Bad("weights", ((4, 3), (4,)), {"class_weight": (1.0, 2.0)},
            "class_weight has 2 numbers; expected 3, one for each of the classes. Pass another class_weight"),
        Bad("weight", ((4, 3), (4,)), {"class_weight": (1.0, -2.0, 1.0)},
            "expected None or a finite number of at least 0, or a tuple of them"),
        Bad("both", ((4, 3), (4, 3)), {"sparse_label": False, "ignore_label": 1},
            "ignore_label is 1 and sparse_label is False"),
        Bad("dense_dtype", ((4, 3), (4, 3)), {"sparse_label": False},
            "label has dtype float64; expected float32, the dtype of data", ("float32", "float64")),
    )
    texts = {"smoothing": ["0", "0.999", "1", "-0.1", "1e-400"], "sparse_label": ["TRUE", "2"],
             "ignore_label": ["255"],
             "class_weight": ["(1, 2, 0, 3, 0.5)", "[1,2,0,3,.5,]", "2.5", "(1, 2)", "None",
                              "none", "()", "(1, 2, 0, 3, -1)", "(1, nan, 0, 3, 1)", ""]}
    determined = (
        ({"data": (2, 3)}, {}, {"data": (2, 3), "label": (2,), "output": (2,), "max": (2,), "log_sum": (2,)}),
        ({"data": (-1, 3), "label": (2, 1)}, {},
         {"data": (2, 3), "label": (2, 1), "output": (2, 1), "max": (2, 1), "log_sum": (2, 1)}),
    )


def run(data, label, backend, **attrs):
    with gops.backend(backend):
        return recorded(gops.ops.softmax_cross_entropy, np.float32(data), np.float32(label), **attrs)


@pytest.mark.parametrize("backend", ["custom", "reference", "native", "builtin", "cuda"], indirect=True)
class TestEdges:
    @pytest.mark.parametrize("label", [-1, 3, 1.5, np.nan, 1e30, -1e30])
    def test_a_label_that_is_no_class(self, label, backend, monkeypatch):
        monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "0")
        loss, gradient = run([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]], [label, 0], backend)
        assert np.isnan(loss[0]) and np.isnan(gradient[0]).all()
        np.testing.assert_allclose(loss[1], np.log(3), rtol=1e-6)
        np.testing.assert_allclose(gradient[1], [-2 / 3, 1 / 3, 1 / 3], rtol=1e-6)

    def test_all_ignored(self, backend):
        loss, gradient = run([[1.0, 2.0], [np.nan, np.inf]], [-1, -1], backend, ignore_label=-1)
        np.testing.assert_array_equal(loss, [0, 0])
        np.testing.assert_array_equal(gradient, np.zeros((2, 2)))

    def test_large_logits(self, backend):
        data = np.array([[1e4, -1e4, 0], [-1e4, -1e4, -1e4 + 1]], "f")
        loss, gradient = run(data, [1, 2], backend)
        wide = data.astype("f8")
        np.testing.assert_allclose(loss, nll(wide, -1)[[0, 1], [1, 2]], rtol=1e-6)
        np.testing.assert_allclose(gradient, softmax(wide, -1) - [[0, 1, 0], [0, 0, 1]], rtol=1e-5, atol=1e-6)

    def test_head_gradient(self, backend):
        """(w * loss).backward() weights the rows."""
        data = mx.nd.array([[0.0, 0.0], [0.0, 0.0]])
        data.attach_grad()
        with gops.backend(backend), autograd.record():
            (mx.nd.array([1.0, 10.0]) * gops.ops.softmax_cross_entropy(data, mx.nd.array([0, 1]))).backward()
        np.testing.assert_allclose(data.grad.asnumpy(), [[-0.5, 0.5], [5, -5]], rtol=1e-6)


@pytest.mark.parametrize("ignore_label", [None, -1, 2 ** 24, 2 ** 24 + 1])
@pytest.mark.parametrize("columns", [3, 12, 33])
def test_labels_in_float32_name_the_classes_of_float64(columns, ignore_label, monkeypatch):
    """C++ reads them by vectors."""
    monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "0")
    labels = np.resize([0, 4, -0.0, -1, 5, 1.5, np.nan, np.inf, -np.inf, 2 ** 24, 3], (7, columns))
    data = np.random.standard_normal((7, 5, columns)).astype("f")
    with gops.backend("native"):
        of_vectors, of_numbers = (recorded(gops.ops.softmax_cross_entropy, data, labels.astype(dtype), axis=1,
                                           ignore_label=ignore_label) for dtype in ("float32", "float64"))
    for by_vectors, by_numbers in zip(of_vectors, of_numbers):
        np.testing.assert_array_equal(by_vectors, by_numbers)


DROP_IN = {
    "plain": ({}, (4, 5), (4,), None),
    "kept_axis": ({}, (4, 5), (4, 1), None),
    "channels": ({"axis": 1}, (2, 5, 3), (2, 3), None),
    "dense": ({"sparse_label": False}, (4, 5), (4, 5), None),
    "weight": ({"weight": 2.5}, (4, 5), (4,), None),
    "sample_weight": ({}, (4, 5), (4,), (4, 1)),
    "sequence": ({"weight": 0.5}, (2, 3, 5), (2, 3), (2, 3, 1)),
    "batch_axis": ({"batch_axis": 1}, (3, 2, 5), (3, 2), None),
    "log_probabilities": ({"from_logits": True}, (4, 5), (4,), None),
    "dense_log_probabilities": ({"from_logits": True, "sparse_label": False}, (4, 5), (4, 5), None),
}


@pytest.mark.parametrize("backend", ["custom", "native", "builtin", "cuda"], indirect=True)
@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("name", DROP_IN)
def test_drop_in_for_gluon(name, hybridize, backend, rng):
    """Arguments, losses and gradients are those of gluon.loss.SoftmaxCrossEntropyLoss."""
    options, pred_shape, label_shape, weight_shape = DROP_IN[name]
    pred = rng.randn(*pred_shape)
    label = rng.rand(*label_shape) if options.get("sparse_label") is False else rng.randint(0, 5, label_shape)
    weight = [] if weight_shape is None else [mx.nd.array(rng.rand(*weight_shape))]
    results = []
    for make in (gluon.loss.SoftmaxCrossEntropyLoss, gops.loss.SoftmaxCELoss):
        inputs = [mx.nd.array(pred), mx.nd.array(label)]
        for array in inputs:
            array.attach_grad()
        with gops.backend(backend):
            loss = make(**options)
            if hybridize:
                loss.hybridize()
            with autograd.record():
                value = loss(*inputs, *weight)
            value.backward()
        results.append([value.asnumpy()] + [array.grad.asnumpy() for array in inputs])
    for theirs, ours in zip(*results):   # theirs is off by up to 4e-6 from float64 (oneDNN's softmax), ours by 1e-7
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_from_logits_takes_no_smoothing():
    with pytest.raises(gops.OpError, match="from_logits is True, smoothing is 0.1 and ignore_label is None; expected"):
        gops.loss.SoftmaxCELoss(from_logits=True, smoothing=0.1)


@pytest.mark.parametrize("attrs", [{"class_weight": WEIGHTS}, {"class_weight": WEIGHTS, "smoothing": 0.1},
                                   {"ignore_label": 9}, {"class_weight": 3.0, "ignore_label": 9}])
@pytest.mark.parametrize("hybridize", [False, True])
def test_the_weighted_mean_is_pytorchs(attrs, hybridize, rng):
    """torch's formula in NumPy divides losses and gradient by the sum of the weights of the labels that count."""
    pred = rng.randn(2, 5, 3)
    label = np.array([[0, 1, 9 if "ignore_label" in attrs else 4], [3, 3, 1]])
    weights = np.broadcast_to(attrs.get("class_weight", 1.0), 5)
    counts = label != 9
    row_weights = np.where(counts, weights[label % 5], 0)
    minus_log_p = np.moveaxis(nll(pred, 1), 1, -1)
    smoothing = attrs.get("smoothing", 0)
    own = np.take_along_axis(minus_log_p, label[..., None] % 5, -1)[..., 0] * weights[label % 5]
    rows = (1 - smoothing) * own + smoothing / 5 * (minus_log_p * weights).sum(-1)
    expected = (rows * counts).sum() / row_weights.sum()

    loss = gops.loss.SoftmaxCELoss(axis=1, weighted_mean=True, **attrs)
    if hybridize:
        loss.hybridize()
    data = mx.nd.array(pred)
    data.attach_grad()
    with autograd.record():
        value = loss(data, mx.nd.array(label))
        mean = value.mean()
    mean.backward()
    assert value.shape == (2,)
    np.testing.assert_allclose(mean.asscalar(), expected, rtol=1e-5)
    plain = mx.nd.array(pred)
    plain.attach_grad()
    with autograd.record():
        gops.ops.softmax_cross_entropy(plain, mx.nd.array(label), axis=1, **attrs).sum().backward()
    np.testing.assert_allclose(data.grad.asnumpy(), plain.grad.asnumpy() / row_weights.sum(), rtol=1e-5, atol=1e-7)


def test_the_weighted_mean_of_nothing():
    """It is 0 and not NaN, if every row is ignored."""
    loss = gops.loss.SoftmaxCELoss(ignore_label=9, weighted_mean=True)
    np.testing.assert_array_equal(loss(mx.nd.ones((2, 3)), mx.nd.array([9, 9])).asnumpy(), [0, 0])
    with pytest.raises(gops.OpError, match="weighted_mean is True, from_logits is False and sparse_label is False"):
        gops.loss.SoftmaxCELoss(sparse_label=False, weighted_mean=True)
    with pytest.raises(gops.OpError, match="from_logits is True and class_weight is set"):
        gops.loss.SoftmaxCELoss(from_logits=True, class_weight=WEIGHTS)
