"""gluonops.models.region_detector: what a cfg's net computes for inference, and that it can be trained."""
import pathlib
import runpy

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon

DARKNET = pathlib.Path(__file__).parent / "golden" / "darknet"
CFG = DARKNET / "mini-yolov2.cfg"


@pytest.fixture
def weights(tmp_path):
    runpy.run_path(str(DARKNET / "random_weights.py"))["write"](str(CFG), 21, str(tmp_path / "mini.weights"))
    return str(tmp_path / "mini.weights")


@pytest.mark.parametrize("backbone_layers", [None, 3])
def test_it_computes_what_the_cfg_does(rng, weights, backbone_layers):
    """The map before [region] agrees, and the detections of darknet.load, which a test compares with Darknet's own."""
    whole = gops.darknet.load(CFG, weights)
    net = gops.models.region_detector(CFG, backbone_layers=backbone_layers)
    net.load_darknet(weights)
    images = mx.nd.array(rng.uniform(size=(2, *whole.input_shape)))
    assert net.input_shape == whole.input_shape and net.classes == ("0", "1") and not net.class_softmax
    np.testing.assert_array_equal(net(images).asnumpy(), whole.layer_outputs(images)[-2].asnumpy())
    for one, other in zip(net.detect(images, 0.1), whole.detector(0.1)(images)):
        np.testing.assert_allclose(one.asnumpy(), other.asnumpy(), rtol=1e-5, atol=1e-5)
    if backbone_layers:
        np.testing.assert_array_equal(net.backbone(images).asnumpy(), whole.layer_outputs(images)[2].asnumpy())


def test_weights_go_back_bit_for_bit(tmp_path, weights):
    net = gops.models.region_detector(CFG)
    net.load_darknet(weights)
    gops.darknet.save_weights(net, tmp_path / "back.weights")
    assert (tmp_path / "back.weights").read_bytes() == pathlib.Path(weights).read_bytes()


def test_it_learns_other_classes(rng):
    """One image has one object, of a class that the cfg has not."""
    anchors = [(1, 1), (2, 2), (3, 3)]
    net = gops.models.region_detector(CFG, ["ant", "bee", "cat"], 3, anchors)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    np.testing.assert_array_equal(net.anchors, anchors)
    channels, height, width = net.input_shape
    images = mx.nd.array(rng.uniform(size=(1, channels, height, width)))
    truth = mx.nd.array([[[0.5, 0.5, 0.4, 0.4, 2]]])
    loss = gops.loss.RegionLoss(net.anchors.ravel().tolist(), 3, softmax=net.class_softmax, warmup_images=0)
    loss.initialize()
    trainer, values = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.003}), []
    for _ in range(40):
        with autograd.record():
            value = loss(net(images), truth)
        value.backward()
        trainer.step(1)
        values.append(value.asscalar())
    assert values[-1] < 0.2 * values[0]
    assert net.detect(images, 0.001)[0].asnumpy()[0, 0, 0] == 2


@pytest.mark.parametrize("cfg, options, text", [
    ("mini-yolov3.cfg", {}, r"has \[yolo\] layers; expected \[region\]\. Name .* net\.loss"),
    ("mini-classifier.cfg", {}, r"ends in .*; expected \[convolutional\] and \[region\]"),
    ("mini-yolov2.cfg", {"backbone_layers": 99}, "backbone_layers is 99; expected 1 to "),
    ("mini-yolov2.cfg", {"anchors": [(1, 1)]}, "anchors has 1 pair; expected 3, as in .*mini-yolov2.cfg")])
def test_refused(cfg, options, text):
    with pytest.raises(gops.OpError, match=text):
        gops.models.region_detector(DARKNET / cfg, **options)


@pytest.mark.parametrize("model, shape, text", [
    ("darknet19", (1, 28, 28), "darknet19 does not take images of 1 channels, 28 x 28"),
    ("alexnet", (3, 28, 28), "alexnet does not take images of 3 channels, 28 x 28"),
    ("yolo3_darknet53_voc", (3, 64, 64), "there is no classifier 'yolo3_darknet53_voc'"),
    ("ssd_300_vgg16_atrous_voc", (3, 64, 64), "there is no classifier 'ssd_300_vgg16_atrous_voc'.*Choose mlp"),
    ("resnet18", (3, 64, 64), "there is no classifier 'resnet18' with `features`. Perhaps you mean 'resnet18_v[12]")])
def test_classifiers_that_take_no_such_images(model, shape, text):
    """One that is none is not asked, as the weights of its base would be downloaded."""
    with pytest.raises(gops.OpError, match=text):
        gops.models.classifier(model, ["a", "b"], shape)


@pytest.mark.parametrize("model, embedding", [("mlp", 0), ("lenet_reorg", 2), ("mobilenet0.25", 3)])
def test_classifiers(rng, model, embedding):
    channels = 3 if model == "mobilenet0.25" else 1
    net = gops.models.classifier(model, ["a", "b"], (channels, 28, 28), embedding)
    images = mx.nd.array(rng.uniform(size=(2, channels, 28, 28)))
    vectors = net.embed(images)
    assert not embedding or vectors.shape == (2, embedding)
    np.testing.assert_array_equal(net.output(vectors).asnumpy(), net(images).asnumpy())
    assert net.classes == ["a", "b"] and net.features is net.embed[0]
