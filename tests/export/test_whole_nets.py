"""Whole nets as people export them, through every export: the exports compare themselves with MXNet."""
import importlib.util
import pathlib
import sys

import gluonops as gops
import mxnet as mx
import pytest
from gluonops.export import sides

sys.path.append(str(pathlib.Path(__file__).parent))
from whole_nets import Bert, face_net, save  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Please import `csr_matrix`")   # mx.nd.array, with today's SciPy
SMALL = {"units": (1, 2, 1, 1), "filters": (8, 8, 16, 16, 32), "embedding": 16}
INPUTS = {"words": (2, 7), "types": (2, 7), "length": (2,), "masked": (2, 3)}


@pytest.fixture(params=[pytest.param({}, marks=pytest.mark.slow, id="r50"), pytest.param(SMALL, id="small")])
def face(request, tmp_path, rng):
    shape = (1, 3, 64, 64) if request.param else (1, 3, 112, 112)
    return save(tmp_path / "face", face_net(**request.param), rng, data=shape), shape


def test_a_face_net_in_onnx(face, tmp_path):
    pytest.importorskip("onnxruntime")
    net, shape = face
    path = gops.export.onnx(net, tmp_path / "face.onnx", shape)
    found, = gops.export.compare(net, path, shape)
    assert found.output == "fc1_output" and found.relative < 1e-4


def test_a_face_net_in_torch(face, tmp_path):
    pytest.importorskip("torch")
    net, shape = face
    gops.export.torch(net, tmp_path / "port", shape)
    assert "PReLU" in (tmp_path / "port" / "net.py").read_text()


@pytest.fixture
def bert():
    mx.random.seed(3)
    net = Bert()
    net.initialize(mx.init.Normal(0.3))
    net(*[mx.nd.ones(shape) for shape in INPUTS.values()])
    return net


def test_bert_in_onnx(bert, tmp_path):
    pytest.importorskip("onnxruntime")
    path = gops.export.onnx(bert, tmp_path / "bert.onnx", INPUTS)
    found = gops.export.compare(bert, path, INPUTS)
    assert len(found) == 4 and max(each.relative for each in found) < 1e-4


def test_bert_in_torch(bert, tmp_path):
    pytest.importorskip("torch")
    gops.export.torch(bert, tmp_path / "port", INPUTS)
    assert "nn.LayerNorm(32, eps=1e-12)" in (tmp_path / "port" / "net.py").read_text()


@pytest.fixture
def passes(monkeypatch):
    """Counts the passes of the net on both sides: a step of training is one forward and one backward."""
    counted = []

    def count(owner, name, weight):
        run = getattr(owner, name)

        def counting(self, *args, **kwargs):
            counted.append((owner.__name__, weight(self)))
            return run(self, *args, **kwargs)

        monkeypatch.setattr(owner, name, counting)

    count(sides.InMXNet, "__call__", lambda side: 1)
    count(sides.InOnnxruntime, "__call__", lambda side: 1)
    if importlib.util.find_spec("torch"):
        from gluonops.export.torch import reference, step, verify
        count(reference.Reference, "__call__", lambda side: 2 if side.trained else 1)
        count(verify.Comparison, "_evaluate", lambda side: 1)
        count(step.Step, "__call__", lambda side: 2)
    return counted


def detector():
    net = gops.models.tiny_yolov3(classes=2, width=1 / 4)
    net.initialize(mx.init.Xavier(magnitude=2))
    return net.detector()


NETS = {"face": lambda: (face_net(**SMALL), (1, 3, 64, 64)), "bert": lambda: (Bert(), INPUTS),
        "darknet": lambda: (gops.models.darknet19(classes=5), (1, 3, 64, 64)),
        "mobilenet": lambda: (mx.gluon.model_zoo.vision.mobilenet_v2_0_25(), (1, 3, 64, 64)),
        "detector": lambda: (detector(), (1, 3, 64, 64))}


@pytest.mark.parametrize("target", ["onnx", "torch"])
# Darknet-19 has 20 million parameters, and nothing that the others do not have.
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "darknet")) for name in NETS])
def test_ten_passes_verify_a_net(name, target, passes, tmp_path, rng):
    """Forward and backward passes of both sides together. An export that agrees waits for no more.

    Where the first look finds more than the usual rounding, MXNet's step is repeated with other rounding errors.
    Whether it does depends on the processor and on its threads, so this step does not count.
    """
    pytest.importorskip("onnxruntime" if target == "onnx" else "torch")
    mx.random.seed(0)
    net, shape = NETS[name]()
    if isinstance(net, mx.sym.Symbol):
        net = save(tmp_path / "net", net, rng, data=shape)
    elif name != "detector":
        net.initialize(mx.init.Xavier(magnitude=2))
    if target == "torch":
        gops.export.torch(net, tmp_path / "port", shape)
    else:
        gops.export.compare(net, gops.export.onnx(net, tmp_path / "net.onnx", shape), shape)
    repeated = max([name for name, _ in passes].count("Reference") - 1, 0)
    assert repeated <= 1 and 4 <= sum(weight for _, weight in passes) - 2 * repeated <= 10, passes
