"""gluonops.models: YOLOv3, YOLOv4 and their tiny variants. tests/darknet compares them with the cfgs."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest

NAMES = ("cat", "dog")
MAPS = {"yolov3": (32, 16, 8), "tiny_yolov3": (32, 16), "yolov4": (8, 16, 32), "tiny_yolov4": (32, 16)}


def make(name):
    net = gops.models.get_model(name, classes=NAMES, width=1 / 8)
    net.initialize(mx.init.Xavier())
    return net


@pytest.mark.parametrize("name", MAPS)
def test_maps_and_classes(name, rng):
    """Maps have their sizes, hybridized or not; the classes can be changed."""
    net, data = make(name), mx.nd.array(rng.rand(2, 3, 64, 96))
    plain = net(data)
    assert [x.shape for x in plain] == [(2, 3 * 7, 64 // stride, 96 // stride) for stride in MAPS[name]]
    net.hybridize(static_alloc=True, static_shape=True)
    for one, other in zip(net(data), plain):
        np.testing.assert_allclose(one.asnumpy(), other.asnumpy(), rtol=1e-3, atol=1e-4)

    block, _ = net._outputs()[0]
    before = block.output.conv.weight.data().copy().asnumpy().reshape(3, 7, -1)
    net.reset_class(["fox", "cat", "dog"], ["dog"])
    after = block.output.conv.weight.data().copy().asnumpy().reshape(3, 8, -1)
    np.testing.assert_array_equal(after[:, [0, 4, 7]], before[:, [0, 4, 6]])
    assert [x.shape[1] for x in net(data)] == [3 * 8] * len(plain)
    ids, scores, boxes = net.detect(data, 0.1, topk=5)
    assert ids.shape == scores.shape == (2, 5, 1) and boxes.shape == (2, 5, 4)


@pytest.mark.parametrize("name, kwargs, text", [
    ("yolov3", {"width": 0}, "gluonops.models.YOLOv3: width is 0; expected"),
    ("yolov4", {"anchors": "voc"}, "gluonops.models.YOLOv4: anchors are 'voc'; expected 'coco', or pairs"),
    ("yolov4", {"anchors": [(1, 2)]}, "gluonops.models.YOLOv4: anchors has 1 pair; expected 9"),
    ("tiny_yolov4", {"anchors": np.ones((9, 2))}, "anchors has 9 pairs; expected 6. Pass 6 pairs"),
    ("tiny_yolov3", {"classes": 0}, "gluonops.models.TinyYOLOv3: classes is 0; expected an integer of at least 1")])
def test_refused(name, kwargs, text):
    with pytest.raises(gops.OpError) as caught:
        gops.models.get_model(name, **kwargs)
    assert text in str(caught.value)
    net = gops.models.get_model(name, width=0.01)
    with pytest.raises(gops.OpError, match="height and width that are multiples of 32"):
        net(mx.nd.zeros((1, 3, 48, 64)))


@pytest.mark.parametrize("name", MAPS)
def test_every_parameter_learns(name, rng):
    net, data = make(name), mx.nd.array(rng.rand(2, 3, 64, 96))
    net.hybridize()
    with mx.autograd.record():
        loss = mx.nd.add_n(*[(x ** 2).sum() for x in net(data)])
    loss.backward()
    for key, parameter in net.collect_params().items():
        assert parameter.grad_req == "null" or np.abs(parameter.grad().asnumpy()).max() > 0, key
