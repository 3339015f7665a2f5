"""Our own networks against the cfg-built ones, which test_golden.py holds against Darknet."""
import filecmp
import re

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from recorded import cfg


@pytest.mark.parametrize("model, name, seed", [("darknet19", "darknet19", 8), ("tiny_yolov2", "yolov2-tiny-voc", 7),
                                               pytest.param("yolov2", "yolov2-voc", 11, marks=pytest.mark.slow)])
def test_the_same_weights_the_same_outputs(model, name, seed, rng, tmp_path, weights):
    path = weights(name, seed)
    net, reference = gops.models.get_model(model), gops.darknet.load(cfg(name), path)
    header = net.load_darknet(path)
    data = mx.nd.array(rng.rand(2, 3, 96, 64))
    outputs = reference.layer_outputs(data)
    if model == "darknet19":
        np.testing.assert_array_equal(net(data).asnumpy(), outputs[-2].asnumpy()[:, :, 0, 0])   # the softmax follows
    else:
        np.testing.assert_array_equal(net(data).asnumpy(), outputs[-2].asnumpy())
        for ours, theirs in zip(net.detect(data, 0.1), reference.detector(0.1)(data)):
            assert (ours >= 0).asnumpy().any()
            np.testing.assert_array_equal(ours.asnumpy(), theirs.asnumpy())
    gops.darknet.save_weights(net, tmp_path / "again")
    assert header.seen == 0 and filecmp.cmp(path, tmp_path / "again", shallow=False)
    (tmp_path / "again").unlink()
    if model == "darknet19":
        check_the_published_beginning(net, path, tmp_path / "darknet19_448.conv.23")


def check_the_published_beginning(net, path, part):
    """darknet19_448.conv.23 is darknet19's file up to its classifier: the backbone takes it as it is."""
    part.write_bytes(path.read_bytes()[:-4 * (1000 + 1000 * 1024)])
    backbone = gops.models.get_model("darknet19").features
    gops.darknet.load_weights(backbone, part)
    part.unlink()
    data = mx.nd.ones((1, 3, 32, 32))
    for ours, theirs in zip(backbone(data), net.features(data)):
        np.testing.assert_array_equal(ours.asnumpy(), theirs.asnumpy())


def test_a_file_of_another_network_is_refused(weights):
    path = weights("darknet19", 8)
    with pytest.raises(gops.OpError, match="is too short: tinyyolov20_backbone_convolution2 takes bytes"):
        gops.models.tiny_yolov2(prefix="tinyyolov20_").load_darknet(weights("mini-yolov2", 21))
    with pytest.raises(gops.OpError, match="bytes too many: the last layer, tinyyolov20_output, ends at byte"):
        gops.models.tiny_yolov2(prefix="tinyyolov20_").load_darknet(path)


# Our name -> the shipped cfg, and the channels of its first layer.
MULTISCALE = {"yolov3": ("pjreddie/yolov3", 32), "tiny_yolov3": ("pjreddie/yolov3-tiny", 16),
              "yolov4": ("alexeyab/yolov4", 32), "tiny_yolov4": ("alexeyab/yolov4-tiny", 32)}
WIDTH = 1 / 8


def narrow(text, width):
    """A cfg with fewer filters in all layers but those in front of [yolo], and small images."""
    def filters(match):
        count = int(match[1])
        return f"filters={count if count == 255 else int(count * width)}\n"

    text = re.sub(r"filters *= *(\d+) *\n", filters, text)
    return re.sub(r"(?m)^(width|height) *=.*$", r"\1=64", text)


@pytest.mark.parametrize("name", MULTISCALE)
def test_yolov3_and_yolov4_are_those_of_the_cfgs(name, rng, tmp_path, shipped):
    """The layers agree at full width, one by one, and the outputs to the bit at an eighth of it."""
    path = shipped / f"{MULTISCALE[name][0]}.cfg"
    net, reference = gops.models.get_model(name), gops.darknet.load(path)
    assert [described(layer) for layer in convolutions(net)] == [described(layer) for layer in convolutions(reference)]
    assert net.preprocessing == reference.preprocessing

    (tmp_path / "net.cfg").write_text(narrow(path.read_text(), WIDTH))
    reference = gops.darknet.load(tmp_path / "net.cfg")
    reference.initialize(mx.init.Xavier(magnitude=6))
    for layer in convolutions(reference):
        shake(layer, rng)
    gops.darknet.save_weights(reference, tmp_path / "weights")
    net = gops.models.get_model(name, width=WIDTH)
    net.load_darknet(tmp_path / "weights")

    data = mx.nd.array(rng.rand(2, 3, 64, 96))
    outputs = reference.layer_outputs(data)
    for ours, number in zip(net(data), reference._outputs):
        np.testing.assert_array_equal(ours.asnumpy(), outputs[number - 1].asnumpy())   # [yolo] follows
    for ours, theirs in zip(net.detect(data, 0.2), reference.detector(0.2)(data)):
        assert (ours >= 0).asnumpy().any()
        np.testing.assert_array_equal(ours.asnumpy(), theirs.asnumpy())
    gops.darknet.save_weights(net, tmp_path / "again")
    assert filecmp.cmp(tmp_path / "weights", tmp_path / "again", shallow=False)


def convolutions(block):
    for child in block._children.values():
        if isinstance(child, gops.darknet.Convolution):
            yield child
        yield from convolutions(child)


def described(layer):
    return (layer.conv.weight.shape, layer.conv._kwargs["stride"], type(layer.activation).__name__,
            layer.norm and (type(layer.norm).__name__, layer.norm._kwargs["eps"]))


def shake(layer, rng):
    """Biases and statistics that are not 0 and 1."""
    for parameter in layer.file_parameters()[:-1]:
        parameter.set_data(mx.nd.array(rng.uniform(0.5, 1.5, parameter.shape)))
