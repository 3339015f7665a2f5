"""ExportedModel and its passes as a pipeline of one's own."""
import json
import pathlib

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.export import ExportedModel, passes
from mxnet import gluon
from mxnet.gluon import nn

SHAPE = (2, 3, 8, 8)


@pytest.fixture
def net(rng):
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3), nn.BatchNorm(), gops.nn.Reorg(2), gops.nn.Abs(), nn.Dense(3))
    net.initialize(mx.init.Xavier())
    net(mx.nd.array(rng.randn(*SHAPE)))
    net.classes = ["a", "b", "c"]
    return net


def operators(model):
    return [node.op for node in model.graph.nodes() if not node.is_variable]


def test_from_a_net(net):
    model = ExportedModel.from_net(net, SHAPE)
    assert operators(model) == ["Convolution", "BatchNorm", "Custom", "Custom", "FullyConnected"]
    assert model.inputs == {"data": SHAPE}
    assert model.metadata == {"classes": ["a", "b", "c"], "dtype": "float32"}
    assert set(model.parameters) == set(net.collect_params())


@pytest.mark.parametrize("backend", ["custom", "native"])
def test_files_hold_the_whole_model(backend, net, tmp_path):
    """Lowered, saved and read again it is the model that was there before."""
    model = ExportedModel.from_net(net, SHAPE)
    passes.lower(model, backend).save(tmp_path / "net", 7)
    again = ExportedModel.from_files(tmp_path / "net")
    assert again.graph.nodes()[-1].name == "net_dense0_fwd"
    assert [(node.op, node.name, node.attrs) for node in again.graph.nodes()] == [
        (node.op, node.name, node.attrs) for node in model.graph.nodes()]
    assert (again.inputs, again.metadata, again.notes) == (model.inputs, model.metadata, [])
    for name, value in model.parameters.items():
        np.testing.assert_array_equal(again.parameters[name].asnumpy(), value.asnumpy())


@pytest.mark.parametrize("run", [
    passes.canonicalize, passes.fold_batch_norm, passes.inference, passes.pad_channels, passes.split_channels,
    passes.prepare_for_fusion, lambda model: passes.lower(model, "builtin"),
], ids=["canonicalize", "fold", "inference", "pad", "split", "fusion", "lower"])
def test_a_pass_leaves_its_model_alone(run, net):
    model = ExportedModel.from_net(net, SHAPE)
    before, values = model.graph.text(), {name: value.asnumpy() for name, value in model.parameters.items()}
    made = run(model)
    assert made is not model and made.graph is not model.graph
    assert model.graph.text() == before and set(model.parameters) == set(values)
    for name, value in values.items():
        np.testing.assert_array_equal(model.parameters[name].asnumpy(), value)


def test_a_pipeline_of_ones_own(net, rng, tmp_path):
    """The page's example does what export.symbol does, with a step between."""
    model = ExportedModel.from_net(net, SHAPE)
    model = passes.fold_batch_norm(model)
    model.metadata["author"] = "me"
    model = passes.prepare_for_fusion(passes.lower(model, "builtin"))
    paths = model.save(tmp_path / "net")
    note = json.loads(json.loads(pathlib.Path(paths[0]).read_text())["attrs"]["gluonops"][1])
    assert note["author"] == "me" and note["inputs"] == {"data": list(SHAPE)} and note["needs"] == []
    data = mx.nd.array(rng.randn(*SHAPE))
    found = gluon.SymbolBlock.imports(paths[0], ["data"], paths[1])(data)
    np.testing.assert_allclose(found.asnumpy(), net(data).asnumpy(), rtol=1e-4, atol=1e-5)


def test_what_nothing_reads_is_not_saved(net, tmp_path):
    model = passes.fold_batch_norm(ExportedModel.from_net(net, SHAPE))
    model.parameters["stray"], model.inputs["gone"] = mx.nd.ones(2), (1,)
    symbol, parameters = passes.lower(model, "builtin").save(tmp_path / "net")
    assert "arg:stray" not in mx.nd.load(parameters) and "gone" not in pathlib.Path(symbol).read_text()


def test_a_layer_that_is_not_called_keeps_its_shape_open():
    class Unused(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.called, self.unused = nn.Dense(2), nn.Dense(2)

        def hybrid_forward(self, F, x):
            return self.called(x)

    net = Unused()
    net.initialize()
    model = ExportedModel.from_net(net, (1, 3))
    assert set(model.parameters) == {net.called.weight.name, net.called.bias.name}
