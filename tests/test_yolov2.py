"""gluonops.models: Darknet-19, YOLOv2 and Tiny YOLOv2. That they agree with Darknet is tested in tests/darknet."""
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.io.optional import require
from mxnet import autograd, gluon

plot_bbox = require("gluoncv.utils.viz", "tests").plot_bbox
ANCHORS = ((1, 1.5), (2, 2))
NAMES = ("cat", "dog", "bird")


def tiny():
    """A narrow one. Those of full width have the layers of Darknet's files, see below."""
    net = gops.models.tiny_yolov2(NAMES, ANCHORS, head_channels=16, width=0.25)
    net.initialize(mx.init.Xavier())
    return net


@pytest.fixture(scope="module")
def shared_tiny():
    return tiny()


@pytest.fixture
def images(rng):
    return mx.nd.array(rng.rand(2, 3, 64, 96))


def pairs(channels):
    return [(c, k, True) for c, k in channels]


BACKBONE = pairs([(32, 3), (64, 3), (128, 3), (64, 1), (128, 3), (256, 3), (128, 1), (256, 3), (512, 3), (256, 1),
                  (512, 3), (256, 1), (512, 3), (1024, 3), (512, 1), (1024, 3), (512, 1), (1024, 3)])


@pytest.mark.parametrize("name, layers", [
    ("darknet19", BACKBONE + [(1000, 1, False)]),
    ("yolov2", BACKBONE + pairs([(1024, 3), (1024, 3), (64, 1), (1024, 3)]) + [(125, 1, False)]),
    ("tiny_yolov2", pairs([(n, 3) for n in (16, 32, 64, 128, 256, 512, 1024, 1024)]) + [(125, 1, False)])])
def test_layers_in_the_order_of_darknets_files(name, layers):
    net = gops.models.get_model(name)
    found = [(unit.conv.weight.shape[0], unit.conv.weight.shape[2], unit.norm is not None) for unit in units(net)]
    assert found == layers


def test_a_narrow_tiny_yolov2():
    net = gops.models.tiny_yolov2(head_channels=(24, 20), width=0.25)
    assert [unit.conv.weight.shape[0] for unit in units(net)] == [4, 8, 16, 32, 64, 128, 24, 20, 125]


def units(block):
    for child in block._children.values():
        if isinstance(child, gops.darknet.Convolution):
            yield child
        yield from units(child)


@pytest.mark.parametrize("static", [False, True])
def test_sizes_from_batch_to_batch(static, shared_tiny, rng):
    """One hybridized net takes all, also where height and width are not divisible by 4 cells."""
    inputs = [mx.nd.array(rng.rand(n, 3, *size)) for n, size in ((1, (32, 64)), (3, (96, 32)), (2, (160, 160)))]
    shared_tiny.hybridize(False)
    plain = [shared_tiny(data).asnumpy() for data in inputs]
    shared_tiny.hybridize(static_alloc=static, static_shape=static)
    for data, expected in zip(inputs, plain):
        assert expected.shape == (len(data), 2 * 8, data.shape[2] // 32, data.shape[3] // 32)
        np.testing.assert_allclose(shared_tiny(data).asnumpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 3, 60, 64), (1, 3, 64, 100), (3, 64, 64)])
def test_refuses_sizes(shape, shared_tiny):
    with pytest.raises(gops.OpError) as caught:
        shared_tiny(mx.nd.zeros(shape))
    assert f"models.TinyYOLOv2: data has shape {shape}; expected (batch, channels, height" in str(caught.value)


@pytest.mark.parametrize("kwargs, text", [
    ({"classes": 0}, "gluonops.models.TinyYOLOv2: classes is 0; expected an integer of at least 1"),
    ({"classes": ["a", "b", "a"]}, "classes are ('a', 'b', 'a'), with 'a' twice; expected one name or more"),
    ({"classes": []}, "classes are ()"),
    ({"anchors": "imagenet"}, "anchors are 'imagenet'; expected 'voc', 'coco', or pairs"),
    ({"anchors": [1, 2]}, "anchors are [1, 2]"), ({"anchors": [(1, 0)]}, "anchors are [(1, 0)]"),
    ({"anchors": [(1, 2), 3]}, "anchors are [(1, 2), 3]"), ({"head_channels": 0}, "head_channels is 0"),
    ({"head_channels": (8, 0)}, "head_channels is (8, 0)"), ({"head_channels": (8,)}, "expected a number or two"),
    ({"width": 0}, "width is 0")])
def test_refuses_arguments(kwargs, text):
    with pytest.raises(gops.OpError) as caught:
        gops.models.tiny_yolov2(**kwargs)
    assert text in str(caught.value)


def test_published_anchors():
    assert gops.models.tiny_yolov2().anchors[0].tolist() == np.float32([1.08, 1.19]).tolist()
    assert gops.models.tiny_yolov2(80, "coco").anchors[4].tolist() == np.float32([9.77052, 9.16828]).tolist()
    assert gops.models.tiny_yolov2(2).classes == ("0", "1")


def test_detect(shared_tiny, images):
    """The convention is gluoncv's, also through a hybridized detector; plot_bbox draws it."""
    ids, scores, boxes = shared_tiny.detect(images, threshold=0.1, nms=0.5, topk=10)
    assert ids.shape == scores.shape == (2, 10, 1) and boxes.shape == (2, 10, 4)
    assert (scores[:, 0, 0] > 0.1).asnumpy().all() and set(ids.asnumpy().ravel()) <= {-1, 0, 1, 2}
    block = shared_tiny.detector(0.1, 0.5, 10)
    block.hybridize()
    for found, expected in zip(block(images), (ids, scores, boxes)):
        np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-3)
    axes = plot_bbox(np.zeros((64, 96, 3), "uint8"), boxes[0], scores[0], ids[0], 0.1, class_names=shared_tiny.classes)
    assert len(axes.patches) == int((scores[0] > 0.1).sum().asscalar())
    assert len(shared_tiny.detect(mx.sym.var("data"))) == 3


def test_detects_what_the_raw_map_says(shared_tiny):
    """One cell is turned on by hand, and the box is where it says, in pixels."""
    logits = np.full((1, 2, 8, 2, 3), -20.0)
    logits[0, 1, :, 1, 2] = [0, 0, np.log(0.5), np.log(0.25), 20, 0, 20, 0]   # anchor 1, row 1, column 2, class 1

    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, data):
            return F.identity(data)

    head = list(shared_tiny.detector()._heads)[0]
    detector = gops.darknet.Detector(Net(), [head], 3, 1)
    ids, scores, boxes = (a.asnumpy()[0] for a in detector(mx.nd.array(logits.reshape(1, 16, 2, 3))))
    assert ids[:2, 0].tolist() == [1, -1]
    np.testing.assert_allclose(scores[0], 1, atol=1e-6)
    # Centre (2.5, 1.5) cells of 32 pixels; half of (64, 64) wide, a quarter high.
    np.testing.assert_allclose(boxes[0], [80 - 16, 48 - 8, 80 + 16, 48 + 8], rtol=1e-5)


@pytest.mark.parametrize("backend", ["builtin", "native"])
def test_exports(backend, shared_tiny, images, tmp_path):
    """A SymbolBlock has the raw map, or the detector with its anchors, and takes another size."""
    for block in (shared_tiny, shared_tiny.detector(0.1)):
        expected = block(images)
        paths = gops.export.symbol(block, tmp_path / "net", (1, 3, 32, 32), backend=backend)
        found = gluon.SymbolBlock.imports(paths[0], ["data"], paths[1])(images)
        for a, b in zip(*(x if isinstance(x, (list, tuple)) else [x] for x in (found, expected))):
            np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-4, atol=1e-3)
    anchors, = (value for name, value in mx.nd.load(paths[1]).items() if name.endswith("anchors"))
    np.testing.assert_array_equal(anchors.asnumpy().reshape(2, 2), np.array(ANCHORS) * 32)


def rows(net):
    return [p.data().copy().asnumpy().reshape(len(ANCHORS), 5 + len(net.classes), -1)
            for p in (net.output.conv.weight, net.output.conv.bias)]


@pytest.mark.parametrize("reuse, kept", [
    (["dog", "cat"], {1: 1, 0: 0}), ({"fox": "dog"}, {2: 1}), ({2: 0, "cat": 2}, {2: 0, 0: 2}), ({}, {}), (None, {})])
def test_reset_class(reuse, kept, images):
    net = tiny()
    net.output.conv.bias.set_data(mx.nd.random.normal(shape=net.output.conv.bias.shape))
    net.hybridize()
    net(images)
    before, backbone = rows(net), net.backbone[0].conv.weight.data().copy().asnumpy()
    net.reset_class(["cat", "dog", "fox", "owl"], reuse)
    assert net.classes == ("cat", "dog", "fox", "owl") and net(images).shape == (2, 2 * 9, 2, 3)
    for old, new in zip(before, rows(net)):
        for row in range(9):
            source = row if row < 5 and kept else 5 + kept[row - 5] if row - 5 in kept else None
            if source is not None:
                np.testing.assert_array_equal(new[:, row], old[:, source])
            elif row < 8:
                assert np.abs(new[:, row] - old[:, row]).max() > 1e-4
    np.testing.assert_array_equal(net.backbone[0].conv.weight.data().copy().asnumpy(), backbone)
    assert net.detect(images, 0.1, topk=5)[0].shape == (2, 5, 1)


@pytest.mark.parametrize("reuse, text", [
    ({"cow": "dog"}, "reuse_weights names 'cow', which is none of the 2 new classes. The new classes are fox, dog"),
    ({"fox": 3}, "reuse_weights names 3, which is none of the 3 old classes. The old classes are cat, dog, bird"),
    (["fox"], "reuse_weights names 'fox', which is none of the 3 old classes"),
    (5, "reuse_weights is 5; expected None, a dict")])
def test_reset_class_refuses(reuse, text, shared_tiny):
    with pytest.raises(gops.OpError) as caught:
        shared_tiny.reset_class(["fox", "dog"], reuse)
    assert text in str(caught.value) and shared_tiny.classes == NAMES


def test_every_parameter_learns(images):
    net = tiny()
    net.hybridize()
    with autograd.record():
        loss = (net(images) ** 2).sum()
    loss.backward()
    for name, parameter in net.collect_params().items():
        assert parameter.grad_req == "null" or np.abs(parameter.grad().asnumpy()).max() > 0, name


@pytest.mark.parametrize("name, fine, coarse", [("resnet18_v1b", 256, 512), ("mobilenet1.0", 512, 1024)])
def test_backbones_of_gluoncv(name, fine, coarse, images):
    net = gops.models.yolov2(NAMES, ANCHORS, backbone=name)
    net.initialize()
    net.hybridize()
    shapes = [a.shape for a in net.backbone(images)]
    assert shapes == [(2, fine, 4, 6), (2, coarse, 2, 3)]
    assert net(images).shape == (2, 16, 2, 3) and net(images[:1, :, :32, :32]).shape == (1, 16, 1, 1)
    with pytest.raises(gops.OpError, match="a Darknet file holds the parameters of"):
        net.load_darknet("yolov2.weights")


@pytest.mark.parametrize("name, text", [
    ("resnet5", "backbone is 'resnet5'; expected 'darknet19' or a network of gluoncv's zoo"),
    ("squeezenet1.0", "backbone 'squeezenet1.0' does not fit: it has no layer of stride 16"),
    ("inceptionv3", "backbone 'inceptionv3' does not fit: it does not take them")])
def test_backbones_that_do_not_fit(name, text):
    with pytest.raises(gops.OpError) as caught:
        gops.models.yolov2(backbone=name)
    assert text in str(caught.value)


def test_a_missing_gluoncv_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gluoncv.model_zoo", None)
    with pytest.raises(gops.OpError, match=r"gluoncv cannot be imported .*pip install 'gluonops\[detection\]'"):
        gops.models.yolov2(backbone="resnet18_v1b")
