"""Folding batch norm: the same outputs, where it applies, and what it leaves alone."""
import json
import pathlib

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon
from mxnet.gluon import nn
from mxnet.gluon.model_zoo import vision

SHAPE = (2, 3, 8, 8)


def shaken(net, rng, shape=SHAPE):
    """The net, initialized, whose batch norms have statistics and parameters of their own."""
    net.initialize(mx.init.Xavier())
    net(mx.nd.zeros(shape))
    for name, parameter in net.collect_params().items():
        if any(word in name for word in ("gamma", "var")):
            parameter.set_data(mx.nd.array(rng.uniform(0.3, 3, parameter.shape)))
        elif any(word in name for word in ("beta", "mean", "bias")):
            parameter.set_data(mx.nd.array(rng.uniform(-1, 1, parameter.shape)))
    return net


def chain(*layers):
    net = nn.HybridSequential()
    net.add(*layers)
    return net


def batch_norms(path):
    return [node["op"] for node in json.loads(pathlib.Path(path).read_text())["nodes"]].count("BatchNorm")


def folded(net, data, folder, **options):
    """(outputs of the folded files in a SymbolBlock, batch norms that stayed)."""
    symbol, parameters = gops.export.symbol(net, folder / "net", data.shape, fold_batch_norm=True, **options)
    block = gluon.SymbolBlock.imports(symbol, ["data"], parameters)
    used = set(mx.sym.load(symbol).list_inputs()) - {"data"}
    assert {name.split(":")[1] for name in mx.nd.load(parameters)} == used, "parameters that nothing reads, or missing"
    outputs = block(data)
    return outputs if isinstance(outputs, list) else [outputs], batch_norms(symbol)


def close(net, data, outputs):
    expected = net(data)
    for ours, theirs in zip(outputs, expected if isinstance(expected, (list, tuple)) else [expected]):
        ours, theirs = ours.asnumpy(), theirs.asnumpy()
        assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()


@pytest.mark.parametrize("layers", [
    lambda: [nn.Conv2D(4, 3), nn.BatchNorm()],
    lambda: [nn.Conv2D(4, 3, use_bias=False), nn.BatchNorm(epsilon=1e-3)],
    lambda: [nn.Conv2D(4, 3), nn.BatchNorm(scale=False)],
    lambda: [nn.Conv2D(4, 3), nn.BatchNorm(center=False, use_global_stats=True)],
    lambda: [nn.Conv2D(6, 3, groups=3), nn.BatchNorm(), nn.Activation("relu")],
    lambda: [nn.Conv2DTranspose(6, 3, in_channels=3, groups=3), nn.BatchNorm()],
    lambda: [nn.Conv2DTranspose(4, 3, use_bias=False), nn.BatchNorm()],
    lambda: [nn.Dense(5), nn.BatchNorm()],
    lambda: [nn.Dense(5, use_bias=False), nn.BatchNorm(), nn.Dense(3), nn.BatchNorm(scale=False)],
    lambda: [nn.Dense(5, flatten=False), nn.BatchNorm(axis=-1)],
    lambda: [nn.Dense(5), nn.BatchNorm(axis=-1)],
    lambda: [nn.Conv2D(4, 3), nn.BatchNorm(axis=-3)],
    lambda: [nn.Conv2DTranspose(4, 3), nn.BatchNorm(axis=-3)],
    lambda: [nn.Conv2D(4, 3), nn.BatchNorm(), gops.nn.Reorg(2), nn.Conv2D(4, 1, use_bias=False), nn.BatchNorm()],
], ids=["bias", "no_bias", "fixed_gamma", "global_stats", "groups", "transposed_groups", "transposed", "dense",
        "dense_no_bias", "dense_last_axis", "dense_from_the_end", "from_the_end", "transposed_from_the_end", "two"])
def test_folds(layers, rng, tmp_path):
    net, data = shaken(chain(*layers()), rng), mx.nd.array(rng.randn(*SHAPE))
    outputs, left = folded(net, data, tmp_path)
    assert left == 0
    close(net, data, outputs)


def test_a_fixed_gamma_counts_as_one(rng, tmp_path):
    """Its parameter may have any value."""
    net, data = shaken(chain(nn.Conv2D(4, 3), nn.BatchNorm(scale=False)), rng), mx.nd.array(rng.randn(*SHAPE))
    assert not np.allclose(net[1].gamma.data().copy().asnumpy(), 1)
    outputs, _ = folded(net, data, tmp_path)
    close(net, data, outputs)


class TwoReaders(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.conv, self.norm = nn.Conv2D(4, 3), nn.BatchNorm()

    def hybrid_forward(self, F, data):
        features = self.conv(data)
        return self.norm(features) + features


class IsAnOutput(TwoReaders):
    def hybrid_forward(self, F, data):
        features = self.conv(data)
        return self.norm(features), features


class Shared(TwoReaders):
    """One convolution run twice: its weight has two readers."""

    def hybrid_forward(self, F, data):
        return F.concat(self.norm(self.conv(data)), self.conv(data * 2))


@pytest.mark.parametrize("make", [
    TwoReaders, IsAnOutput, Shared,
    lambda: chain(nn.BatchNorm(), nn.Conv2D(4, 3)),
    lambda: chain(nn.Conv2D(4, 3), nn.BatchNorm(axis=2)),
    lambda: chain(nn.Conv2D(6, 3), nn.BatchNorm(axis=-1)),
    lambda: chain(nn.Conv2D(4, 3), nn.Activation("relu"), nn.BatchNorm()),
    lambda: chain(nn.Conv2D(4, 3), nn.MaxPool2D(), nn.BatchNorm()),
    lambda: chain(nn.Dense(6, flatten=False), nn.BatchNorm(axis=1)),
], ids=["two_readers", "an_output", "shared", "before", "another_axis", "the_last_axis", "activation_between",
        "pooling_between", "dense_another_axis"])
def test_left_alone(make, rng, tmp_path):
    net, data = shaken(make(), rng), mx.nd.array(rng.randn(*SHAPE))
    outputs, left = folded(net, data, tmp_path)
    assert left == 1
    close(net, data, outputs)


def test_an_output_keeps_its_name(rng, tmp_path):
    net = shaken(chain(nn.Conv2D(4, 3), nn.BatchNorm(prefix="last_")), rng)
    symbol, _ = gops.export.symbol(net, tmp_path / "net", SHAPE, fold_batch_norm=True)
    assert mx.sym.load(symbol).list_outputs() == ["last_fwd_output"]


def test_a_scale_that_is_not_finite(rng, tmp_path):
    """A running variance of 0 with epsilon 0: folded, even what is finite would be NaN."""
    net = shaken(chain(nn.Conv2D(4, 3, use_bias=False), nn.BatchNorm(epsilon=0)), rng)
    net[1].running_var.set_data(mx.nd.array([0, 1, 1, 1]))
    data = mx.nd.array(rng.randn(*SHAPE))
    (outputs,), left = folded(net, data, tmp_path)
    assert left == 1 and not np.isnan(net(data).asnumpy()).any()
    np.testing.assert_array_equal(outputs.asnumpy(), net(data).asnumpy())


@pytest.mark.parametrize("backend", ["custom", "native", "builtin"])
def test_every_backend(backend, rng, tmp_path):
    net = shaken(chain(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), gops.nn.Reorg(2)), rng)
    data = mx.nd.array(rng.randn(*SHAPE))
    outputs, left = folded(net, data, tmp_path, backend=backend)
    assert left == 0
    close(net, data, outputs)


def test_files_and_float16(rng, tmp_path):
    """Files fold as nets do, and parameters keep their type; MXNet has no float16 convolution to run it with here."""
    net = shaken(chain(nn.Conv2D(4, 3, use_bias=False), nn.BatchNorm()), rng)
    _, parameters = gops.export.symbol(net, tmp_path / "net", SHAPE)
    mx.nd.save(str(tmp_path / "net-0001.params"), {name: value.astype("float16") if "conv" in name else value
                                                   for name, value in mx.nd.load(parameters).items()})
    _, parameters = gops.export.rewrite(tmp_path / "net", tmp_path / "folded", fold_batch_norm=True)
    assert [value.dtype for value in mx.nd.load(parameters).values()] == [np.float16] * 2


def small_resnet(classes):
    """A unit of each stage of resnet18_v1, with fewer channels."""
    return vision.ResNetV1(vision.BasicBlockV1, [1] * 4, [8, 8, 16, 24, 32], classes=classes)


@pytest.mark.parametrize("make", [small_resnet, vision.mobilenet_v2_0_25], ids=["resnet", "mobilenetv2_0.25"])
def test_model_zoo(make, rng, tmp_path):
    shape = (1, 3, 64, 64)
    net = shaken(make(classes=7), rng, shape)
    data = mx.nd.array(rng.randn(*shape))
    outputs, left = folded(net, data, tmp_path)
    assert left == 0
    close(net, data, outputs)


def test_darknets_batch_norm(rng, tmp_path):
    """Its gamma is computed, from the running variance."""
    shape = (1, 3, 64, 64)
    net = shaken(gops.models.get_model("tiny_yolov2", classes=3, width=1 / 8, head_channels=32), rng, shape)
    data = mx.nd.array(rng.rand(*shape))
    outputs, left = folded(net, data, tmp_path)
    assert left == 0
    close(net, data, outputs)


def test_not_for_training(rng, tmp_path):
    net = shaken(chain(nn.Conv2D(4, 3), nn.BatchNorm(), nn.Dense(3)), rng)
    for options in ({"training": True}, {"head": "softmax_output"}):
        with pytest.raises(gops.OpError, match="fold_batch_norm is for inference only, and this export is for trai"):
            gops.export.symbol(net, tmp_path / "net", SHAPE, fold_batch_norm=True, **options)


def test_another_nets_batch_norm(rng, tmp_path):
    """Where the file notes no shapes, nothing else tells."""
    net = shaken(chain(nn.Conv2D(4, 3), nn.BatchNorm()), rng)
    net.hybridize()
    net(mx.nd.zeros(SHAPE))
    net.export(str(tmp_path / "net"))
    saved = mx.nd.load(str(tmp_path / "net-0000.params"))
    name, = (name for name in saved if name.endswith("gamma"))
    mx.nd.save(str(tmp_path / "net-0000.params"), {**saved, name: mx.nd.ones(5)})
    with pytest.raises(gops.OpError, match=r"has a gamma of shape \(5,\) behind '\w+_fwd'; expected \(4,\)"):
        gops.export.rewrite(tmp_path / "net", tmp_path / "folded", fold_batch_norm=True)
    assert not list(tmp_path.glob("folded*"))
