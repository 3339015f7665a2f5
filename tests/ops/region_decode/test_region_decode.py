"""region_decode against the page's formulas, Darknet's recorded activations, and through ONNX's operators."""
import pathlib
import re

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.contract import registry
from in_turn import in_turn
from op_suite import CUSTOM, Bad, Case, OpSuite, Row
from ops._region.oracle import boxes
from ops._region.recorded import GOLDEN_CASES, golden

TWO = {"anchors": (1.5, 0.5, 0.75, 2.0), "classes": 3}
LOG2, LOG3 = np.log(2), np.log(3)


class TestRegionDecode(OpSuite):
    name = "region_decode"
    cases = (
        Case("two_anchors", ((2, 16, 2, 3),), TWO),
        Case("larger", ((1, 16, 5, 9),), TWO),
        Case("one_cell", ((1, 6, 1, 1),), {"anchors": (2, 1), "classes": 1}),
        Case("sigmoid", ((2, 16, 3, 2),), {**TWO, "softmax": False}),
        Case("map", ((2, 16, 3, 2),), {**TWO, "layout": "map"}),
        Case("map_sigmoid", ((1, 21, 2, 3),), {"anchors": (1, 2, 3, 4, 5, 6), "classes": 2, "layout": "map",
                                              "softmax": False}),
        Case("voc", ((2, 125, 13, 7),), {"anchors": golden("c00").attrs["anchors"], "classes": 20}),
        Case("many_cells", ((1, 14, 3, 347),), {"anchors": (1, 1, 2, 2), "classes": 2}),
    )
    empty = Case("empty", ((0, 16, 2, 3),), TWO)
    # One row of two cells, x = 0 (a half), w = log 2 and log 3, h = 0, one class of two: log 3 against 0 is 3/4.
    table = (
        Row("boxes", ([[[[0, 0]], [[0, 0]], [[LOG2, LOG3]], [[0, 0]], [[0, LOG3]], [[LOG3, 0]], [[0, 0]]]],),
            {"anchors": (1, 3), "classes": 2},
            [[[[[0.25, 0.5, 1, 3, 0.5, 0.75, 0.25], [0.75, 0.5, 1.5, 3, 0.75, 0.5, 0.5]]]]],
            [[[[[8, 4, 1, 1, 16, 0, 0], [0, 0, 2, 0, 16, 4, 0]]]]],
            ([[[[1, 0]], [[1, 0]], [[1, 3]], [[3, 0]], [[4, 3]], [[0, 1]], [[0, -1]]]],)),
        Row("map", ([[[[0]], [[LOG3]], [[2]], [[3]], [[0]], [[LOG3]]]],),
            {"anchors": (1, 3), "classes": 1, "layout": "map", "softmax": False},
            [[[[0.5]], [[0.75]], [[2]], [[3]], [[0.5]], [[0.75]]]], [[[[4]], [[16]], [[1]], [[5]], [[0]], [[32]]]],
            ([[[[1]], [[3]], [[1]], [[5]], [[0]], [[6]]]],)),
    )
    errors = (
        Bad("channels", ((1, 15, 2, 2),), TWO, "data has shape (1, 15, 2, 2); expected (batch, 16, height, width) with "
            "anchors * (5 + classes) = 16. Change the layer in front or the attributes."),
        Bad("rank", ((16, 2, 2),), TWO, "data has shape (16, 2, 2); expected 4 dimensions (batch, 16, height, width)"),
        Bad("anchors", ((1, 16, 2, 2),), {**TWO, "anchors": (1, 2, 3)},
            "expected pairs of finite numbers above 0: (w0, h0, w1, h1, ...). Pass another anchors."),
        Bad("anchor", ((1, 16, 2, 2),), {**TWO, "anchors": (1, 2, 3, 0)}, "expected pairs of finite numbers above 0"),
        Bad("classes", ((1, 16, 2, 2),), {**TWO, "classes": 0}, "expected an integer of at least 1. Pass another"),
        Bad("layout", ((1, 16, 2, 2),), {**TWO, "layout": "rows"}, "layout is 'rows'; expected 'boxes' or 'map'"),
    )
    texts = {"anchors": ["(1, 2)", "[1.5,2]", " 1,2 ", "(1, 2,)", "1,2,3", "()", "", ",", "(1, 0)", "(1, -2)",
                         "(1, nan)", "(1, 1e400)", "(1, two)", "((1, 2),)", "(1, 2", "1_0, 2", "(1,,2)",
                         "(1, 2,,)", "5"],
             "layout": ["map", "Map"], "classes": ["1", "0", "2.0"]}
    determined = (
        ({"output": (2, 2, 3, 4, 8)}, TWO, {"data": (2, 16, 3, 4), "output": (2, 2, 3, 4, 8)}),
        ({"data": (-1, 16, 3, -1)}, TWO, {"data": (-1, 16, 3, -1), "output": (-1, 2, 3, -1, 8)}),
    )


@pytest.mark.parametrize("backend", [CUSTOM, "reference", "native", "builtin"], indirect=True)
@in_turn("case", GOLDEN_CASES)
def test_darknets_activations(case, backend):
    """They are within 2e-5 of what Darknet's layer put out, and so are its boxes."""
    recorded = golden(case)
    attrs = {name: recorded.attrs[name] for name in ("anchors", "classes", "softmax")}
    with gops.backend(backend):
        output = gops.ops.region_decode(mx.nd.array(recorded.input), layout="map", **attrs).asnumpy()
        rows = gops.ops.region_decode(mx.nd.array(recorded.input), **attrs).asnumpy()
    np.testing.assert_allclose(output.reshape(recorded.output.shape), recorded.output, rtol=2e-5, atol=2e-7)
    expected = np.concatenate([boxes(recorded.output, recorded.attrs["anchors"]), recorded.output[:, :, 4:]], 2)
    np.testing.assert_allclose(rows, expected.transpose(0, 1, 3, 4, 2), rtol=2e-5, atol=2e-7)


@pytest.mark.parametrize("backend", [CUSTOM, "native", "builtin", "cuda"], indirect=True)
def test_extreme_logits(backend):
    """Large and small logits saturate; a box too large to write down is infinite."""
    values = np.array([-200, -100, -50, 50, 88, 100], "float32")
    data = np.broadcast_to(values, (1, 6, 1, 6)).copy()
    with gops.backend(backend):
        output = gops.ops.region_decode(mx.nd.array(data), anchors=(6, 1), classes=1, softmax=False).asnumpy()[0, 0, 0]
    powers = np.array([0, np.exp(-100), np.exp(-50), np.exp(50), np.exp(88), np.inf], "float32")
    np.testing.assert_allclose(output[:, 2], powers, rtol=1e-5, atol=2e-45)
    for column in (4, 5):
        np.testing.assert_allclose(output[:, column], [0, *powers[1:3], 1, 1, 1], rtol=1e-5, atol=1e-37)


def test_anchors_in_pairs():
    data, flat = mx.nd.random.normal(shape=(1, 16, 2, 3)), gops.nn.RegionDecode((1, 2, 3, 4), 3)
    for anchors in ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]]), ((1, 2), (3, 4))):
        np.testing.assert_array_equal(gops.nn.RegionDecode(anchors, 3)(data).asnumpy(), flat(data).asnumpy())


@in_turn("hybridized", [False, True])
@pytest.mark.parametrize("backend", [CUSTOM, "reference", "native", "builtin", "cuda"], indirect=True)
def test_a_size_that_float16_holds_and_its_power_not(backend, hybridized):
    """exp(12) is 162,755; of 1.5 cells out of 13 it is 18,779."""
    data = np.zeros((1, 6, 13, 13))
    data[:, 2:4] = 12
    layer = gops.nn.RegionDecode((1.5, 1.5), 1)
    layer.hybridize(hybridized)
    with gops.backend(backend):
        sizes = layer(mx.nd.array(data, dtype="float16")).asnumpy()[..., 2:4]
    np.testing.assert_allclose(sizes, np.exp(12) * 1.5 / 13, rtol=1e-2)


def test_default_anchors_are_the_published_ones():
    """Those of yolov2-voc.cfg are the default of the functions and of the model."""
    text = (pathlib.Path(__file__).parents[2] / "golden" / "darknet" / "yolov2-voc.cfg").read_text()
    published = tuple(float(n) for n in re.search(r"^anchors *=(.*)$", text, re.MULTILINE).group(1).split(","))
    np.testing.assert_array_equal(gops.models.get_model("yolov2").anchors.ravel(), np.array(published, "f"))
    for name in ("region_decode", "region_loss"):
        assert registry.get(name).op.parse({}).anchors == published
    data = mx.nd.array(np.random.RandomState(0).randn(1, 125, 2, 2), dtype="float64")
    np.testing.assert_array_equal(mx.nd.gluonops_region_decode(data).asnumpy(),
                                  mx.nd.gluonops_region_decode(data, anchors=str(published)).asnumpy())
