"""Detectors from files: exported ones, and Darknet's."""
import pathlib
import runpy

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops import train

DARKNET = pathlib.Path(__file__).parents[1] / "golden" / "darknet"


@pytest.fixture
def weights(tmp_path):
    runpy.run_path(str(DARKNET / "random_weights.py"))["write"](str(DARKNET / "mini-yolov2.cfg"), 21,
                                                                 str(tmp_path / "mini.weights"))
    return tmp_path / "mini.weights"


def test_both_ways_find_the_same(tmp_path, weights):
    cfg = DARKNET / "mini-yolov2.cfg"
    from_darknet = train.load_net(cfg, weights, names=["cat", "dog"])
    width, height = from_darknet.size
    gops.export.symbol(from_darknet.detector, tmp_path / "net", (1, 3, height, width))
    exported = train.load_net(tmp_path / "net", names=["cat", "dog"])
    assert exported.size == from_darknet.size and exported.classes == from_darknet.classes == ("cat", "dog")
    images = mx.nd.random.uniform(shape=(2, 3, height, width))
    for one, other in zip(exported.detector(images), from_darknet.detector(images)):
        np.testing.assert_allclose(one.asnumpy(), other.asnumpy(), rtol=1e-4, atol=1e-4)
    assert train.load_net(cfg, weights).classes == ("0", "1")


def test_refused(tmp_path, weights):
    cfg = DARKNET / "mini-yolov2.cfg"
    net = mx.gluon.nn.Dense(2, in_units=3)
    net.initialize()
    gops.export.symbol(net, tmp_path / "dense", (1, 3))
    detector = train.load_net(cfg, weights).detector
    gops.export.symbol(detector, tmp_path / "blue", (1, 3, 64, 96), metadata={"preprocessing": {"colours": "BGR"}})
    for text, options in (
            ("no weights were passed for ", {"path": cfg}), ("there is no file", {"path": tmp_path / "none"}),
            ("takes data of shape (1, 3), and is neither", {"path": tmp_path / "dense"}),
            ("blue takes images prepared as {'colours': 'BGR'", {"path": tmp_path / "blue"}),
            ("classes has 1 name; expected 2, one for each class of the net",
             {"path": cfg, "weights": weights, "names": ["a"]})):
        with pytest.raises(gops.OpError) as caught:
            train.load_net(**options)
        assert text in str(caught.value)
