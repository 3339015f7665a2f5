"""Files that MXNet's quantize_net wrote become the float net that they came from, and from there every other format."""
import json
import warnings

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon
from mxnet.contrib import quantization
from mxnet.gluon import nn

pytestmark = pytest.mark.filterwarnings("ignore:Please import `csr_matrix`")   # mx.nd.array, with today's SciPy
SHAPE = (4, 3, 8, 8)


class Residual(nn.HybridBlock):
    """A sum with the shortcut on either side, as MXNet fuses it into the convolution."""

    def __init__(self, shortcut_first):
        super().__init__()
        self.shortcut_first = shortcut_first
        self.first, self.second = nn.Conv2D(8, 3, padding=1, activation="relu"), nn.Conv2D(8, 3, padding=1)
        self.dense = nn.Dense(3)

    def hybrid_forward(self, F, x):
        x = self.first(x)
        y = self.second(x)
        return self.dense(F.relu(x + y if self.shortcut_first else y + x))


class Branches(nn.HybridBlock):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Conv2D(8, 1, activation="relu"), nn.Conv2D(8, 3, padding=1, use_bias=False)
        self.norm, self.dense = nn.BatchNorm(), nn.Dense(3, activation="relu")

    def hybrid_forward(self, F, x):
        x = F.concat(self.left(x), F.relu(self.norm(self.right(x))), dim=1)
        return self.dense(F.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="avg"))


def plain():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(), nn.Flatten(),
            nn.Dense(16, activation="relu"), nn.Dense(3, use_bias=False))
    return net


NETS = {"plain": plain, "sum": lambda: Residual(False), "shortcut first": lambda: Residual(True), "branches": Branches}


@pytest.fixture(params=NETS)
def quantized(request, tmp_path):
    """The path of the files of a net in 8 bits, its images, and the outputs of the float net."""
    mx.random.seed(1)
    net = NETS[request.param]()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    images = mx.nd.random.uniform(shape=SHAPE)
    outputs = net(images).asnumpy()
    data = gluon.data.DataLoader(gluon.data.ArrayDataset(images, mx.nd.zeros(4)), batch_size=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = quantization.quantize_net(net, quantized_dtype="auto", calib_mode="naive", calib_data=data,
                                          ctx=mx.cpu())
        small.hybridize()
        small(images)
        small.export(str(tmp_path / "net"))
    return tmp_path / "net", images.asnumpy(), outputs


def test_every_format(quantized, tmp_path):
    """Weights that MXNet stored as floats are the net's own; others differ by half a step."""
    prefix, images, outputs = quantized
    onnxruntime = pytest.importorskip("onnxruntime")
    with pytest.warns(gops.export.ExportWarning, match="layers of 8 bits became the float layers"):
        model = gops.export.ExportedModel.from_files(prefix)
    assert not [node for node in model.graph.nodes() if "quantize" in node.op or "mkldnn" in node.op]
    assert {value.dtype for value in model.parameters.values()} == {np.float32}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gops.export.ExportWarning)
        path = gops.export.onnx(prefix, tmp_path / "net.onnx", SHAPE)
        gops.export.rewrite(prefix, tmp_path / "floats", data_shape=SHAPE)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found, = session.run(None, {session.get_inputs()[0].name: images})
    assert np.abs(found - outputs).max() < 0.01 * np.abs(outputs).max()
    symbol, parameters = (str(tmp_path / name) for name in ("floats-symbol.json", "floats-0000.params"))
    net = gluon.SymbolBlock.imports(symbol, ["data"], parameters)
    np.testing.assert_allclose(net(mx.nd.array(images)).asnumpy(), found, rtol=1e-4, atol=1e-5)


def test_a_missing_array_is_named(tmp_path, quantized):
    prefix, _, _ = quantized
    values = mx.nd.load(f"{prefix}-0000.params")
    gone = next((name for name in values if name.endswith("_quantize_min")), None)
    if gone is None:
        pytest.skip("all of its weights are floats")
    del values[gone]
    mx.nd.save(f"{prefix}-0000.params", values)
    with pytest.raises(gops.OpError, match="has no value for"), warnings.catch_warnings():
        warnings.simplefilter("ignore", gops.export.ExportWarning)
        gops.export.onnx(prefix, tmp_path / "net.onnx", SHAPE)


def test_an_unknown_layer_of_8_bits_is_refused(tmp_path, quantized):
    """It tells nothing of a float layer, so the error asks for the float files."""
    prefix, _, _ = quantized
    path = tmp_path / "net-symbol.json"
    graph = json.loads(path.read_text())
    for node in graph["nodes"]:
        node["op"] = {"_contrib_quantize_v2": "_contrib_quantized_other"}.get(node["op"], node["op"])
    path.write_text(json.dumps(graph))
    with pytest.raises(gops.OpError, match="computes with 8 bits|does not have"):
        gops.export.ExportedModel.from_files(prefix)
