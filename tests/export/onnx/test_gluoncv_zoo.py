"""A net of every family in gluoncv's zoo that is built without a download: symbol JSON and ONNX against MXNet.

Each net has random weights, scaled layer by layer so that no output vanishes and no two scores are equal.
"""
import warnings

import gluonops as gops
import mxnet as mx
import numpy as np
import onnx_oracle
import pytest
from benchmarks.networks.gluoncv_nets import NETS, TWO_STAGES, UNSTABLE, difference, made, outputs_of, scale
from mxnet import gluon
from mxnet.gluon import nn

TOLERANCE = 1e-4   # It is relative to the largest value.
QUICK = ("cifar_resnet20_v2", "mobilenetv3_small", "shufflenet_v1", "yolo3_mobilenet0.25_voc")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
                                  for name in NETS])
def test_net(name, tmp_path, rng):
    net = made(name)
    images = rng.uniform(-1, 1, (2, *NETS[name])).astype(np.float32)
    if name in TWO_STAGES:
        images = images[:1]
    scale(net, mx.nd.array(images[:1]), rng)
    expected = outputs_of(net, images)
    check = check_shapes if name in UNSTABLE else check_values
    path, _ = gops.export.symbol(net, tmp_path / "net", images.shape)
    check(expected, outputs_of(gluon.SymbolBlock.imports(
        path, ["data"], str(tmp_path / "net-0000.params")), images))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", gops.export.ExportWarning)
        gops.export.onnx(net, tmp_path / "net.onnx", (1, *images.shape[1:]))
    said = [str(warning.message) for warning in caught if warning.category is gops.export.ExportWarning]
    assert bool(said) == (name in TWO_STAGES), said
    assert not said or said[0].startswith("the file takes a batch of 1 only: ")
    session = onnx_oracle.session(tmp_path / "net.onnx")
    check(expected, session.run(None, {session.get_inputs()[0].name: images}))


def check_shapes(expected, found):
    assert [value.shape for value in found] == [value.shape for value in expected]
    assert all(np.isfinite(value).all() for value in found)


def check_values(expected, found):
    assert all(np.isfinite(value).all() for value in expected) and expected[-1].std() > 0
    assert difference(expected, found) < TOLERANCE


@pytest.mark.parametrize("has_scale", [True, False])
def test_group_norm(has_scale, tmp_path, rng):
    """gluoncv's own reads the shape of its input, so that MXNet cannot export it."""
    norm = onnx_oracle.gluoncv().nn.GroupNorm(ngroups=2, in_channels=8, scale=has_scale)
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3), norm)
    net.initialize()
    for parameter in (norm.gamma, norm.beta):
        parameter.set_data(mx.nd.array(rng.uniform(0.5, 2, (8,))))
    onnx_oracle.agree(net, tmp_path / "net.onnx", {"data": (3, 6, 7)}, rng=rng)
    assert "hybrid_forward" not in vars(norm)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_tracker(tmp_path, rng):
    """It has two inputs, one of which becomes the kernel of a convolution."""
    net = made("siamrpn_alexnet_v2_otb15")
    inputs = {"template": (3, 127, 127), "search": (3, 287, 287)}
    onnx_oracle.agree(net, tmp_path / "net.onnx", inputs, batches=(1,), rng=rng)
