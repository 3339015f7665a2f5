"""gops.export.symbol: what it writes, who can load it, and what it refuses."""
import gc
import json
import os
import pathlib
import re

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.backends import native
from gluonops.io import params
from in_turn import in_turn
from mxnet import gluon
from mxnet.gluon import nn

BACKENDS = pytest.mark.parametrize("backend", ["custom", "native", "builtin"])
SHAPE = (2, 3, 8, 8)

def reorg_net():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, padding=1), nn.BatchNorm(), gops.nn.Reorg(2), nn.Conv2D(4, 1), nn.Flatten(), nn.Dense(5))
    net.initialize(mx.init.Xavier())
    return net


@pytest.fixture
def net(rng):
    net = reorg_net()
    with mx.autograd.record():   # it changes the running statistics of the batch norm
        net(mx.nd.array(rng.randn(16, *SHAPE[1:])))
    return net


@pytest.fixture
def data(rng):
    return mx.nd.array(rng.randn(*SHAPE))


def operators(path):
    with open(path) as file:
        return {node["op"] for node in json.load(file)["nodes"]}


@BACKENDS
def test_loaders_agree(backend, net, data, tmp_path):
    """Module, SymbolBlock and a bare executor compute what the net computes."""
    expected = net(data).asnumpy()
    json_path, params_path = gops.export.symbol(net, tmp_path / "net", SHAPE, backend=backend)
    assert ("Custom" in operators(json_path)) == (backend == "custom")
    assert ("gluonops_reorg" in operators(json_path)) == (backend == "native")
    assert sorted(os.listdir(tmp_path)) == ["net-0000.params", "net-symbol.json"]

    module = mx.mod.Module.load(str(tmp_path / "net"), 0, label_names=None)
    for batch in (1, 2):   # another batch than the one exported with
        module.bind([("data", (batch, *SHAPE[1:]))], for_training=False, force_rebind=True)
        module.forward(mx.io.DataBatch([data[:batch]]), is_train=False)
        np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), expected[:batch], rtol=1e-5, atol=1e-6)

    block = gluon.SymbolBlock.imports(json_path, ["data"], params_path)
    np.testing.assert_allclose(block(data).asnumpy(), expected, rtol=1e-5, atol=1e-6)

    graph, values = mx.sym.load(json_path), mx.nd.load(params_path)
    executor = graph.simple_bind(mx.cpu(), grad_req="null", data=SHAPE)
    executor.copy_params_from({k[4:]: v for k, v in values.items() if k.startswith("arg:")},
                              {k[4:]: v for k, v in values.items() if k.startswith("aux:")})
    np.testing.assert_allclose(executor.forward(data=data)[0].asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_hybridized_net_exports_with_another_backend(net, data, tmp_path):
    with gops.backend("custom"):
        net.hybridize(static_alloc=True, static_shape=True)
        expected = net(data).asnumpy()
    json_path, _ = gops.export.symbol(net, tmp_path / "net", SHAPE, backend="builtin")
    assert "Custom" not in operators(json_path)
    np.testing.assert_array_equal(net(data).asnumpy(), expected)


def test_open_shapes_are_closed(tmp_path):
    """A net that never ran: its shapes come from data_shape."""
    json_path, params_path = gops.export.symbol(reorg_net(), tmp_path / "net", SHAPE)
    assert all(0 not in value.shape for value in mx.nd.load(params_path).values())


@BACKENDS
def test_a_head_to_fine_tune_in_module(backend, net, data, tmp_path):
    """Exported with a loss head, Module.fit lowers the loss; the parameters start as the net's."""
    prefix = str(tmp_path / "net")
    gops.export.symbol(net, prefix, SHAPE, backend=backend, head="softmax_output")
    module = mx.mod.Module.load(prefix, 0, label_names=["softmax_label"])
    label = mx.nd.array([1, 3])
    batches = mx.io.NDArrayIter(data, label, 2, label_name="softmax_label")
    module.bind(batches.provide_data, batches.provide_label)
    logits = net(data).asnumpy()
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(module.predict(batches).asnumpy(), probabilities, rtol=1e-4, atol=1e-6)
    before = dict(module.score(batches, "ce"))["cross-entropy"]
    batches.reset()
    module.fit(batches, num_epoch=10, optimizer_params={"learning_rate": 0.05}, eval_metric="ce", force_init=False)
    batches.reset()
    assert dict(module.score(batches, "ce"))["cross-entropy"] < before / 2


def test_nothing_is_lost_when_writing_fails(net, tmp_path, monkeypatch):
    """The files of an earlier export survive a crash, and no temporary file stays."""
    paths = gops.export.symbol(net, tmp_path / "net", SHAPE)
    before = [pathlib.Path(path).read_bytes() for path in paths]

    def full(path, values, *options):
        with open(path, "w") as file:
            file.write("half")
        raise OSError("No space left on device")

    monkeypatch.setattr(params, "write", full)
    with pytest.raises(gops.OpError, match="No space left on device; the previous files are unchanged. Make room"):
        gops.export.symbol(net, tmp_path / "net", SHAPE)
    assert [pathlib.Path(path).read_bytes() for path in paths] == before
    assert len(os.listdir(tmp_path)) == 2


def dense(layer=None):
    layer = layer or nn.Dense(3, in_units=4)
    layer.initialize()
    return layer


@pytest.mark.parametrize("ready", [True, False], ids=["initialized", "open"])
def test_float16_where_it_does_not_run(ready, tmp_path):
    """MXNet has no float16 product on a CPU; nothing needs to run."""
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=4 * ready), nn.Dense(2, in_units=3 * ready))
    net.cast("float16")
    net.initialize()
    symbol, parameters = gops.export.symbol(net, tmp_path / "net", (1, 4), dtype="float16")
    values = mx.nd.load(parameters)
    assert {value.dtype for value in values.values()} == {np.float16}
    assert [shape for name, shape in zip(mx.sym.load(symbol).list_arguments(),
                                         mx.sym.load(symbol).infer_shape(data=(5, 4))[0])][1] == (3, 4)
    gops.export.picture(net, tmp_path / "net.svg", (1, 4), dtype="float16")


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_a_net_that_ran_and_was_cast(hybridize, dtype, tmp_path):
    """Its variables still had the shapes and the type from before."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3), nn.BatchNorm(), nn.Dense(3))
    net.initialize()
    if hybridize:
        net.hybridize()
    net(mx.nd.ones(SHAPE))
    net.cast(dtype)
    symbol, parameters = gops.export.symbol(net, tmp_path / "net", SHAPE)   # the inputs have the parameters' type
    graph = mx.sym.load(symbol)
    assert graph.infer_type(data=dtype)[1] == [np.dtype(dtype)]
    found = dict(zip(graph.list_arguments(), graph.infer_shape(data=SHAPE)[0]))
    saved = mx.nd.load(parameters)
    assert all(saved[f"arg:{name}"].shape == shape for name, shape in found.items() if name != "data")


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_shape_that_the_parameters_do_not_fit(hybridize, tmp_path):
    """The net ran with another size: the dense layer's weight is too small for this one."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3), nn.Dense(3))
    net.initialize()
    if hybridize:
        net.hybridize()
    net(mx.nd.ones(SHAPE))
    with pytest.raises(gops.OpError, match=r"refuses data_shape, data \(2, 3, 10, 10\): .*Provided = \[3,144\]"):
        gops.export.symbol(net, tmp_path / "net", (2, 3, 10, 10))
    assert os.listdir(tmp_path) == []


class ReadsShape(gluon.HybridBlock):
    def hybrid_forward(self, F, data):
        return F.reshape(data, (data.shape[0], -1))


def test_a_type_of_numpys(tmp_path):
    """It was noted as "<class 'numpy.float32'>"."""
    gops.export.symbol(dense(), tmp_path / "net", (1, 4), dtype=np.float32)
    gops.export.onnx(tmp_path / "net", tmp_path / "net.onnx")


def test_the_open_shapes_are_whole_in_the_file(tmp_path):
    symbol, _ = gops.export.symbol(reorg_net(), tmp_path / "net", SHAPE)
    shapes = [value["attrs"]["__shape__"] for value in json.loads(pathlib.Path(symbol).read_text())["nodes"]
              if "__shape__" in value.get("attrs", {})]
    assert shapes and not [shape for shape in shapes if re.search(r"\b0\b", shape)]


def test_states_that_a_net_makes_itself(data, tmp_path):
    net = gluon.rnn.LSTM(4)
    net.initialize()
    data = mx.nd.random.normal(shape=(3, 2, 5))
    symbol, parameters = gops.export.symbol(net, tmp_path / "net", data.shape)
    block = gluon.SymbolBlock.imports(symbol, ["data"], parameters)
    np.testing.assert_allclose(block(data).asnumpy(), net(data).asnumpy(), rtol=1e-6)


def test_somebody_elses_failure_stays_theirs(tmp_path):
    """Nobody has waited for it yet."""
    theirs = mx.nd.linalg.potrf(-mx.nd.ones((2, 2)))   # it is not positive definite
    gops.export.symbol(dense(), tmp_path / "net", (1, 4))
    with pytest.raises(mx.MXNetError):
        theirs.wait_to_read()


class Two(gluon.HybridBlock):
    def hybrid_forward(self, F, data):
        return data, data + 1


def test_several_outputs(data, tmp_path):
    json_path, params_path = gops.export.symbol(Two(), tmp_path / "net", SHAPE)
    for found, expected in zip(gluon.SymbolBlock.imports(json_path, ["data"], params_path)(data), (data, data + 1)):
        np.testing.assert_array_equal(found.asnumpy(), expected.asnumpy())


@in_turn("make, options, text", [
    (lambda: gluon.nn.Sequential(), {}, "net is Sequential; expected a HybridBlock"),
    (lambda: nn.Dense(3), {}, "is not initialized. Call net.initialize()"),
    (Two, {"head": "softmax_output"}, "Two has several outputs; expected one for head"),
    (reorg_net, {"prefix": "missing/net"}, "the folder missing does not exist"),
    (reorg_net, {"head": "svm"}, "head is 'svm'; expected None or 'softmax_output'"),
    (gops.nn.Softmax, {"head": "softmax_output"}, "Softmax already ends in a softmax; expected logits"),
    (reorg_net, {"backend": "tensorrt"}, "got 'tensorrt'; expected 'auto', 'custom', 'native' or 'builtin'"),
    (reorg_net, {"data_shape": (2, 3, 9, 8)}, "height 9 is not divisible by stride 2"),
    (dense, {"data_shape": (2, 5)}, "Dense refuses data_shape, data (2, 5): MXNetError: Error in operator dense"),
    (lambda: dense(nn.Conv2D(3, 2, in_channels=3)), {"data_shape": (2, 3)}, "Conv2D refuses data_shape, data (2, 3): "),
    (dense, {"data_shape": {"left": (2, 4), "right": (2, 4)}}, "Dense refuses data_shape, left (2, 4), right (2, 4): "
     "TypeError: "),
    (dense, {"data_shape": (2, 4), "dtype": "float33"}, "dtype is 'float33'; expected a type such as 'float32'"),
    (dense, {"data_shape": (2, 4), "dtype": "float64"}, "Dense refuses data_shape, data (2, 4): MXNetError: Error in"),
    (ReadsShape, {}, "ReadsShape reads .shape of a Symbol, in test_symbol.py line"),
    (lambda: nn.HybridLambda(lambda F, x: None), {}, "HybridLambda returns None among its outputs; expected symbols"),
    (lambda: nn.HybridLambda(lambda F, x: []), {}, "HybridLambda returns nothing"),
    (lambda: nn.HybridLambda(lambda F, x: {"a": x}), {}, "among its outputs; expected symbols, in lists or tuples"),
    (dense, {"data_shape": (2, 4), "epoch": -1}, "epoch is -1; expected an integer of at least 0"),
    (dense, {"data_shape": (2, 4), "epoch": 1.5}, "epoch is 1.5; expected an integer of at least 0"),
    (dense, {"data_shape": (2, 4), "epoch": "1"}, "epoch is '1'; expected an integer of at least 0"),
])
def test_refusals(make, options, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(gops.OpError) as caught:
        gops.export.symbol(make(), **{"prefix": "net", "data_shape": SHAPE, **options})
    assert text in str(caught.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not native.loaded(), reason="without the C++ library nets are traced with Custom nodes")
def test_an_export_keeps_no_custom_node(tmp_path):
    """MXNet never frees a node that it has written as JSON."""
    net = gops.nn.Abs()
    held = []
    for _ in range(3):
        gops.export.symbol(net, tmp_path / "net", (2, 3))
        gc.collect()
        held.append(len(mx.operator._registry.ref_holder))
    assert held[0] == held[1] == held[2]
