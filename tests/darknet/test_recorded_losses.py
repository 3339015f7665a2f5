"""``net.loss()`` against the deltas that both programs compute (tests/golden/README.md)."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
import recorded
from mxnet import autograd

RECORDING = np.load(recorded.FOLDER / "losses.npz")
CASES = sorted({name.split("_")[0] for name in RECORDING})


@pytest.fixture(scope="session")
def folder_of_cfgs(tmp_path_factory):
    """A folder with the files that the cfgs name."""
    folder = tmp_path_factory.mktemp("cfgs")
    for name in ("mini.tree", "mini.map"):
        (folder / name).write_bytes((recorded.FOLDER / name).read_bytes())
    return folder


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


def darknets_gradient(recording):
    """Minus the delta, with the slopes of the sigmoids, which pjreddie's CPU build leaves out of a [region]."""
    delta = recording["delta"].astype("f8")
    data = recording["input"]
    if recording["program"] == "pjreddie" and "[region]" in str(recording["cfg"]):
        for channel in (0, 1, 4):   # x, y, objectness
            p = 1 / (1 + np.exp(-data[:, channel].astype("f8")))
            delta[:, channel] *= p * (1 - p)
    return -delta


def compared(recording):
    """The numbers that Darknet computes as its authors mean it."""
    counts = np.ones(recording["input"].shape, bool)
    text = str(recording["cfg"])
    if recording["program"] == "alexeyab" and "[region]" in text:   # his boxes have another weight
        anchors = counts.shape[1] // 15
        counts.reshape(len(counts), anchors, 15, -1)[:, :, :4] = False
    if "tree" in text and "[softmax]" in text:   # a CPU build has the target -1234 for groups that do not count
        counts &= recording["delta"] > -1000
    return counts


@pytest.mark.parametrize("name", CASES)
def test_delta(name, folder_of_cfgs):
    """Every second case runs as a graph."""
    recording = case(name)
    net_loss = loss_of(recording, folder_of_cfgs)
    value, found = gradient(net_loss, recording["input"], recording["truth"], hybrid=int(name[1:]) % 2 == 1)
    assert np.isfinite(value).all()
    assert (value > 0).all()
    counts = compared(recording)
    np.testing.assert_allclose(found[counts], darknets_gradient(recording)[counts], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["c00", "c01", "c02", "c03", "c26", "c27"])
def test_report(name, folder_of_cfgs):
    """Darknet's cost is the sum of the squared deltas. The parts of the loss add up to it."""
    recording = case(name)
    net_loss = loss_of(recording, folder_of_cfgs)
    value, _ = gradient(net_loss, recording["input"], recording["truth"])
    report = {key: number.asscalar() for key, number in net_loss.report().items()}
    cost = np.square(recording["delta"].astype("f8")).sum() / len(value)
    np.testing.assert_allclose(report["cost"], cost, rtol=1e-5)
    parts = ("coordinates", "objectness", "no_objectness", "classes")
    np.testing.assert_allclose(sum(report[part] for part in parts), value.mean(), rtol=1e-5)
    assert 0 < report["iou"] < 1 and 0 <= report["recall"] <= 1 and 0 < report["probability"] < 1
    assert net_loss.loss.seen.data().asscalar() == recording["seen"] + len(value)


@pytest.mark.parametrize("name", ["c00", "c09", "c28"])
def test_invalid_truth(name, folder_of_cfgs, monkeypatch):
    """An image with a class that does not exist has NaN, the other one its loss."""
    monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "0")
    recording = case(name)
    net_loss = loss_of(recording, folder_of_cfgs)
    truth = recording["truth"].copy()
    expected, _ = gradient(net_loss, recording["input"], truth)
    truth[1] = 10 if truth.ndim == 1 else np.where(truth[1] > 0, [1, 1, 1, 1, 0], 0) * truth[1] + [0, 0, 0, 0, 99]
    found, _ = gradient(net_loss, recording["input"], truth)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
    assert np.isnan(found[1])


def test_random(folder_of_cfgs):
    """`random` draws the responsible box while fewer than 64000 images are seen."""
    recording = case("c00")
    recording["cfg"] = f"{recording['cfg']}random=1\n"
    net_loss = loss_of(recording, folder_of_cfgs)
    one_box = recording["truth"][:, :1]

    def responsible():
        """The numbers of the boxes whose coordinates have a gradient, for both images."""
        _, found = gradient(net_loss, recording["input"], one_box)
        return tuple(found[:, 45:].reshape(2, 9, 2, 4).any((1, 3)).argmax(1))

    assert len({responsible() for _ in range(20)}) == 4
    net_loss.set_seen(64000)
    assert len({responsible() for _ in range(5)}) == 1


def test_float16(folder_of_cfgs):
    """The losses compute in float32."""
    for name in ("c00", "c09", "c28"):
        recording = case(name)
        net_loss = loss_of(recording, folder_of_cfgs)
        data = mx.nd.array(recording["input"])
        truth = mx.nd.array(recording["truth"])
        found = net_loss.loss(data.astype("float16"), truth.astype("float16"))
        assert found.dtype == np.float32
        np.testing.assert_allclose(found.asnumpy(), net_loss.loss(data, truth).asnumpy(), rtol=2e-2)


@pytest.mark.parametrize("name", ["c00", "c09"])
def test_export(name, folder_of_cfgs, tmp_path):
    recording = case(name)
    loss = loss_of(recording, folder_of_cfgs).loss
    arrays = [mx.nd.array(recording[key]) for key in ("input", "truth")]
    loss.hybridize()
    expected = loss(*arrays)
    loss.export(str(tmp_path / "loss"))
    loaded = mx.gluon.SymbolBlock.imports(str(tmp_path / "loss-symbol.json"), ["data0", "data1"],
                                          str(tmp_path / "loss-0000.params"))
    found = loaded(*arrays)
    found = found[0] if isinstance(found, (list, tuple)) else found
    np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-6)
