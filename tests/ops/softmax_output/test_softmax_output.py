import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd
from op_suite import Bad, Case, OpSuite, Row, recorded
from ops._softmax.oracle import softmax


class TestSoftmaxOutput(OpSuite):
    name = "softmax_output"
    cases = (
        Case("rows", ((3, 5), (3,))),
        Case("one_row", ((1, 5), (1,))),
        Case("rank_3", ((2, 3, 5), (2, 3))),
        Case("one_class", ((4, 1), (4,))),
        Case("channels", ((2, 5, 3, 7), (2, 3, 7)), {"axis": 1}),
        Case("first_axis", ((5, 3), (3,)), {"axis": 0}),
        Case("scaled", ((3, 5), (3,)), {"grad_scale": -0.5}),
        Case("batch", ((2, 5, 3), (2, 3)), {"axis": 1, "normalization": "batch"}),
        Case("valid", ((2, 5, 3), (2, 3)), {"axis": 1, "normalization": "valid"}),
        Case("ignore", ((11, 5), (11,)), {"ignore_label": -1}),
        Case("ignore_valid", ((2, 5, 7), (2, 7)), {"axis": 1, "ignore_label": 255, "normalization": "valid"}),
        Case("ignore_batch", ((11, 5), (11,)), {"ignore_label": 2, "normalization": "batch"}),
        Case("many_rows", ((1031, 3), (1031,)), {"normalization": "valid"}),
        Case("many_classes", ((3, 1031), (3,))),
    )
    empty = Case("empty", ((0, 3), (0,)))
    table = (
        Row("even", ([[0, 0], [np.log(3), 0]], [0, 1]), {}, [[0.5, 0.5], [0.75, 0.25]], [[9, 9], [9, 9]],
            ([[-0.5, 0.5], [0.75, -0.75]], [0, 0])),
        Row("batch", ([[0, 0], [np.log(3), 0]], [0, 1]), {"normalization": "batch"}, [[0.5, 0.5], [0.75, 0.25]],
            [[9, 9], [9, 9]], ([[-0.25, 0.25], [0.375, -0.375]], None)),
        Row("ignored", ([[0, 0], [np.log(3), 0]], [7, 1]), {"ignore_label": 7, "normalization": "valid"},
            [[0.5, 0.5], [0.75, 0.25]], [[9, 9], [9, 9]], ([[0, 0], [0.75, -0.75]], None)),
        Row("all_ignored", ([[0, 0]], [7]), {"ignore_label": 7, "normalization": "valid"}, [[0.5, 0.5]], [[9, 9]],
            ([[0, 0]], None)),
    )
    errors = (
        Bad("label", ((4, 3), (5,)), {}, "label has shape (5,); expected (4,) to match data of shape (4, 3)",
            first=False),
        Bad("label_rank", ((4, 3), (4, 3)), {}, "label has shape (4, 3); expected 1 dimension (batch,)"),
        Bad("vector", ((4,), (1,)), {"axis": 0}, "data has 1 dimension; expected at least 2: a batch of rows",
            first=False),
        Bad("axis", ((4, 3), (4,)), {"axis": -3}, "axis -3 is out of range for data of 2 dimensions"),
        Bad("normalization", ((4, 3), (4,)), {"normalization": "mean"}, "expected 'null', 'batch' or 'valid'"),
        Bad("ignore_label", ((4, 3), (4,)), {"ignore_label": 0.5}, "expected None or an integer"),
        Bad("integers", ((4, 3), (4,)), {}, "data has dtype int32; expected float16, float32, float64",
            ("int32", "int32")),
    )
    texts = {"ignore_label": ["None", "-1", "none", "3.0"], "normalization": ["batch", "Valid"],
             "grad_scale": ["-2.5", "1e3", "infinity"]}
    determined = (
        ({"data": (2, 3)}, {}, {"data": (2, 3), "label": (2,), "output": (2, 3)}),
        ({"label": (2,)}, {}, {"data": (2, -1), "label": (2,), "output": (2, -1)}),
        ({"data": (-1, 3), "label": (2,)}, {}, {"data": (2, 3), "label": (2,), "output": (2, 3)}),
    )


def gradient(data, label, backend, **attrs):
    with gops.backend(backend):
        return recorded(gops.ops.softmax_output, np.float32(data), np.float32(label), **attrs)


@pytest.mark.parametrize("backend", ["custom", "native", "builtin", "cuda"], indirect=True)
@pytest.mark.parametrize("label", [-1, 3, 1.5, np.nan, 1e30, -1e30])
def test_a_label_that_is_no_class(label, backend, monkeypatch):
    """Unchecked, its row's gradient is NaN, and the other rows are right."""
    monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "0")
    data = [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]
    output, got = gradient(data, [label, 2], backend)
    np.testing.assert_allclose(output, softmax(np.array(data), -1), rtol=1e-6)
    assert np.isnan(got[0]).all()
    np.testing.assert_allclose(got[1], softmax(np.array(data), -1)[1] - [0, 0, 1], rtol=1e-6)


def test_a_label_that_is_no_class_is_named(monkeypatch):
    monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "1")
    with gops.backend("custom"), pytest.raises(gops.OpError) as caught:
        gops.ops.softmax_output(mx.nd.ones((2, 3, 2)), mx.nd.array([[0, 1], [7, 3]]), axis=1).wait_to_read()
    assert str(caught.value) == ("gluonops.softmax_output: label[1, 0] is 7 (and 1 more); expected a whole number from "
                                 "0 to 2. Correct the labels, or name the value to skip with ignore_label.")


@pytest.mark.parametrize("backend", ["custom", "native", "builtin", "cuda"], indirect=True)
def test_nan_in_an_ignored_row_stays_there(backend):
    _, got = gradient([[np.nan, 1.0], [0.0, 0.0]], [-1, 0], backend, ignore_label=-1)
    np.testing.assert_array_equal(got, [[0, 0], [-0.5, 0.5]])


def test_as_mxnets_softmax_output(rng):
    """The replacements that the page gives for mx.sym.SoftmaxOutput have its gradients."""
    data, label = rng.randn(2, 5, 3).astype("f"), rng.randint(0, 5, (2, 3))
    label[0, 1] = 4

    def theirs(**attrs):
        x = mx.nd.array(data)
        x.attach_grad()
        with autograd.record():
            y = mx.nd.SoftmaxOutput(x, mx.nd.array(label), multi_output=True, **attrs)
        y.backward()
        return x.grad.asnumpy()

    np.testing.assert_allclose(gradient(data, label, "custom", axis=1, grad_scale=1 / 3)[1], theirs(), rtol=1e-5)
    np.testing.assert_allclose(
        gradient(data, label, "custom", axis=1, ignore_label=4, normalization="valid")[1],
        theirs(use_ignore=True, ignore_label=4, normalization="valid"), rtol=1e-5, atol=1e-8)


def test_label_variable_is_made():
    graph = gops.ops.softmax_output(mx.sym.var("data"), name="softmax")
    assert graph.list_arguments() == ["data", "softmax_label"]
