"""From maps to detections, against loops over cells; the detector as a block that hybridizes and exports."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.io.optional import require
from mxnet import gluon
from recorded import cfg, recording

VOC07MApMetric = require("gluoncv.utils.metrics.voc_detection", "tests").VOC07MApMetric
ANCHORS = np.array([[20, 30], [50, 40], [90, 100]], "float32")
CLASSES, STRIDE = 2, 32


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def activated(raw, class_softmax):
    """spec: sigmoid on x, y, objectness; softmax or sigmoid on classes."""
    out = raw.astype("float64").reshape(len(raw), len(ANCHORS), 5 + CLASSES, *raw.shape[2:])
    out[:, :, [0, 1, 4]] = sigmoid(out[:, :, [0, 1, 4]])
    powers = np.exp(out[:, :, 5:])
    out[:, :, 5:] = powers / powers.sum(2, keepdims=True) if class_softmax else sigmoid(out[:, :, 5:])
    return out


def overlap(a, b):
    sides = [min(a[i + 2], b[i + 2]) - max(a[i], b[i]) for i in (0, 1)]
    if min(sides) <= 0:
        return 0
    area = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return sides[0] * sides[1] / (sum(area) - sides[0] * sides[1])


def detections(cells, threshold, nms):
    """(class, probability, left, top, right, bottom) of one image, by the description."""
    found = []
    for a, j, i in np.ndindex(len(ANCHORS), *cells.shape[2:]):
        x, y, w, h, objectness, *classes = cells[a, :, j, i]
        centre = np.array([i + x, j + y]) * STRIDE
        half = np.exp([w, h]) * ANCHORS[a] / 2
        for k, p in enumerate(classes):
            if objectness * p > threshold:
                found.append((k, objectness * p, *(centre - half), *(centre + half)))
    selected = []
    for row in sorted(found, key=lambda row: -row[1]):
        if all(row[0] != other[0] or overlap(row[2:], other[2:]) <= nms for other in selected):
            selected.append(row)
    return np.array(selected).reshape(-1, 6)


class Raw(gluon.HybridBlock):
    """A net that returns its input: the map is the image."""

    def hybrid_forward(self, F, data):
        return F.identity(data)


def detector(class_softmax=True, **kwargs):
    head = gluon.nn.HybridSequential()
    head.add(gops.darknet.Region(ANCHORS, CLASSES, class_softmax),
             gops.darknet.Boxes(ANCHORS, CLASSES, STRIDE))
    head.initialize()
    return gops.darknet.Detector(Raw(), [head], CLASSES, 1, **kwargs)


def maps(rng, height=3, width=5, batch=2):
    return rng.randn(batch, len(ANCHORS) * (5 + CLASSES), height, width).astype("float32")


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("class_softmax", [False, True])
def test_by_the_description(class_softmax, hybridize, rng):
    block = detector(class_softmax, threshold=0.1, nms=0.2)
    if hybridize:
        block.hybridize()
    for height, width in ((3, 5), (4, 2)):
        raw = maps(rng, height, width)
        ids, scores, boxes = (a.asnumpy() for a in block(mx.nd.array(raw)))
        cells = activated(raw, class_softmax)
        for n in range(len(raw)):
            expected = detections(cells[n], 0.1, 0.2)
            count = len(expected)
            assert 3 < count < len(detections(cells[n], 0.1, 1))
            np.testing.assert_array_equal(ids[n, :count, 0], expected[:, 0])
            np.testing.assert_allclose(scores[n, :count, 0], expected[:, 1], rtol=1e-5)
            np.testing.assert_allclose(boxes[n, :count], expected[:, 2:], rtol=1e-4, atol=1e-3)
            assert (ids[n, count:] == -1).all() and (scores[n, count:] == -1).all() and (boxes[n, count:] == -1).all()


@pytest.mark.parametrize("class_softmax", [False, True])
def test_region_activation(class_softmax, rng):
    raw = maps(rng)
    found = gops.darknet.Region(ANCHORS, CLASSES, class_softmax)(mx.nd.array(raw)).asnumpy()
    np.testing.assert_allclose(found, activated(raw, class_softmax).reshape(raw.shape), rtol=1e-5, atol=1e-6)


def test_float16_maps(rng):
    """Boxes are float32, from the maps that float16 has."""
    raw = mx.nd.array(maps(rng, 40, 40, 1) * 0.5).astype("float16")
    block = detector(threshold=0.01)
    block.cast("float16")
    found = block(raw)
    region = gops.darknet.Region(ANCHORS, CLASSES)(raw)
    boxes = gops.darknet.Boxes(ANCHORS, CLASSES, STRIDE)
    boxes.initialize()
    expected = boxes(region.astype("float32"))[0].asnumpy()
    assert all(array.dtype == np.float32 for array in found)
    candidates = {tuple(row) for row in expected[:, 1:]}
    rows = np.concatenate([array[0].asnumpy() for array in found[1:]], axis=1)
    assert all(tuple(row) in candidates for row in rows if row[0] >= 0) and rows[0, 0] > 0


def test_a_float16_net_exports(tmp_path):
    (tmp_path / "net.cfg").write_text("[net]\nwidth=32\nheight=32\nchannels=3\n[convolutional]\nfilters=7\n"
                                      "[region]\nclasses=2\nnum=1\nanchors=1,2\n")
    for net in (gops.darknet.load(tmp_path / "net.cfg"), gops.models.tiny_yolov2(head_channels=4)):
        net.initialize()
        net.cast("float16")
        symbol, _ = gops.export.symbol(net.detector(), tmp_path / "net", (1, 3, 32, 32), dtype="float16")
        _, types, _ = mx.sym.load(symbol).infer_type(data="float16")
        assert types == [np.float32] * 3


def test_topk_and_nothing(rng):
    raw = mx.nd.array(maps(rng))
    candidates = 2 * 3 * 15
    for topk, rows in ((5, 5), (1000, candidates)):
        assert [a.shape for a in detector(topk=topk)(raw)] == [(2, rows, 1), (2, rows, 1), (2, rows, 4)]
    assert all((a == -1).asnumpy().all() for a in detector(threshold=0.99)(raw))
    best = detector(threshold=0, topk=1)(raw)[1].asnumpy()
    every = [detections(cells, 0, 1)[:, 1].max() for cells in activated(raw.asnumpy(), True)]
    np.testing.assert_allclose(best[:, 0, 0], every, rtol=1e-5)


@pytest.mark.parametrize("kwargs, text", [
    ({"threshold": 1}, "threshold is 1; expected a finite number of at least 0 and below 1"),
    ({"threshold": -0.1}, "threshold is -0.1"), ({"nms": 0}, "nms is 0; expected a finite number above 0"),
    ({"topk": 0}, "topk is 0; expected an integer of at least 1"), ({"topk": 2.5}, "topk is 2.5")])
def test_refuses_arguments(kwargs, text):
    with pytest.raises(gops.OpError) as caught:
        detector(**kwargs)
    assert text in str(caught.value)


@pytest.fixture
def net(weights):
    return gops.darknet.load(cfg("mini-yolov3"), weights("mini-yolov3", 22))


@pytest.mark.parametrize("shape", [(1, 3, 96, 65), (1, 3, 48, 64), (3, 64, 64)])
def test_refuses_sizes(shape, net):
    block = net.detector()
    for hybridize in (False, True):
        block.hybridize(hybridize)
        with pytest.raises(gops.OpError) as caught:
            block(mx.nd.zeros(shape))
        reason = f"data has shape {shape}; expected (batch, channels, height, width) with height and width that are mul"
        assert reason in str(caught.value)


def test_a_classifier_has_no_detector(tmp_path):
    with pytest.raises(gops.OpError, match=r"the cfg does not end in \[region\], \[yolo\], \[Gaussian_yolo\]"):
        gops.darknet.load(cfg("mini-classifier")).detector()


@pytest.mark.parametrize("backend", ["builtin", "custom", "native"])
def test_exports_with_two_maps(backend, net, tmp_path):
    """Anchors travel as constants; Module and SymbolBlock take another size and batch than exported with."""
    block = net.detector(threshold=0.2)
    data = mx.nd.concat(recording("mini-yolov3", 22)[1][:, :, :64], mx.nd.random.uniform(shape=(1, 3, 64, 64)), dim=0)
    expected = [a.asnumpy() for a in block(data)]
    assert (expected[0] >= 0).any(1).all()
    paths = gops.export.symbol(block, tmp_path / "net", (1, *net.input_shape), backend=backend)
    assert sum("anchors" in name for name in mx.nd.load(paths[1])) == 2
    for found, wanted in zip(gluon.SymbolBlock.imports(paths[0], ["data"], paths[1])(data), expected):
        np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-4, atol=1e-3)
    module = mx.mod.Module.load(str(tmp_path / "net"), 0, label_names=None)
    module.bind([("data", data.shape)], for_training=False)
    module.forward(mx.io.DataBatch([data]), is_train=False)
    for found, wanted in zip(module.get_outputs(), expected):
        np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-3, atol=1e-2)


def test_gluoncvs_metric_takes_them(rng):
    """If the detections are the ground truth, the mean average precision is 1."""
    raw = mx.nd.array(maps(rng))
    ids, scores, boxes = detector(threshold=0.3)(raw)
    metric = VOC07MApMetric(iou_thresh=0.5, class_names=["a", "b"])
    metric.update([boxes], [ids], [scores], [boxes], [ids], [mx.nd.zeros_like(ids)])
    assert metric.get()[1][-1] == pytest.approx(1)


def test_an_address_that_is_used_again(monkeypatch):
    """MXNet names the initializer of a constant after its address, and warns of names that it has seen, in red."""
    monkeypatch.setattr(mx.gluon.parameter, "id", lambda thing: 1, raising=False)
    for _ in range(2):
        gops.darknet.Boxes([[1, 1]], 2, 32, prefix="boxes_")
