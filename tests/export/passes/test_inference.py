"""Losses and labels: inference export drops them and says so, training export keeps them."""
import json
import pathlib
import sys
import warnings

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon
from mxnet.gluon import nn

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "onnx"))
from onnx_oracle import session  # noqa: E402

SHAPE = (4, 6)
BACKENDS = pytest.mark.parametrize("backend", ["builtin", "custom", "native"])


class WithHead(gluon.HybridBlock):
    """A net that ends in Module's loss head."""

    def __init__(self):
        super().__init__(prefix="net_")
        with self.name_scope():
            self.dense, self.head = nn.Dense(3), gops.nn.SoftmaxOutput(prefix="head_")

    def hybrid_forward(self, F, data, label):
        return self.head(self.dense(data), label)


class WithLoss(gluon.HybridBlock):
    """A net that returns its prediction and its loss."""

    def __init__(self, make=gops.loss.SoftmaxCELoss):
        super().__init__(prefix="net_")
        with self.name_scope():
            self.dense, self.loss = nn.Dense(3), make()

    def hybrid_forward(self, F, data, label):
        logits = self.dense(data)
        return F.softmax(logits), self.loss(logits, label)


SHAPES = {"data": SHAPE, "label": SHAPE[:1]}


def ready(net):
    net.initialize(mx.init.Xavier())
    return net


def inputs_and_outputs(path):
    graph = mx.sym.load(path)
    return [name for name in graph.list_inputs() if "dense" not in name], graph.list_outputs()


@BACKENDS
def test_a_loss_head(backend, rng, tmp_path):
    net, data, label = ready(WithHead()), mx.nd.array(rng.randn(*SHAPE)), mx.nd.array([0, 1, 2, 0])
    with pytest.warns(gops.export.ExportWarning) as caught:
        symbol, parameters = gops.export.symbol(net, tmp_path / "net", SHAPES, backend=backend)
    assert str(caught[0].message) == ("the net is exported for inference, without the loss head "
                                      "'net_head_softmax_output0', the input 'label'. Pass training=True to keep them")
    assert caught[0].filename == __file__
    assert inputs_and_outputs(symbol) == (["data"], ["net_head_softmax_output0_output"])
    assert json.loads(json.loads(pathlib.Path(symbol).read_text())["attrs"]["gluonops"][1])["inputs"] == {
        "data": list(SHAPE)}
    block = gluon.SymbolBlock.imports(symbol, ["data"], parameters)
    np.testing.assert_allclose(block(data).asnumpy(), net(data, label).asnumpy(), rtol=1e-5)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        symbol, parameters = gops.export.symbol(net, tmp_path / "training", SHAPES, backend=backend, training=True)
    assert inputs_and_outputs(symbol) == (["data", "label"], ["net_head_softmax_output0_output"])
    # What was written for training becomes fit for inference without the net.
    with pytest.warns(gops.export.ExportWarning, match="the input 'label'"):
        symbol, parameters = gops.export.rewrite(tmp_path / "training", tmp_path / "again", backend, inference=True)
    block = gluon.SymbolBlock.imports(symbol, ["data"], parameters)
    np.testing.assert_allclose(block(data).asnumpy(), net(data, label).asnumpy(), rtol=1e-5)


@BACKENDS
@pytest.mark.parametrize("make", [gops.loss.SoftmaxCELoss, gluon.loss.SoftmaxCrossEntropyLoss, gops.loss.FocalLoss],
                         ids=lambda make: make.__name__)
def test_an_output_that_is_a_loss(make, backend, rng, tmp_path):
    net, data = ready(WithLoss(make)), mx.nd.array(rng.randn(*SHAPE))
    with pytest.warns(gops.export.ExportWarning, match="without the output '.*', a loss \\(.*\\), the input 'label'"):
        symbol, parameters = gops.export.symbol(net, tmp_path / "net", SHAPES, backend=backend)
    names, outputs = inputs_and_outputs(symbol)
    assert names == ["data"] and len(outputs) == 1
    block = gluon.SymbolBlock.imports(symbol, ["data"], parameters)
    np.testing.assert_allclose(block(data).asnumpy(), net(data, mx.nd.zeros(4))[0].asnumpy(), rtol=1e-5)
    symbol, _ = gops.export.symbol(net, tmp_path / "training", SHAPES, backend=backend, training=True)
    names, outputs = inputs_and_outputs(symbol)
    assert names == ["data", "label"] and len(outputs) == 2


class Detection(gluon.HybridBlock):
    """A map and its region loss, whose truth is named otherwise than label."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.conv, self.loss = nn.Conv2D(5 * 7, 1), gops.loss.RegionLoss([1.0, 2.0] * 5, 2)

    def hybrid_forward(self, F, data, truth):
        raw = self.conv(data)
        return raw, self.loss(raw, truth)


def test_an_operator_of_gluonops_loss(rng, tmp_path):
    """It is known as a loss by itself, whatever its labels are called."""
    net = ready(Detection())
    with pytest.warns(gops.export.ExportWarning, match=r"a loss \(region_loss\)"):
        symbol, _ = gops.export.symbol(net, tmp_path / "net", {"data": (1, 3, 4, 4), "truth": (1, 2, 5)})
    graph = mx.sym.load(symbol)
    assert len(graph.list_outputs()) == 1 and "truth" not in graph.list_inputs()


@pytest.mark.parametrize("make", [lambda: gops.loss.SoftmaxCELoss(), lambda: WithLoss().loss], ids=["ours", "inside"])
def test_nothing_but_a_loss(make, tmp_path):
    with pytest.raises(gops.OpError, match=r"every output is a loss \(softmax_cross_entropy\); expected a net that "
                       "predicts. Export the net without its loss, or with training=True"):
        gops.export.symbol(make(), tmp_path / "net", {"pred": (2, 3), "label": (2,)})
    assert not list(tmp_path.iterdir())


class OwnSoftmax(mx.operator.CustomOpProp):
    """A loss head of a user's own, as old code registers it."""

    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], in_shape[0][:1]], [in_shape[0]], []


def test_a_loss_head_of_the_users_own_names_the_part_before_it(tmp_path):
    mx.operator.register("own_softmax")(OwnSoftmax)
    logits = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    net = mx.sym.Custom(logits, name="softmax", op_type="own_softmax")
    net.save(f"{tmp_path}/net-symbol.json")
    values = {"arg:fc_weight": mx.nd.ones((3, 5)), "arg:fc_bias": mx.nd.ones(3)}
    mx.nd.save(f"{tmp_path}/net-0000.params", values)
    with pytest.raises(gops.OpError, match=r"'softmax' is the operator own_softmax.*outputs=\['fc'\]"):
        gops.export.onnx(tmp_path / "net", tmp_path / "net.onnx", (1, 5))
    gops.export.onnx(tmp_path / "net", tmp_path / "net.onnx", (1, 5), outputs=["fc"])


HEADS = [
    ("SoftmaxOutput", {}, (4, 5)),
    ("SoftmaxOutput", {}, (4, 3, 2)),
    ("SoftmaxOutput", {}, (4, 3, 2, 2)),
    ("SoftmaxOutput", {}, (4, 3, 2, 1, 2)),
    ("Softmax", {}, (4, 3, 2)),
    ("SoftmaxOutput", {"multi_output": True}, (4, 3, 2, 2)),
    ("SoftmaxOutput", {"preserve_shape": True}, (4, 3, 2, 2)),
    ("LogisticRegressionOutput", {}, (4, 5)),
    ("LinearRegressionOutput", {}, (4, 5)),
    ("MAERegressionOutput", {}, (4, 5)),
    ("SVMOutput", {}, (4, 5)),
]


@pytest.mark.filterwarnings("ignore:the net is exported for inference")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op, options, shape", HEADS, ids=lambda value: str(value))
def test_the_heads_of_mxnet(op, options, shape, dtype, rng, tmp_path):
    """Files by anyone: what the head puts out at inference stays, the label goes, also in ONNX.

    In float32 and four dimensions oneDNN's SoftmaxOutput has another axis than in training.
    """
    scaled = mx.sym.broadcast_mul(mx.sym.var("data"), mx.sym.var("w", shape=(1,)))
    head = getattr(mx.sym, op)(scaled, mx.sym.var("out_label"), name="out", **options)
    head.save(str(tmp_path / "in-symbol.json"))
    weight, data = mx.nd.array([1.5], dtype=dtype), mx.nd.array(rng.randn(*shape), dtype=dtype)
    mx.nd.save(str(tmp_path / "in-0000.params"), {"arg:w": weight})
    executor = head.simple_bind(mx.cpu(), grad_req="null", data=shape, type_dict=dict.fromkeys(
        head.list_arguments(), dtype))
    executor.copy_params_from({"w": weight, "data": data}, {})
    expected = executor.forward(is_train=False)[0].asnumpy()
    with pytest.warns(gops.export.ExportWarning, match="without the loss head 'out', the input 'out_label'"):
        symbol, parameters = gops.export.rewrite(tmp_path / "in", tmp_path / "out", inference=True)
    assert mx.sym.load(symbol).list_outputs() == ["out_output"]
    block = gluon.SymbolBlock.imports(symbol, ["data"], parameters)
    np.testing.assert_allclose(block(data).asnumpy(), expected, rtol=1e-5, atol=1e-7)
    for source in ("in", "out"):   # the second without a label
        gops.export.onnx(tmp_path / source, tmp_path / "net.onnx", shape, dtype=dtype)
        found, = session(tmp_path / "net.onnx").run(None, {"data": data.asnumpy()})
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_a_penalty_is_the_identity(rng, tmp_path):
    """MXNet puts it into the backward pass alone."""
    scaled = mx.sym.sigmoid(mx.sym.var("data"))
    net = gluon.SymbolBlock(mx.sym.IdentityAttachKLSparseReg(scaled, name="sparse") * 2, mx.sym.var("data"))
    net.initialize()
    with pytest.warns(gops.export.ExportWarning, match="without the loss head 'sparse'"):
        symbol, parameters = gops.export.symbol(net, tmp_path / "net", SHAPE)
    assert mx.sym.load(symbol).list_inputs() == ["data"] and mx.nd.load(parameters) in ({}, [])
    data = mx.nd.array(rng.randn(*SHAPE))
    block = gluon.SymbolBlock.imports(symbol, ["data"])
    np.testing.assert_allclose(block(data).asnumpy(), 2 * mx.nd.sigmoid(data).asnumpy(), rtol=1e-6)


def test_a_loss_without_a_gradient_is_a_prediction(rng, tmp_path):
    """A symbol that trains an SSD has such detections; another MakeLoss is a loss, whatever it is computed from."""
    data = mx.sym.sigmoid(mx.sym.var("data"))
    mx.sym.Group([mx.sym.MakeLoss(data, grad_scale=0, name="det_out"), mx.sym.MakeLoss(data, name="loss"),
                  mx.sym.MakeLoss(mx.sym.var("cls_label"), grad_scale=0)]).save(str(tmp_path / "net-symbol.json"))
    mx.nd.save(str(tmp_path / "net-0000.params"), {})
    with pytest.warns(gops.export.ExportWarning) as caught:
        symbol, _ = gops.export.rewrite(tmp_path / "net", tmp_path / "net", inference=True)
    assert "det_out" not in str(caught[0].message) and "the output 'loss', a loss (MakeLoss)" in str(caught[0].message)
    assert mx.sym.load(symbol).list_outputs() == ["det_out_output"]
    data = mx.nd.array(rng.randn(*SHAPE))
    block = gluon.SymbolBlock.imports(symbol, ["data"])
    np.testing.assert_allclose(block(data).asnumpy(), mx.nd.sigmoid(data).asnumpy(), rtol=1e-6)


class Nested(gluon.HybridBlock):
    def hybrid_forward(self, F, data):
        return data * 2, [gops.ops.abs(data), (data + 1, data - 1)]


@BACKENDS
def test_several_outputs(backend, rng, tmp_path):
    data = mx.nd.array(rng.randn(*SHAPE))
    symbol, _ = gops.export.symbol(Nested(), tmp_path / "net", SHAPE, backend=backend)
    outputs = gluon.SymbolBlock.imports(symbol, ["data"])(data)
    for ours, expected in zip(outputs, (data * 2, data.abs(), data + 1, data - 1)):
        np.testing.assert_array_equal(ours.asnumpy(), expected.asnumpy())


def test_a_training_file_keeps_its_statistics_moving(rng, tmp_path):
    """Module updates the batch norm of an exported file."""
    net = nn.HybridSequential()
    net.add(nn.Dense(4), nn.BatchNorm(prefix="norm_"), nn.Dense(3))
    ready(net)
    prefix = str(tmp_path / "net")
    gops.export.symbol(net, prefix, SHAPE, head="softmax_output")
    module = mx.mod.Module.load(prefix, 0, label_names=["softmax_label"])
    batches = mx.io.NDArrayIter(mx.nd.array(rng.randn(*SHAPE)), mx.nd.zeros(4), 4, label_name="softmax_label")
    # MXNet's executors do not order a read of the statistics behind the backward pass, which writes them.
    module.fit(batches, num_epoch=2, force_init=False, batch_end_callback=lambda _: mx.nd.waitall())
    _, states = module.get_params()
    assert float(states["norm_running_mean"].abs().sum().asscalar()) > 0
