"""``net.loss()`` against the deltas that both programs compute (tests/golden/README.md)."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
import recorded
from in_turn import in_turn
from mxnet import autograd

RECORDING = np.load(recorded.FOLDER / "losses.npz")
CASES = sorted({name.split("_")[0] for name in RECORDING})


def case(name):
    return {key.split("_", 1)[1]: RECORDING[key] for key in RECORDING if key.startswith(f"{name}_")}


def loss_of(recording, folder):
    path = folder / "net.cfg"
    path.write_text(str(recording["cfg"]))
    net = gops.darknet.load(path, dialect=str(recording["program"]))
    net.initialize()
    net_loss = net.loss()
    net_loss.set_seen(int(recording["seen"]))
    return net_loss


def gradient(net_loss, data, truth, hybrid=False):
    """The loss and its gradient by what the head takes, which the net's convolution returns as it is."""
    convolution = net_loss.inputs.net[0]
    weight, = convolution.collect_params(".*weight").values()
    weight.set_data(mx.nd.eye(weight.shape[0]).reshape(weight.shape))
    if hybrid:
        net_loss.hybridize()
    data = mx.nd.array(data)
    data.attach_grad()
    with autograd.record():
        value = net_loss(data, mx.nd.array(truth))
    value.backward()
    return value.asnumpy(), data.grad.asnumpy()


@in_turn("name", CASES)
def test_delta(name, tmp_path):
    """The gradient is minus Darknet's delta. Every second case runs as a graph."""
    recording = case(name)
    net_loss = loss_of(recording, tmp_path)
    value, found = gradient(net_loss, recording["input"], recording["truth"], hybrid=int(name[1:]) % 2 == 1)
    assert np.isfinite(value).all()
    assert (value > 0).all()
    np.testing.assert_allclose(found, -recording["delta"].astype("f8"), rtol=2e-5, atol=2e-6)


def test_invalid_truth(tmp_path, monkeypatch):
    """An image with a class that does not exist has NaN, the other one its loss."""
    monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "0")
    recording = case("c00")
    net_loss = loss_of(recording, tmp_path)
    truth = recording["truth"].copy()
    expected, _ = gradient(net_loss, recording["input"], truth)
    truth[1] = 10
    found, _ = gradient(net_loss, recording["input"], truth)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
    assert np.isnan(found[1])


@pytest.mark.parametrize("name", ["c02", "c04"])
def test_export(name, tmp_path):
    recording = case(name)
    loss = loss_of(recording, tmp_path).loss
    arrays = [mx.nd.array(recording[key]) for key in ("input", "truth")]
    loss.hybridize()
    expected = loss(*arrays)
    loss.export(str(tmp_path / "loss"))
    loaded = mx.gluon.SymbolBlock.imports(str(tmp_path / "loss-symbol.json"), ["data0", "data1"],
                                          str(tmp_path / "loss-0000.params"))
    found = loaded(*arrays)
    found = found[0] if isinstance(found, (list, tuple)) else found
    np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-6)
