"""Splitting convolutions over their input channels: the same outputs, where it applies, and what it leaves alone."""
import json
import pathlib

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.commands import cli
from mxnet import gluon
from mxnet.gluon import nn

SHAPE = (2, 672, 5, 5)


def chain(*layers):
    net = nn.HybridSequential()
    net.add(*layers)
    net.initialize(mx.init.Uniform(0.1))
    return net


def outputs(net, data):
    result = net(data)
    return [output.asnumpy() for output in (result if isinstance(result, (list, tuple)) else [result])]


def split(net, folder, rng, shape=SHAPE, **options):
    """(input channels of the convolutions in the file, the other operators); the outputs are compared, fused too."""
    data = mx.nd.array(rng.uniform(-1, 1, shape))
    expected = outputs(net, data)
    symbol, parameters = gops.export.symbol(net, folder / "net", shape, split_channels=True, **options)
    block = gluon.SymbolBlock.imports(symbol, ["data"], parameters)
    for fuse in (lambda: None, lambda: block.optimize_for(data, backend="MKLDNN", static_alloc=True)):
        fuse()
        for ours, theirs in zip(outputs(block, data), expected):
            assert ours.shape == theirs.shape and abs(ours - theirs).max() <= 1e-5 * abs(theirs).max()
    nodes = json.loads(pathlib.Path(symbol).read_text())["nodes"]
    weights = mx.nd.load(parameters)
    channels = [weights[f"arg:{nodes[node['inputs'][1][0]]['name']}"].shape[1] for node in nodes
                if node["op"] == "Convolution"]
    return channels, [node["op"] for node in nodes if node["op"] not in ("null", "Convolution", "slice_axis")]


@pytest.mark.parametrize("layers, channels, others", [
    (lambda: [nn.Conv2D(8, 3, padding=1)], [336, 336], ["elemwise_add"]),
    (lambda: [nn.Conv2D(8, 3, use_bias=False), nn.LeakyReLU(0.1)], [336, 336], ["elemwise_add", "LeakyReLU"]),
    (lambda: [nn.Conv2D(8, 5, activation="relu")], [224, 224, 224], ["add_n", "elemwise_add", "Activation"]),
    (lambda: [nn.Conv2D(8, 1)], [672], []),
    (lambda: [nn.Conv2D(8, 3, groups=2)], [336], []),
    (lambda: [nn.Conv2D(8, 3), nn.BatchNorm()], [672], ["BatchNorm"]),
], ids=["plain", "no_bias", "three", "fits", "groups", "batch_norm"])
def test_what_is_split(layers, channels, others, rng, tmp_path):
    assert split(chain(*layers()), tmp_path, rng) == (channels, others)


def test_channels_that_cannot_be_divided_stay(rng, tmp_path):
    net = chain(nn.Conv2D(8, 3))
    assert split(net, tmp_path, rng, shape=(1, 673, 4, 4)) == ([673], [])


def test_behind_a_folded_batch_norm_and_padded(rng, tmp_path):
    net = chain(nn.Conv2D(5, 3), nn.BatchNorm(), nn.LeakyReLU(0.1))
    channels, others = split(net, tmp_path, rng, fold_batch_norm=True, pad_channels=True)
    assert (channels, others) == ([336, 336], ["elemwise_add", "LeakyReLU"])


class Fork(gluon.HybridBlock):
    """A convolution that two layers read, and that is put out as well; one weight in two convolutions."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.fork, self.first = nn.Conv2D(672, 3), nn.Conv2D(7, 3, in_channels=672)
            self.second = nn.Conv2D(7, 3, in_channels=672, params=self.first.params)

    def hybrid_forward(self, F, data):
        data = self.fork(data)
        return data, self.first(data) * self.second(data.abs())


def test_several_readers_and_a_shared_weight(rng, tmp_path):
    net = Fork()
    net.initialize(mx.init.Uniform(0.1))
    channels, _ = split(net, tmp_path, rng)
    assert channels == [336, 336, 672, 672]


def test_outputs_keep_their_names(rng, tmp_path):
    net = chain(nn.Conv2D(8, 3))
    plain, _ = gops.export.symbol(net, tmp_path / "plain", SHAPE)
    split(net, tmp_path, rng)
    assert mx.sym.load(str(tmp_path / "net-symbol.json")).list_outputs() == mx.sym.load(plain).list_outputs()


def test_a_file_is_split_and_runs_in_module(rng, tmp_path):
    net, data = chain(nn.Conv2D(8, 3), nn.LeakyReLU(0.1)), mx.nd.array(rng.uniform(-1, 1, SHAPE))
    gops.export.symbol(net, tmp_path / "net", SHAPE)
    assert cli.main(["export", str(tmp_path / "net"), str(tmp_path / "out"), "--split-channels"]) == 0
    module = mx.mod.Module.load(str(tmp_path / "out"), 0, label_names=None)
    module.bind([("data", SHAPE)], for_training=False)
    module.forward(mx.io.DataBatch([data]), is_train=False)
    expected = net(data).asnumpy()
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), expected, rtol=0, atol=1e-5 * abs(expected).max())


def test_not_for_training(tmp_path):
    with pytest.raises(gops.OpError, match="split_channels is for inference only, and this export is for training"):
        gops.export.symbol(chain(nn.Conv2D(8, 3)), tmp_path / "net", SHAPE, training=True, split_channels=True)
