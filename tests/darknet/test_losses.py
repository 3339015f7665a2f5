"""The losses of a cfg's heads, against the operators and the recorded layers."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd
from recorded import FOLDER

NET = "[net]\nchannels=3\nheight=64\nwidth=64\n"
CONV = "[convolutional]\nsize=1\nstride={stride}\nfilters={filters}\nactivation={activation}\n"
YOLO = "[yolo]\nclasses=3\nnum=3\nanchors=10,14, 23,27, 37,58\n"
TWO_HEADS = (NET + CONV.format(stride=16, filters=16, activation="linear") + YOLO + "mask=1,2\n{first}\n"
             + "[route]\nlayers=-2\n" + "[upsample]\nstride=2\n" + CONV.format(stride=1, filters=8, activation="linear")
             + YOLO + "mask=0\n{second}\n")
TREE = FOLDER / "mini.tree"
TRUTH = [[[0.3, 0.4, 0.2, 0.3, 1], [0.7, 0.6, 0.5, 0.6, 2], [0] * 5], [[0.5, 0.2, 0.1, 0.1, 0], [0] * 5, [0] * 5]]


def load(path, text, **kwargs):
    path = path / "net.cfg"
    path.write_text(text)
    net = gops.darknet.load(path, **kwargs)
    net.initialize(mx.init.Normal(1))
    return net


def images(rng):
    return mx.nd.array(rng.rand(2, 3, 64, 64))


def gradient_of(net, loss, data, truth):
    """The loss, and the gradient of the first layer's weights."""
    with autograd.record():
        value = loss(data, truth)
    value.backward()
    return value.asnumpy(), next(iter(net.collect_params(".*weight").values())).grad().asnumpy()


@pytest.mark.parametrize("hybrid, own", [(False, None), (True, None), (True, [[8, 8], [23, 27], [33, 23], [60, 70]])])
def test_yolo(hybrid, own, tmp_path, rng):
    """It has a head's options and anchors, the defaults of AlexeyAB's program, and the weight of the sum."""
    options = "iou_loss=ciou\nscale_x_y={}\niou_thresh=0.213\nmax_delta=5\ndelta_normalizer=0.5\n"
    cfg = TWO_HEADS.format(first=options.format(1.05), second=options.format(1.1))
    if own:   # resnet152_trident.cfg does so
        before, _, after = cfg.rpartition(YOLO)
        numbers = ",".join(map(str, np.ravel(own)))
        cfg = f"{before}[yolo]\nclasses=3\nnum={len(own)}\nanchors={numbers}\n{after}"
    net = load(tmp_path, cfg)
    loss, data, truth = net.loss(), images(rng), mx.nd.array(TRUTH)
    if hybrid:
        loss.hybridize()
    found, gradient = gradient_of(net, loss, data, truth)
    shared = [[10, 14], [23, 27], [37, 58]]

    def expected(data, truth):
        outputs = net.layer_outputs(data)
        total = 0
        for layer, mask, stride, scale, sizes in ((0, [1, 2], 16, 1.05, shared), (4, [0], 8, 1.1, own or shared)):
            sizes = np.array(sizes, "float64")
            others = np.delete(sizes, mask, axis=0)
            total = total + 0.5 * gops.ops.yolo_loss(
                outputs[layer], truth, anchors=(sizes[mask] / stride).ravel().tolist(),
                other_anchors=(others / stride).ravel().tolist(), classes=3, dialect="alexeyab", box_loss="ciou",
                scale_x_y=scale, iou_thresh=0.213, max_delta=5, iou_normalizer=0.75)
        return total

    value, expected_gradient = gradient_of(net, expected, data, truth)
    np.testing.assert_allclose(found, value, rtol=1e-5)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-4, atol=1e-5)
    assert loss.report()["truths"].asscalar() > 0


def test_gaussian_yolo(tmp_path, rng):
    """The options of the cfg count, and the defaults of AlexeyAB's program."""
    head = "[Gaussian_yolo]\nclasses=3\nnum=3\nanchors=10,14, 23,27, 37,58\nmask=1,2\n"
    options = "uc_normalizer=0.5\nyolo_point=left_top\niou_thresh=0.213\n"
    net = load(tmp_path, NET + CONV.format(stride=16, filters=24, activation="linear") + head + options)
    data, truth = images(rng), mx.nd.array(TRUTH)
    found = net.loss()(data, truth)
    expected = gops.ops.gaussian_yolo_loss(
        net[0](data), truth, anchors=(23 / 16, 27 / 16, 37 / 16, 58 / 16), other_anchors=(10 / 16, 14 / 16), classes=3,
        box_loss="nll", iou_normalizer=0.75, uc_normalizer=0.5, point="left_top", iou_thresh=0.213)
    np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-6)


def test_region(tmp_path, rng):
    """Darknet's defaults are not those of the operator."""
    cfg = NET + CONV.format(stride=16, filters=16, activation="linear")
    net = load(tmp_path, cfg + "[region]\nclasses=3\nnum=2\nanchors=1.5,0.5, 0.75,2\nobject_scale=5\nbias_match=1\n")
    data, truth = images(rng), mx.nd.array(TRUTH)
    found = net.loss()(data, truth)
    expected = gops.ops.region_loss(net[0](data), truth, mx.nd.array([0]), anchors=(1.5, 0.5, 0.75, 2), classes=3,
                                    object_scale=5, noobject_scale=1, coord_scale=1, class_scale=1, thresh=0.5,
                                    rescore=False, bias_match=True, softmax=False)
    np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-6)


@pytest.mark.parametrize("behind, weight", [("", 1), ("[cost]\ntype=sse\n", 2), ("[cost]\nscale=0.5\n", 1.5)])
def test_softmax(behind, weight, tmp_path, rng):
    cfg = NET + CONV.format(stride=16, filters=4, activation="linear") + "[avgpool]\n[softmax]\n" + behind
    net, data, labels = load(tmp_path, cfg), images(rng), mx.nd.array([3, 1])
    p = net(data).reshape((2, 4)).asnumpy()
    np.testing.assert_allclose(net.loss()(data, labels).asnumpy(), -weight * np.log(p[[0, 1], [3, 1]]), rtol=1e-4)


@pytest.mark.parametrize("softmax", [0, 1])
def test_detection_behind_a_convolution(softmax, tmp_path, rng):
    """A [detection] takes the numbers of an image in their order, as behind a [connected]."""
    head = f"[detection]\nside=4\nclasses=3\ncoords=4\nnum=2\nsoftmax={softmax}\n"
    net = load(tmp_path, NET + CONV.format(stride=16, filters=13, activation="linear") + head)
    data = images(rng)
    numbers = net[0](data).reshape((2, -1)).asnumpy()
    objectness, boxes = numbers[:, 48:80].reshape(2, 16, 2, 1), numbers[:, 80:].reshape(2, 16, 2, 4)
    classes = numbers[:, :48].reshape(2, 16, 1, 3)
    if softmax:
        classes = np.exp(classes) / np.exp(classes).sum(-1, keepdims=True)
    _, scores, found = net.detector(threshold=0, nms=1, topk=400)(data)
    expected = np.sort((objectness * classes).reshape(2, -1), 1)[:, ::-1]
    kept = scores.asnumpy()[:, 0, 0]
    np.testing.assert_allclose(kept, expected[:, 0], rtol=1e-4)
    best = (objectness * classes).max(-1).reshape(2, -1).argmax(1)
    widths = boxes.reshape(2, -1, 4)[[0, 1], best, 2] * 64
    np.testing.assert_allclose(found.asnumpy()[:, 0, 2] - found.asnumpy()[:, 0, 0], widths, rtol=1e-3, atol=1e-3)


def test_a_map_of_classes(tmp_path, rng, monkeypatch):
    """The ground truth has the classes that the map names; one that the map does not have makes its image NaN."""
    (tmp_path / "my.map").write_text("2\n0\n")
    head = "[region]\nclasses=3\nnum=2\nanchors=1.5,0.5, 0.75,2\n"
    text = NET + CONV.format(stride=16, filters=16, activation="linear") + head
    net, data = load(tmp_path, text + "map=my.map\n"), images(rng)
    truth = np.array(TRUTH)
    truth[0, 1, 4] = 0
    mapped = truth.copy()
    mapped[0, :2, 4], mapped[1, 0, 4] = (0, 2), 2
    plain = load(tmp_path, text)
    for own, other in zip(plain.collect_params().values(), net.collect_params().values()):
        own.set_data(other.data())
    found, expected = net.loss()(data, mx.nd.array(truth)), plain.loss()(data, mx.nd.array(mapped))
    np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-6)
    truth[1, 0, 4] = 2
    monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "0")
    invalid = net.loss()(data, mx.nd.array(truth)).asnumpy()
    np.testing.assert_array_equal(np.isnan(invalid), [False, True])


def test_errors(tmp_path):
    conv = NET + CONV.format(stride=16, filters=16, activation="linear")
    ten = NET + CONV.format(stride=16, filters=10, activation="linear") + "[avgpool]\n"
    region = "[region]\nclasses=3\nnum=2\nanchors=1,2,3,4\n"
    for text, message in (
            (conv, r"output of a \[convolutional\], which has no loss here"),
            (conv + region + "[cost]\n", r"line 14: \[cost\]: gluonops does not compute the loss of a \[cost\] that "
             r"follows a "
             r"\[region\]"),
            (conv + "[cost]\ntype=masked\n", "type is 'masked'; expected one of sse"),
            (conv + "[softmax]\nnoloss=1\n", "the weight of the loss is 0; expected a number above 0"),
            (conv + "[softmax]\ngroups=2\n", "groups=2 is not supported"),
            (conv + "[softmax]\n[cost]\ntype=smooth\n", "type is 'smooth'; expected one of sse"),
            (conv + region + "map=9k.map\n", "line 14: .*the map 9k.map is neither in the current folder"),
            (conv + "[detection]\nside=4\nclasses=11\ncoords=4\n",
             r"line 10: \[detection\]: gluonops does not compute the loss of YOLOv1; expected \[region\].*Train it "
             r"with Darknet"),
            (ten + f"[softmax]\ntree={TREE}\n",
             "line 12: .*gluonops does not compute the loss of a tree of classes; expected"),
            (ten + f"[softmax]\ntree={TREE}\n[cost]\n",
             "line 12: .*gluonops does not compute the loss of a tree of classes"),
            (conv.replace("16\nactivation", "30\nactivation") + region.replace("=3", "=10", 1) + f"tree={TREE}\n",
             "line 14: .*gluonops does not compute the loss of a tree of classes"),
            (conv + region + "thresh=x\n", "thresh is 'x'; expected"),
            (TWO_HEADS.format(first="iou_loss=ciou\ncounters_per_class=1,2,3", second=""), "counters_per_class=1,2,3"),
            (TWO_HEADS.format(first="delta_normalizer=2", second=""), "the detecting layers have the kinds"),
    ):
        net = load(tmp_path, text)
        with pytest.raises(gops.OpError, match=message):
            net.loss()


@pytest.mark.parametrize("method", ["loss", "detector"])
def test_a_net_that_is_not_initialized(method, tmp_path):
    path = tmp_path / "net.cfg"
    path.write_text(NET + CONV.format(stride=16, filters=16, activation="linear")
                    + "[region]\nclasses=3\nnum=2\nanchors=1,2,3,4\n")
    net = gops.darknet.load(path)
    with pytest.raises(gops.OpError, match=rf"darknet.{method}: .*conv0_weight is not initialized.*net.initialize\(\)"):
        getattr(net, method)()


def test_a_net_without_parameters(tmp_path):
    path = tmp_path / "net.cfg"
    path.write_text(NET + "[avgpool]\n[softmax]\n")
    loss, data = gops.darknet.load(path).loss(), mx.nd.random.uniform(shape=(2, 3, 32, 32))
    means = data.mean(axis=(2, 3)).asnumpy()
    shares = np.exp(means) / np.exp(means).sum(axis=1, keepdims=True)
    found = loss(data, mx.nd.array([0, 2])).asnumpy()
    np.testing.assert_allclose(found, -np.log(shares[[0, 1], [0, 2]]), rtol=1e-5)
