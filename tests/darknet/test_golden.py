"""Whole networks against what Darknet computed on a CPU, layer by layer, detections included."""
import filecmp

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from recorded import FOLDER, cfg, corners, paired, recording

WHOLE = [("yolov2-tiny-voc", 7), ("darknet19", 8), ("yolov2-voc", 11)]
MINI = [("mini-yolov2", 21), ("mini-yolov3", 22), ("mini-classifier", 23)]


@pytest.mark.parametrize("name, seed", [*WHOLE[:-1], pytest.param(*WHOLE[-1], marks=pytest.mark.slow)])
def test_whole_networks(name, seed, tmp_path, weights):
    """The last convolution is within 2e-4 of its deviation everywhere, and region activations are within 1e-4."""
    expected, data = recording(name, seed)
    path = weights(name, seed)
    net = gops.darknet.load(cfg(name), path)
    outputs = [output.asnumpy() for output in net.layer_outputs(data)]
    for i, output in enumerate(outputs):
        where = f"layer {i}, {net[i].name}"
        np.testing.assert_allclose([output.mean(), output.std()], [expected[f"mean_{i:02d}"], expected[f"std_{i:02d}"]],
                                   rtol=5e-5, atol=2e-5, err_msg=where)
    if "raw" in expected:
        raw = expected["raw"]
        np.testing.assert_allclose(outputs[-2], raw, rtol=0, atol=2e-4 * raw.std())
        np.testing.assert_allclose(outputs[-1], expected["last"], rtol=0, atol=1e-4)
    else:
        last = expected["last"]
        np.testing.assert_allclose(outputs[-1], last, rtol=0, atol=2e-4 * last.std())
    net.hybridize(static_alloc=True, static_shape=True)
    np.testing.assert_allclose(net(data).asnumpy(), outputs[-1], rtol=1e-5, atol=1e-6)
    gops.darknet.save_weights(net, tmp_path / "again.weights")
    assert filecmp.cmp(path, tmp_path / "again.weights", shallow=False)
    (tmp_path / "again.weights").unlink()


@pytest.mark.parametrize("name, seed", MINI)
@pytest.mark.parametrize("hybridize", [False, True])
def test_every_layer(name, seed, hybridize, weights):
    """Small networks have every kind of layer, on sizes that are odd or differ in height and width."""
    expected, data = recording(name, seed)
    net = gops.darknet.load(cfg(name), weights(name, seed))
    if hybridize:
        for layer in net:
            layer.hybridize()
    outputs = [output[0].asnumpy() for output in net.layer_outputs(data)]
    assert net.input_shape == data.shape[1:] and len(net) == len(outputs)
    if name == "mini-classifier":   # Darknet's cost layer outputs its loss, ours its input
        np.testing.assert_array_equal(outputs.pop(), outputs[-1])
    for i, output in enumerate(outputs):
        recorded = expected[f"layer_{i:02d}"]
        assert output.shape == recorded.shape, net[i].name
        np.testing.assert_allclose(output, recorded, rtol=1e-5, atol=1e-5, err_msg=net[i].name)


def test_outputs(weights):
    """They are the last layer's, and with several yolo layers those of each."""
    for (name, seed), layers in zip(MINI, ((10,), (13, 19), (15,))):
        data = recording(name, seed)[1]
        net = gops.darknet.load(cfg(name), weights(name, seed))
        found = net(data)
        every = net.layer_outputs(data)
        found = found if isinstance(found, tuple) else (found,)
        assert len(found) == len(layers)
        for output, i in zip(found, layers):
            np.testing.assert_array_equal(output.asnumpy(), every[i].asnumpy())


@pytest.mark.parametrize("name, seed, size", [("mini-yolov2", 21, (96, 64)), ("mini-yolov3", 22, (64, 96)),
                                              ("yolov2-tiny-voc", 7, (416, 416))])
def test_detections(name, seed, size, weights):
    """Boxes, probabilities and suppression agree with get_network_boxes and do_nms_sort."""
    expected, data = recording(name, seed)
    recorded = expected if "detections" in expected else np.load(FOLDER / f"{name}-detections.npz")
    net = gops.darknet.load(cfg(name), weights(name, seed))
    ids, scores, boxes = (a[0].asnumpy() for a in net.detector(float(recorded["threshold"]), 0.45, 2000)(data))
    valid = ids[:, 0] >= 0
    width, height = size
    theirs = corners(recorded["detections"], height, width)
    ours = np.concatenate([ids, scores, boxes], 1)[valid]
    assert len(ours) > 20
    ours = paired(ours, theirs)
    np.testing.assert_array_equal(ours[:, 0], theirs[:, 0])
    np.testing.assert_allclose(ours[:, 1], theirs[:, 1], rtol=1e-4)
    np.testing.assert_allclose(ours[:, 2:], theirs[:, 2:], rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("sizes", [[(32, 64), (96, 32), (64, 64)]])
def test_other_sizes_from_batch_to_batch(sizes, rng, weights):
    """One hybridized net computes what a net that is not hybridized computes."""
    net = gops.darknet.load(cfg("mini-yolov2"), weights("mini-yolov2", 21))
    inputs = [mx.nd.array(rng.rand(i + 1, 3, *size)) for i, size in enumerate(sizes)]
    plain = [net(data).asnumpy() for data in inputs]
    net.hybridize()
    for data, expected, (height, width) in zip(inputs, plain, sizes):
        assert expected.shape == (len(data), 21, height // 32, width // 32)
        np.testing.assert_allclose(net(data).asnumpy(), expected, rtol=1e-5, atol=1e-6)
