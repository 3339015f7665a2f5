"""margin_softmax_cross_entropy against the papers' formulas, their authors' code, and at the ends of the angles."""
import fresh
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from in_turn import in_turn
from mxnet import autograd
from op_suite import CUSTOM, Bad, Case, OpSuite, Row, recorded
from ops.margin_softmax_cross_entropy import oracle

ARCFACE, COSFACE = {"scale": 8}, {"scale": 8, "m2": 0, "m3": 0.35}
SPHEREFACE = {"scale": 8, "m1": 4, "m2": 0}
COMBINED = {"scale": 8, "m1": 0.9, "m2": 0.4, "m3": 0.15}
PLAIN = {"scale": 2, "m2": 0}
WEIGHTS = (0.5, 2, 0, 1, 0.25)
BACKENDS = pytest.mark.parametrize("backend", [CUSTOM, "reference", "native", "builtin", "cuda"], indirect=True)


class TestMarginSoftmaxCrossEntropy(OpSuite):
    name = "margin_softmax_cross_entropy"
    needs_types = ("float16",)   # cannot hold a margin of 1e8
    undefined = ("inf", "-inf", "max", "huge")   # no cosines: products with the scale overflow
    cases = (
        Case("arcface", ((5, 7), (5,)), ARCFACE),
        Case("defaults", ((3, 2, 5), (3, 2))),
        Case("one_class", ((4, 1), (4,)), ARCFACE),
        Case("cosface_ignore", ((11, 5), (11,)), {**COSFACE, "ignore_label": -1, "class_weight": WEIGHTS}),
        Case("sphereface", ((9, 33), (9,)), SPHEREFACE),
        Case("combined_easy", ((19, 5), (19,)), {**COMBINED, "easy_margin": True}),
        Case("many_classes", ((3, 1031), (3,)), {**COMBINED, "class_weight": (2.5,)}),
    )
    empty = Case("empty", ((0, 3), (0,)))
    # Without a margin, 2 cos(60 degrees) is 1. CosFace with m3 = 1/2 makes both cosines 0. SphereFace with m1 = 3 makes
    # -1 of 1/2, ArcFace with 60 degrees makes cos(120) = -1/2 of it, and its derivative at 60 degrees is 1. Beyond pi
    # ArcFace's is a line. A label at more than 90 degrees has no easy margin.
    table = (
        Row("plain", ([[0.5, 0]], [0]), PLAIN, [np.log1p(np.exp(-1))], [1],
            ([[-2 / (1 + np.e), 2 / (1 + np.e)]], None)),
        Row("cosface", ([[0.5, 0]], [0]), {"scale": 4, "m2": 0, "m3": 0.5}, [np.log(2)], [3], ([[-6, 6]], None)),
        Row("arcface", ([[0.5, -0.5]], [0]), {"scale": 4, "m2": np.pi / 3}, [np.log(2)], [1], ([[-2, 2]], None)),
        Row("beyond_pi", ([[-0.75, 0]], [0]), {"scale": 1, "m2": np.pi / 3},
            [np.log1p(np.exp(0.75 + np.pi / 3 * np.sqrt(0.75)))], [1], (None, None)),
        Row("sphereface", ([[0, 1]], [0]), {"scale": 1, "m1": 3, "m2": 0}, [np.log1p(np.exp(3))], [1],
            ([[-3 / (1 + np.exp(-3)), 1 / (1 + np.exp(-3))]], None)),
        Row("easy", ([[-0.5, -0.5]], [1]), {"scale": 3, "easy_margin": True}, [np.log(2)], [1],
            ([[1.5, -1.5]], None)),
        # cosines and their gradient as in "arcface", times the weight of the label's class
        Row("weighted", ([[0.5, -0.5]], [0]), {"scale": 4, "m2": np.pi / 3, "class_weight": (3, 5)}, [3 * np.log(2)],
            [1], ([[-6, 6]], None)),
        Row("ignored", ([[np.nan, 1], [0.5, 0]], [9, 0]), {**PLAIN, "ignore_label": 9}, [0, np.log1p(np.exp(-1))],
            [1, 0], (np.zeros((2, 2)), None)),
    )
    errors = (
        Bad("label", ((4, 3), (5,)), {}, "label has shape (5,); expected (4,) to match data of shape (4, 3)",
            first=False),
        Bad("scale", ((4, 3), (4,)), {"scale": 0}, "expected a finite number above 0"),
        Bad("m1", ((4, 3), (4,)), {"m1": -1}, "expected a finite number above 0 and below 16"),
        Bad("m2", ((4, 3), (4,)), {"m2": 28.6}, "expected a finite number of at least 0 and below 3.14"),
        Bad("class_weight", ((4, 3), (4,)), {"class_weight": (1, 2)},
            "class_weight has 2 numbers; expected 3, one for each of the classes. Pass another class_weight"),
        Bad("m3", ((4, 3), (4,)), {"m3": "no"}, "m3 is 'no'; expected a finite number"),
    )
    texts = {"scale": ["64", "0", "-1", "inf"], "m1": ["4", "0", "1.35", "16"],
             "m2": ["0.5", "3.1415926", "3.1416", "-0.1"], "m3": ["-0.5", "nan"],
             "easy_margin": ["1", "yes"], "ignore_label": ["None", "-1"]}
    determined = (
        ({"data": (2, 3)}, {}, {"data": (2, 3), "label": (2,), "output": (2,), "max": (2,), "log_sum": (2,)}),
        ({"data": (2, 1, 4)}, {},
         {"data": (2, 1, 4), "label": (2, 1), "output": (2, 1), "max": (2, 1), "log_sum": (2, 1)}),
    )


def run(data, label, backend, dtype="float32", **attrs):
    with gops.backend(backend):
        return recorded(gops.ops.margin_softmax_cross_entropy, np.array(data, dtype), np.float32(label), **attrs)


@BACKENDS
class TestEdges:
    @in_turn("attrs", [ARCFACE, SPHEREFACE, COMBINED, COSFACE])
    def test_the_ends_of_the_angles(self, attrs, backend):
        """All is finite at 0 and 180 degrees, and beyond: rounding errors make such cosines."""
        ends = [1.0, -1.0, 1 + 1e-6, -1 - 1e-6, 1 - 1e-7, 1 - 1e-3]
        data = np.stack([ends, np.zeros(len(ends))], axis=1)
        loss, gradient = run(data, np.zeros(len(ends)), backend, "float64", **attrs)
        typed = gops.contract.registry.get("margin_softmax_cross_entropy").op.parse(attrs)
        assert np.isfinite(gradient).all()
        np.testing.assert_allclose(loss, oracle.forward(typed, data, np.zeros(len(ends)))["output"], rtol=1e-9)
        expected = oracle.backward(typed, np.ones(len(ends)), data, np.zeros(len(ends)))["data"]
        np.testing.assert_allclose(gradient, expected, rtol=1e-8, atol=1e-12)

    @in_turn("label", [-1, 3, 1.5, np.nan])
    def test_a_label_that_is_no_class(self, label, backend, monkeypatch):
        monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "0")
        loss, gradient = run([[0.5, 0.2, 0.1], [0, 0, 0]], [label, 0], backend, **PLAIN)
        assert np.isnan(loss[0]) and np.isnan(gradient[0]).all()
        np.testing.assert_allclose(loss[1], np.log(3), rtol=1e-6)
        np.testing.assert_allclose(gradient[1], [-4 / 3, 2 / 3, 2 / 3], rtol=1e-6)

    def test_a_nan_stays_in_its_row(self, backend):
        loss, gradient = run([[np.nan, 0.1], [0.1, np.nan], [0.5, -0.5]], [0, 0, 0], backend, scale=4, m2=np.pi / 3)
        np.testing.assert_array_equal(np.isnan(loss), [True, True, False])
        np.testing.assert_allclose(gradient[2], [-2, 2], rtol=1e-5)

    def test_a_sure_row(self, backend):
        """The label's exponential is far larger than all others: what is left is not lost in a difference."""
        loss, gradient = run([[0.99, 0.2, 0.1]], [0], backend, "float64", m2=0)
        others = np.exp(64 * (np.array([0.2, 0.1]) - 0.99))
        np.testing.assert_allclose(loss, [np.log1p(others.sum())], rtol=1e-6, atol=1e-17)
        np.testing.assert_allclose(gradient[0, 1:], 64 * others, rtol=1e-9)


@in_turn("weight", [1, 1e-3])
def test_no_gradient_is_subnormal(weight):
    """The cosines' exponents reach from 0 to -128; all other gradients are right to the last digits."""
    cosines = np.linspace(-1, 1, 1000)
    attrs = {"m2": 0, "class_weight": (weight,)}
    _, gradient = run(cosines[None], [999], "native", **attrs)
    typed = gops.contract.registry.get("margin_softmax_cross_entropy").op.parse(attrs)
    wide = cosines.astype("float32").astype("float64")[None]
    expected = oracle.backward(typed, np.ones(1), wide, np.array([999]))["data"]
    tiny = np.finfo("float32").tiny
    assert not ((gradient != 0) & (np.abs(gradient) < tiny)).any() and (gradient == 0).sum() > 100
    is_normal = expected > tiny * 65
    np.testing.assert_allclose(gradient[is_normal], expected[is_normal], rtol=2e-5)


def insightface(cosine, m2, easy_margin):
    """Return the label's cosine in deepinsight/insightface, recognition/arcface_mxnet (loss_type 4)."""
    threshold, line = np.cos(np.pi - m2), np.sin(np.pi - m2) * m2
    with_margin = cosine * np.cos(m2) - np.sqrt(1 - cosine * cosine) * np.sin(m2)
    if easy_margin:
        return np.where(cosine > 0, with_margin, cosine)
    return np.where(cosine > threshold, with_margin, cosine - line)


@in_turn("easy_margin", [False, True])
def test_the_margin_of_insightface(easy_margin):
    cosine = np.cos(np.linspace(0.01, np.pi - 0.01, 999))
    loss, _ = run(np.stack([cosine, np.zeros_like(cosine)], 1), np.zeros(999), "auto", "float64", scale=4,
                  easy_margin=easy_margin)
    expected = np.log1p(np.exp(-4 * insightface(cosine, 0.5, easy_margin)))
    np.testing.assert_allclose(loss, expected, rtol=1e-10)


def test_the_margin_falls_with_the_angle():
    """It falls beyond pi, too, for every m1 that is not 1, and without a jump."""
    cosine = np.cos(np.linspace(0.01, np.pi - 0.01, 2001))
    for m1, m2 in ((2, 0), (3, 0), (4, 0), (1.35, 0), (0.9, 0.4), (2.5, 1)):
        typed = gops.contract.registry.get("margin_softmax_cross_entropy").op.parse({"m1": m1, "m2": m2})
        data = np.stack([cosine, np.zeros_like(cosine)], 1)
        loss, _ = run(data, np.zeros(len(cosine)), "auto", "float64", m1=m1, m2=m2, scale=1)
        phi = -np.log(np.expm1(loss))
        assert (np.diff(phi) < 0).all() and np.diff(phi).min() > -0.02
        np.testing.assert_allclose(phi, oracle.margin(typed, cosine)[0], atol=1e-9)


def test_block():
    """It returns the mean over the positions of a sample, weighted as gluon's losses are."""
    rng = np.random.RandomState(0)
    pred, label = mx.nd.array(rng.uniform(-1, 1, (2, 3, 5))), mx.nd.array([[0, 1, 2], [3, 4, 0]])
    rows = gops.ops.margin_softmax_cross_entropy(pred, label, **COSFACE).asnumpy()
    mask = np.array([[1, 0, 1], [0, 0, 1]])
    loss = gops.loss.MarginSoftmaxCELoss(weight=2, **COSFACE)
    loss.hybridize()
    got = loss(pred, label, mx.nd.array(mask).expand_dims(-1)).asnumpy()
    np.testing.assert_allclose(got, 2 * (rows * mask).mean(axis=1), rtol=1e-5)
    assert repr(loss) == ("MarginSoftmaxCELoss(scale=8.0, m1=1.0, m2=0.0, m3=0.35, easy_margin=False, "
                          "weight=2, batch_axis=0, ignore_label=None, class_weight=None)")
    with pytest.raises(gops.OpError, match="scale is 0; expected a finite number above 0"):
        gops.loss.MarginSoftmaxCELoss(scale=0)


def test_embeddings_of_a_class_come_together():
    """Gradient descent on embeddings and centres of ten classes: the margin is met, angles of a class become small."""
    rng = np.random.RandomState(0)
    label = mx.nd.array(np.arange(40) % 10)
    vectors, centers = mx.nd.array(rng.randn(40, 4)), mx.nd.array(rng.randn(10, 4))
    for array in (vectors, centers):
        array.attach_grad()
    for _ in range(150):
        with autograd.record():
            cosines = mx.nd.dot(mx.nd.L2Normalization(vectors), mx.nd.L2Normalization(centers), transpose_b=True)
            loss = gops.ops.margin_softmax_cross_entropy(cosines, label, scale=16, m2=0.3)
        loss.backward()
        for array in (vectors, centers):
            array -= 0.05 * array.grad
    angles = np.arccos(np.clip(cosines.pick(label).asnumpy(), -1, 1))
    assert (cosines.argmax(1) == label).asnumpy().mean() > 0.95 and angles.mean() < 0.3


MEMORY = """
import gluonops as gops
import mxnet as mx

def peak():
    line, = (line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024

data, label = mx.nd.zeros((128, 100000)) + 0.1, mx.nd.arange(128)
data.attach_grad()
mx.nd.waitall()
before = peak()
with gops.backend("native"), mx.autograd.record():
    loss = gops.ops.margin_softmax_cross_entropy(data, label)
loss.backward()
mx.nd.waitall()
print(peak() - before)
"""


def test_memory():
    """Beside the cosines and their gradient, 49 MiB each, it needs a few numbers per row, and memory of threads."""
    done = fresh.python("-c", MEMORY)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 10
