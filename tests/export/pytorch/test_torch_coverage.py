"""Which nets have a converter to torch for every operator: gluoncv's zoo, Darknet's cfgs, files of others."""
import pathlib
import sys

import gluonops as gops
import mxnet as mx
import pytest
from benchmarks.networks import gluoncv_nets
from gluonops.export.torch import prepare, write

pytest.importorskip("safetensors")
sys.path += [str(pathlib.Path(__file__).parents[1]), str(pathlib.Path(__file__).parents[1] / "onnx")]
import files_of_others  # noqa: E402
import test_legacy_files  # noqa: E402
import test_onnx  # noqa: E402

CFGS = sorted((pathlib.Path(__file__).parents[2] / "golden/darknet").glob("*.cfg"))
CHANNELS = {"pj-extra.cfg": 2}
QUICK = ("gotest", "det1", "save000800", "squeezenet11", "mnet25")   # These files of others are compared every day.


def check(net, shape):
    model = gops.export.ExportedModel.from_net(net, shape, where="export.torch")
    forms, _ = write._forms(prepare.with_constants(prepare.prepared(model, training=False)), model.types())
    assert forms


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", gluoncv_nets.NETS)
def test_zoo(name):
    check(gluoncv_nets.made(name), (1, *gluoncv_nets.NETS[name]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", CFGS, ids=lambda path: path.name)
def test_darknet(path):
    net = gops.darknet.load(path)
    net.initialize()
    check(net, (1, CHANNELS.get(path.name, 3), 96, 96))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
                                  for name in test_legacy_files.FILES])
def test_files_of_others(name, tmp_path, rng):
    """The export compares each with MXNet."""
    pytest.importorskip("torch")
    text, shapes = test_legacy_files.text_of(name), test_legacy_files.FILES[name]
    symbol = mx.sym.load_json(text)
    arrays = files_of_others.arrays_of(symbol, shapes, rng)
    files_of_others.save(tmp_path / "net", text, arrays, symbol.list_auxiliary_states(), shapes)
    images = {name: shape for name, shape in shapes.items() if not name.endswith("label")}
    gops.export.torch(tmp_path / "net", tmp_path / "port", images)
    assert (tmp_path / "port" / "test_net.py").exists()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_net_for_faces(tmp_path, rng):
    """insightface's LResNet-IR has PReLU, batch norms around the convolutions, and one of fixed gamma behind fc1."""
    pytest.importorskip("torch")
    data = mx.sym.var("data")
    x = (mx.sym.identity(data) - 127.5) * 0.0078125
    x = mx.sym.Convolution(x, num_filter=8, kernel=(3, 3), pad=(1, 1), no_bias=True, name="conv0")
    x = mx.sym.LeakyReLU(mx.sym.BatchNorm(x, fix_gamma=False, eps=2e-5, name="bn0"), act_type="prelu", name="relu0")
    x = test_onnx.unit(test_onnx.unit(x, 8, 2, "stage1"), 16, 2, "stage2")
    x = mx.sym.Dropout(mx.sym.BatchNorm(x, fix_gamma=False, eps=2e-5, name="bn1"), p=0.4)
    x = mx.sym.FullyConnected(x, num_hidden=12, name="pre_fc1")
    x = mx.sym.L2Normalization(mx.sym.BatchNorm(x, fix_gamma=True, eps=2e-5, name="fc1"))
    net = mx.gluon.SymbolBlock(x, data)
    net.initialize()
    net(mx.nd.zeros((1, 3, 16, 16)))
    for parameter in net.collect_params().values():
        low = -1 if parameter.name.endswith("weight") else 0.1
        parameter.set_data(mx.nd.array(rng.uniform(low, 1, parameter.shape)))
    gops.export.torch(net, tmp_path, (1, 3, 16, 16))
    assert "nn.PReLU(" in (tmp_path / "net.py").read_text()
