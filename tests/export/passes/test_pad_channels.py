"""Padding convolutions to a multiple of 16 channels: the same outputs, where it applies, and what it leaves alone."""
import json
import pathlib

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon
from mxnet.gluon import nn

SHAPE = (2, 3, 8, 8)


def chain(*layers):
    net = nn.HybridSequential()
    net.add(*layers)
    net.initialize(mx.init.Uniform(1))
    return net


def padded(net, folder, rng, shape=SHAPE, **options):
    """(output channels of the convolutions in the file, the other operators); the outputs are compared."""
    data = mx.nd.array(rng.uniform(-1, 1, shape))
    expected = net(data)
    symbol, parameters = gops.export.symbol(net, folder / "net", shape, pad_channels=True, **options)
    block = gluon.SymbolBlock.imports(symbol, ["data"], parameters)
    for runs in (lambda: None, lambda: block.optimize_for(data, backend="MKLDNN", static_alloc=True)):
        runs()
        for ours, theirs in zip(_list(block(data)), _list(expected)):
            ours, theirs = ours.asnumpy(), theirs.asnumpy()
            assert ours.shape == theirs.shape and abs(ours - theirs).max() <= 1e-5 * abs(theirs).max()
    nodes = json.loads(pathlib.Path(symbol).read_text())["nodes"]
    return ([int(node["attrs"]["num_filter"]) for node in nodes if node["op"] == "Convolution"],
            [node["op"] for node in nodes if node["op"] not in ("null", "Convolution")])


def _list(outputs):
    return outputs if isinstance(outputs, (list, tuple)) else [outputs]


@pytest.mark.parametrize("layers, channels, others", [
    (lambda: [nn.Conv2D(5, 3)], [16], ["slice_axis"]),
    (lambda: [nn.Conv2D(33, 1, use_bias=False)], [48], ["slice_axis"]),
    (lambda: [nn.Conv2D(5, 3), nn.LeakyReLU(0.1), nn.MaxPool2D()], [16], ["LeakyReLU", "Pooling", "slice_axis"]),
    (lambda: [nn.Conv2D(5, 3), nn.PReLU()], [16], ["slice_axis", "LeakyReLU"]),
    (lambda: [nn.Conv2D(5, 3, activation="relu"), nn.Conv2D(20, 1)], [16, 32],
     ["Activation", "slice_axis", "slice_axis"]),
    (lambda: [nn.Conv2D(16, 3)], [16], []),
    (lambda: [nn.Conv2D(6, 3, groups=3)], [6], []),
    (lambda: [nn.Conv2D(5, 3), nn.BatchNorm()], [5], ["BatchNorm"]),
], ids=["plain", "no_bias", "behind_pooling", "prelu", "two", "enough", "groups", "batch_norm"])
def test_what_is_padded(layers, channels, others, rng, tmp_path):
    assert padded(chain(*layers()), tmp_path, rng) == (channels, others)


WIDTHS = (1, 33, 65, 71, 75, 79, 97, 104, 111, 161, 175, 193, 207, 255, 257, 259, 300, 360, 425, 500, 728)


def test_every_width_runs(rng, tmp_path):
    """MXNet's slice refuses about half of these in oneDNN's blocked layout."""
    for width in WIDTHS:
        channels, others = padded(chain(nn.Conv2D(width, 1)), tmp_path, rng, shape=(1, 16, 8, 8))
        assert channels == [width + -width % 16] and others == ["slice_axis"]


def test_behind_a_folded_batch_norm(rng, tmp_path):
    net = chain(nn.Conv2D(5, 3), nn.BatchNorm(), nn.LeakyReLU(0.1))
    assert padded(net, tmp_path, rng, fold_batch_norm=True) == ([16], ["LeakyReLU", "slice_axis"])


class Fork(gluon.HybridBlock):
    """A convolution that two layers read, and that is put out as well; one weight in two convolutions."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.fork, self.first = nn.Conv2D(5, 3), nn.Conv2D(7, 1, in_channels=5)
            self.second = nn.Conv2D(7, 1, in_channels=5, params=self.first.params)

    def hybrid_forward(self, F, data):
        data = self.fork(data)
        return data, self.first(data) + self.second(data.abs())


def test_several_readers_and_a_shared_weight(rng, tmp_path):
    net = Fork()
    net.initialize(mx.init.Uniform(1))
    channels, _ = padded(net, tmp_path, rng)
    assert channels == [16, 7, 7]


def test_outputs_keep_their_names(rng, tmp_path):
    net = chain(nn.Conv2D(5, 3))
    plain, _ = gops.export.symbol(net, tmp_path / "plain", SHAPE)
    padded(net, tmp_path, rng)
    assert mx.sym.load(str(tmp_path / "net-symbol.json")).list_outputs() == mx.sym.load(plain).list_outputs()


def test_a_file_is_padded_and_goes_to_onnx(rng, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    net, data = chain(nn.Conv2D(5, 3), nn.LeakyReLU(0.1)), rng.randn(*SHAPE).astype("float32")
    expected = net(mx.nd.array(data)).asnumpy()
    gops.export.symbol(net, tmp_path / "net", SHAPE)
    symbol, _ = gops.export.rewrite(tmp_path / "net", tmp_path / "out", pad_channels=True)
    assert "slice_axis" in pathlib.Path(symbol).read_text()
    path = gops.export.onnx(tmp_path / "out", tmp_path / "out.onnx")
    output, = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"data": data})
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)


def test_not_for_training(tmp_path):
    with pytest.raises(gops.OpError, match="pad_channels is for inference only, and this export is for training"):
        gops.export.symbol(chain(nn.Conv2D(5, 3)), tmp_path / "net", SHAPE, training=True, pad_channels=True)
