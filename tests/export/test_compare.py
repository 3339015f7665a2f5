"""gops.export.compare, and what gluonops export does with it."""
import importlib
import json
import pathlib
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import onnx
import pytest
from gluonops.commands import cli
from gluonops.export.onnx.builder import CONVERTERS
from mxnet.gluon import nn

pytest.importorskip("onnxruntime")   # it has no wheel for Python 3.15 yet
compare = importlib.import_module("gluonops.export.compare")   # gops.export.compare is the function
pytestmark = pytest.mark.filterwarnings("ignore:Please import `csr_matrix`")   # mx.nd.array, with today's SciPy
SHAPE = (2, 3, 8, 8)
data = mx.sym.var("data")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def net(rng):
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(scale=False), nn.PReLU(), nn.AvgPool2D(2, ceil_mode=True),
                nn.GlobalAvgPool2D(), nn.Dense(5))
    net.initialize()
    net(mx.nd.zeros(SHAPE))
    for parameter in net.collect_params().values():
        parameter.set_data(mx.nd.array(rng.uniform(0.3, 2, parameter.shape)))
    return net


def saved(prefix, symbol, **values):
    """Files of others."""
    symbol.save(f"{prefix}-symbol.json")
    mx.nd.save(f"{prefix}-0000.params", {f"arg:{name}": mx.nd.array(value) for name, value in values.items()})
    return prefix


def test_files_that_agree(net):
    gops.export.symbol(net, "net", SHAPE, fold_batch_norm=True)
    gops.export.onnx(net, "net.onnx", SHAPE)
    for source in (net, "net"):
        for path in ("net", "net.onnx"):
            found, = gops.export.compare(source, path, SHAPE)
            assert found.output == "net_dense0_fwd_output" and found.relative < 1e-5
            assert str(found) == (f"{found.output}: largest absolute difference {found.absolute:.2g}, relative to the "
                                  f"largest output {found.relative:.2g} (good: at most 1e-05 is expected)")


def change_epsilon(model):
    norm, = (node for node in model.graph.node if node.op_type == "BatchNormalization")
    next(one for one in norm.attribute if one.name == "epsilon").f = 0.1


def scale(operator, position):
    """A function that scales a constant of the only node of an operator."""
    def change(model):
        reshaped = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type == "Reshape"}
        name, = (node.input[position] for node in model.graph.node if node.op_type == operator)
        name = reshaped.get(name, name)
        tensor, = (one for one in model.graph.initializer if one.name == name)
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor) * np.float32(1.01), name))
    return change


@pytest.mark.parametrize("change, node", [
    (change_epsilon, "net_batchnorm0_fwd"), (scale("BatchNormalization", 1), "net_batchnorm0_fwd"),
    (scale("BatchNormalization", 4), "net_batchnorm0_fwd"), (scale("PRelu", 1), "net_prelu0_fwd"),
    (scale("Gemm", 2), "net_dense0_fwd")], ids=["epsilon", "gamma", "variance", "slope", "bias"])
def test_a_silent_error_is_found(change, node, net):
    gops.export.onnx(net, "net.onnx", SHAPE)
    model = onnx.load("net.onnx")
    change(model)
    onnx.save(model, "wrong.onnx")
    what = (r"wrong.onnx does not compute what MXNet does for inputs of \(1, 3, 8, 8\): net_dense0_fwd_output at "
            rf"\[0, \d\] is .*; MXNet's is .*; expected at most .*. The two begin to differ at the node '{node}'")
    with pytest.raises(gops.OpError, match=what):
        gops.export.compare(net, "wrong.onnx", SHAPE)
    with pytest.warns(gops.export.ExportWarning, match=what):
        found, = gops.export.compare(net, "wrong.onnx", SHAPE, force=True)
    assert found.relative > 1e-5 and "(too large: at most " in str(found)


@pytest.mark.parametrize("right, wrong, shape", [
    (mx.sym.mean(data, axis=(2, 3)), mx.sym.sum(data, axis=(2, 3)) / 64, "(1, 3, 40, 40)"),
    (mx.sym.broadcast_sub(data, mx.sym.mean(data, axis=0, keepdims=True)), data * 0, "(3, 3, 8, 8)")],
    ids=["images", "batches"])
def test_other_sizes_are_compared(right, wrong, shape):
    saved("right", right), saved("wrong", wrong)
    with pytest.raises(gops.OpError, match=f"for inputs of {shape.replace('(', '.').replace(')', '.')}:"):
        gops.export.compare("right", "wrong", (1, 3, 8, 8))


def test_another_shape_or_number_of_outputs():
    saved("right", data * 2), saved("wrong", mx.sym.expand_dims(data, 0) * 2)
    with pytest.raises(gops.OpError, match=r"wrong has outputs of the shapes \[\(1, 1, 4\)\]; MXNet's have \[\(1, 4\)"):
        gops.export.compare("right", "wrong", (1, 4))


def test_nan_and_infinity_have_to_agree():
    saved("right", mx.sym.Group([mx.sym.log(data), 1 / (data * 0)]))
    saved("wrong", mx.sym.Group([mx.sym.log(mx.sym.abs(data)), 1 / (data * 0)]))
    assert [one.absolute for one in gops.export.compare("right", "right", (1, 4))] == [0, 0]
    with pytest.raises(gops.OpError, match="The largest absolute difference is inf"):
        gops.export.compare("right", "wrong", (1, 4))


def test_heads_and_losses():
    """The label is unknown, and the loss is not in the file."""
    scores = mx.sym.FullyConnected(data, num_hidden=3, name="fc")
    label = mx.sym.var("softmax_label")
    head = mx.sym.SoftmaxOutput(scores, label, name="softmax")
    saved("net", mx.sym.Group([mx.sym.MakeLoss(mx.sym.mean(scores)), head]), fc_weight=np.eye(3, 4), fc_bias=[1, 2, 3])
    with pytest.warns(gops.export.ExportWarning, match="exported for inference"):
        gops.export.onnx("net", "net.onnx", (1, 4))
        gops.export.rewrite("net", "out", inference=True)
    for path in ("net.onnx", "out", "net"):
        found, = gops.export.compare("net", path, (1, 4))
        assert found.output == "softmax_output" and found.relative < 1e-5
    saved("wrong", mx.sym.softmax(scores, axis=0, name="softmax"), fc_weight=np.eye(3, 4), fc_bias=[1, 2, 3])
    with pytest.raises(gops.OpError, match="softmax_output at .* the node 'softmax'"):
        gops.export.compare("net", "wrong", (1, 4))


@pytest.mark.parametrize("right, wrong", [
    (data % 0.6, data - mx.sym.floor(data / 0.6) * 0.6), (mx.sym.round(data), mx.sym.rint(data)),
    (data > 0.5, data >= 0.5), (mx.sym.argmax(data, axis=1), 39 - mx.sym.argmax(mx.sym.reverse(data, axis=1), axis=1)),
    (mx.sym.one_hot(data, 3), mx.sym.one_hot(mx.sym.round(data), 3))],
    ids=["remainder", "round", "greater", "argmax", "one_hot"])
def test_a_difference_at_jumps_is_found(right, wrong):
    saved("right", right), saved("wrong", wrong)
    with pytest.raises(gops.OpError, match="wrong does not compute what MXNet does"):
        gops.export.compare("right", "wrong", (4, 40))


def test_outputs_that_jump_everywhere():
    """The sign of what is 0 but for rounding does, of the inputs or of the parameters."""
    products = [mx.sym.broadcast_mul(data, mx.sym.var(name)) for name in ("first", "second")]
    rest = mx.sym.square(mx.sym.sin(data)) + mx.sym.square(mx.sym.cos(data)) - 1 + products[0] - products[1]
    values = {name: np.full((1, 40), 0.3) for name in ("first", "second")}
    saved("right", mx.sym.sign(rest), **values), saved("other", mx.sym.sign(-rest), **values)
    with pytest.warns(gops.export.ExportWarning, match="other is not compared with MXNet: its outputs jump where"):
        assert gops.export.compare("right", "other", (1, 40)) == []


def test_layers_in_front_of_what_jumps(rng):
    """They are compared too: a detector finds nothing in noise."""
    net = gops.models.tiny_yolov2(classes=2, width=0.125, head_channels=32)
    net.initialize(mx.init.Xavier())
    detector = net.detector(threshold=0.9)
    gops.export.onnx(detector, "net.onnx", (1, 3, 64, 64))
    layer, *found = gops.export.compare(detector, "net.onnx", (1, 3, 64, 64))
    assert "conv" in layer.output and layer.relative < 1e-5
    assert [one.output for one in found] == ["ids", "scores", "boxes"]


@pytest.mark.parametrize("symbol, shape, reason", [
    (data * 2, None, "the shape of the input data is not known"),
    (data + mx.sym.random.uniform(shape=(1, 4)), (1, 4), "draws random numbers"),
    (mx.sym.RNN(data, mx.sym.var("w"), mx.sym.zeros((1, 1, 2)), mx.sym.zeros((1, 1, 4)), state_size=4, num_layers=1,
                mode="lstm", projection_size=2), (2, 1, 3), "has projection_size, which MXNet computes on a GPU only")])
def test_what_is_not_compared(symbol, shape, reason):
    values = {} if symbol.list_arguments() == ["data"] else {"w": np.ones(120)}
    saved("net", symbol, **values)
    with pytest.warns(gops.export.ExportWarning, match=f"net is not compared with MXNet: .*{reason}"):
        assert gops.export.compare("net", "net", shape) == []


def test_without_onnxruntime(net, monkeypatch):
    gops.export.onnx(net, "net.onnx", SHAPE)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.warns(gops.export.ExportWarning, match=r"net.onnx is not compared .* onnxruntime, .* is not installed"):
        assert gops.export.compare(net, "net.onnx", SHAPE) == []


def test_the_command(net, capsys):
    gops.export.symbol(net, "net", SHAPE)
    assert cli.main(["export", "net", "out", "--fold-batch-norm", "--onnx", "net.onnx"]) == 0
    *paths, first, second = capsys.readouterr().out.splitlines()
    assert paths == ["out-symbol.json", "out-0000.params", "net.onnx"]
    assert first.startswith("out, net_dense0_fwd_output: largest absolute difference ")
    assert second.startswith("net.onnx, net_dense0_fwd_output: largest absolute difference ")
    assert cli.main(["export", "net", "net", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["differences"] == [{"file": "net", "output": "net_dense0_fwd_output", "absolute": 0,
                                      "relative": 0, "allowed": 1e-5}]


def test_the_command_refuses(net, monkeypatch, folder, capsys):
    """What was there stays, and nothing else."""
    gops.export.symbol(net, "net", SHAPE)
    pathlib.Path("net.onnx").write_text("old")
    before = sorted(folder.iterdir())
    monkeypatch.setitem(CONVERTERS, "BatchNorm", lambda call: call.inputs[0])
    assert cli.main(["export", "net", "out", "--onnx", "net.onnx"]) == 1
    assert "gluonops.export.compare: net.onnx does not compute what MXNet does" in capsys.readouterr().err
    assert sorted(folder.iterdir()) == before and pathlib.Path("net.onnx").read_text() == "old"


def test_a_batch_that_a_reshape_does_not_take(tmp_path):
    """MXNet does not refuse it, and reads what is behind the data."""
    rows = mx.sym.Reshape(mx.sym.Embedding(mx.sym.var("data"), input_dim=9, output_dim=5, name="words"), shape=(4, 30))
    mx.sym.FullyConnected(rows, num_hidden=2, name="fc").save(str(tmp_path / "net-symbol.json"))
    arrays = {"words_weight": (9, 5), "fc_weight": (2, 30), "fc_bias": (2,)}
    mx.nd.save(str(tmp_path / "net-0000.params"),
               {f"arg:{name}": mx.nd.random.normal(shape=shape) for name, shape in arrays.items()})
    with pytest.warns(gops.export.ExportWarning, match=r"a batch of 4 only: .*'reshape\d*' \(Reshape\) reads"):
        path = gops.export.onnx(tmp_path / "net", tmp_path / "net.onnx", (4, 6))
    assert gops.export.compare(tmp_path / "net", path, (4, 6))
    gops.export.rewrite(tmp_path / "net", tmp_path / "new", data_shape=(4, 6))
    assert gops.export.compare(tmp_path / "net", tmp_path / "new", (4, 6))


class _Fixed:
    """A side of a comparison whose numbers are given: an output, and two gradients."""

    entries = ()

    def __init__(self, *arrays, others=()):
        self._arrays = [np.array(array, np.float32) for array in arrays]
        self._others = [np.array(array, np.float32) for array in others or arrays]

    def __call__(self, values):
        return self._arrays

    def others(self, values, drawing):
        yield self._others


@pytest.mark.parametrize("ours, in_double, wrong", [
    (([1, 2], [3, 4.1], [5, 6]), ([3, 4], [5, 6]), []),               # a corner: only float32 differs
    (([1, 2], [3, 4.1], [5, 6]), ([3, 4.1], [5, 6]), ["first"]),      # a wrong gradient
    (([1, 2], [3, 4.1], [5, 6]), ([3, 4], [5, 6.1]), []),             # what agrees in float32 is not looked at again
    (([1, 2], [3, 4.1], [5, 6]), None, ["first"]),                    # one side has no float64
    (([1, 2.1], [3, 4.1], [5, 6]), ([3, 4], [5, 6]), ["output", "first"])])   # outputs have to agree in float32
def test_gradients_are_looked_at_again_in_float64(ours, in_double, wrong):
    asked = []

    def exact(values):
        asked.append(values)
        return in_double and tuple([np.array(array, float) for array in ([1, 2], *arrays)]
                                   for arrays in (([3, 4], [5, 6]), in_double))

    found = compare.differences("net", lambda drawing: {}, _Fixed([1, 2], [3, 4], [5, 6]), _Fixed(*ours),
                                ["output", "first", "second"], gradients=range(1, 3), in_double=exact)
    assert found.wrong == wrong and (found.finding is None) == (not wrong)
    assert len(asked) == ("output" not in wrong)
    if asked and in_double:   # The record is in float32: it leaves the gradient out.
        assert set(found.expected) == {0, 2}
        assert [one.output for one in found.differences] == ["output", "first", "second"]


@pytest.mark.parametrize("in_double, kept", [(([1, 2],) * 2, True), (([1, 2], [1, 2.1]), False)])
def test_an_output_that_jumps_in_float32_is_looked_at_in_float64(in_double, kept):
    theirs = _Fixed([1, 2], [3, 4], others=([1, 2.1], [3, 4]))
    exact = tuple([np.array(array, float) for array in (output, [3, 4])] for output in in_double)
    found = compare.differences("net", lambda drawing: {}, theirs, _Fixed([1, 2.1], [3, 4]), ["output", "first"],
                                gradients=range(1, 2), in_double=lambda values: exact)
    assert found.finding is None and ["output" in [one.output for one in found.differences]] == [kept]
    assert set(found.expected) == {1}
