"""Exports of nets that cannot be hybridized, from a recorded run: plain Blocks in legacy mode and in NumPy mode."""
import pathlib
import threading
import warnings

import gluonops as gops
import mxnet as mx
import numpy as np
import plain_nets
import pytest
from gluonops import OpError
from gluonops.export import ExportedModel, ExportWarning, passes
from gluonops.export.recording.arguments import arrays_in
from in_turn import in_turn
from mxnet import nd
from mxnet.gluon import Block, HybridBlock, nn

THIS = pathlib.Path(__file__).name


def made(name, rng, nets=plain_nets.NETS):
    net, inputs = nets[name](rng)
    net.initialize(mx.init.Normal(0.3))
    net(*inputs)
    return net, inputs


def recorded(net, *inputs):
    """The model of a net, and the texts of the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ExportWarning)
        model = ExportedModel.from_net(net, inputs=inputs)
    return model, [str(each.message) for each in caught if each.category is ExportWarning]


def evaluated(model, *inputs):
    """What MXNet computes by the graph of a model."""
    symbol = passes.lower(model, "auto").graph.symbol()
    values = {**model.parameters, **dict(zip(model.inputs, arrays_in(list(inputs))))}
    results = mx.nd.CachedOp(symbol)(*[values[name] for name in symbol.list_inputs()])
    return [each.asnumpy() for each in (results if isinstance(results, list) else [results])]


def outputs_of(net, *inputs):
    return [each.asnumpy() for each in arrays_in(net(*inputs))]


def assert_same(model, net, *inputs):
    found, expected = evaluated(model, *inputs), outputs_of(net, *inputs)
    assert len(found) == len(expected)
    for one, two in zip(found, expected):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)
        assert one.shape == two.shape


class Plain(Block):
    """A Block whose forward is a function."""

    def __init__(self, function, *layers, **kwargs):
        super().__init__(**kwargs)
        self.function = function
        self.layers = layers
        for layer in layers:
            self.register_child(layer)
        self.initialize()

    def forward(self, *inputs):
        return self.function(self, *inputs)


def arange(*shape):
    return nd.arange(1, 1 + int(np.prod(shape))).reshape(shape)


@pytest.mark.parametrize("name", plain_nets.NETS)
class TestNets:
    def test_the_graph_computes_what_the_net_does(self, name, rng):
        """It takes other batches, too: what the batch is baked into, such as a reshape, holds for any."""
        net, inputs = made(name, rng)
        model, _ = recorded(net, *inputs)
        assert_same(model, net, *inputs)
        assert set(net.collect_params()) <= set(model.parameters)
        assert list(model.inputs.values()) == [each.shape for each in arrays_in(list(inputs))]
        twice = [[nd.concat(each, each[:1], dim=0) for each in one] if isinstance(one, list) else
                 nd.concat(one, one[:1], dim=0) for one in inputs]
        assert_same(model, net, *twice)

    def test_onnx(self, name, rng, tmp_path):
        pytest.importorskip("onnxruntime")
        net, inputs = made(name, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExportWarning)
            gops.export.onnx(net, tmp_path / "net.onnx", inputs=inputs)
            assert len(gops.export.compare(net, str(tmp_path / "net.onnx"), inputs=inputs)) >= len(
                outputs_of(net, *inputs))
        assert_onnx(tmp_path / "net.onnx", net, inputs)

    def test_symbol(self, name, rng, tmp_path):
        net, inputs = made(name, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExportWarning)
            gops.export.symbol(net, tmp_path / "net", inputs=inputs)
        model = ExportedModel.from_files(tmp_path / "net")
        assert_same(model, net, *inputs)
        block = mx.gluon.SymbolBlock.imports(f"{tmp_path}/net-symbol.json", list(model.inputs),
                                             f"{tmp_path}/net-0000.params")
        for one, two in zip(outputs_of(block, *arrays_in(list(inputs))), outputs_of(net, *inputs)):
            np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [name if name in ("transformer", "tiny_ssd") else
                                  pytest.param(name, marks=pytest.mark.slow) for name in plain_nets.NETS])
def test_torch(name, rng, tmp_path):
    """Outputs, gradients and states are compared before a file is written. A class is written for each block."""
    pytest.importorskip("torch")
    net, inputs = made(name, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExportWarning)
        gops.export.torch(net, tmp_path / "net", inputs=inputs)
    assert (tmp_path / "net" / "test_net.safetensors").is_file()
    if name == "transformer":
        source = (tmp_path / "net" / "net.py").read_text()
        assert "class Attention(nn.Module)" in source and "self.of_query = nn.Linear(8, 8, bias=False)" in source


def assert_onnx(path, net, inputs):
    """onnxruntime takes the arrays of the user as they are."""
    import onnxruntime
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    values = [each.asnumpy() for each in arrays_in(list(inputs))]
    found = session.run(None, {one.name: value for one, value in zip(session.get_inputs(), values)})
    for one, two in zip(found, outputs_of(net, *inputs)):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


def test_lengths_that_the_net_takes_are_free(rng):
    net, inputs = made("transformer", rng)
    model, texts = recorded(net, *inputs)
    assert not texts
    assert_same(model, net, plain_nets.words(rng, 3, 9), plain_nets.words(rng, 3, 4), plain_nets.lengths(4, 7, 9))


def test_lengths_that_are_equal_by_chance_stay_two():
    """Each of them has its own positions, although the net was recorded with one length."""
    def function(self, x, y):
        return nd.batch_dot(x, y, transpose_b=True) * nd.arange(x.shape[1]).reshape((-1, 1)).expand_dims(0) + nd.arange(
            y.shape[1]).reshape((1, 1, -1))
    net = Plain(function)
    model, texts = recorded(net, arange(2, 3, 4), arange(2, 3, 4))
    assert not texts
    assert_same(model, net, arange(3, 5, 4), arange(3, 7, 4))


def test_a_number_of_steps_is_fixed_and_said():
    """A loop over steps is written out. The graph refuses another number."""
    net = Plain(lambda self, x: sum(step * 2 for step in x.swapaxes(0, 1)))
    model, (text,) = recorded(net, arange(2, 3, 4))
    assert "3 in axis 1 of data0 only" in text and THIS in text
    assert_same(model, net, arange(5, 3, 4))
    with pytest.raises(mx.MXNetError, match="broadcast"):
        evaluated(model, arange(2, 4, 4))


def test_a_branch_on_a_size_is_fixed_and_said(tmp_path):
    net = Plain(lambda self, x: x * 2 if x.shape[1] > 3 else x * 3)
    model, (text,) = recorded(net, arange(2, 3))
    assert "axis 1 of data0 only" in text and f"_mul_scalar in {THIS} line" in text
    model.save(tmp_path / "net")
    for each in (model, ExportedModel.from_files(tmp_path / "net")):
        assert_same(each, net, arange(4, 3))
        with pytest.raises(mx.MXNetError, match="broadcast"):
            evaluated(each, arange(2, 4))


def test_onnx_of_a_fixed_batch_refuses_others(tmp_path):
    ort = pytest.importorskip("onnxruntime")
    net = Plain(lambda self, x: x * x.shape[0] ** 2)
    with pytest.warns(ExportWarning, match="axis 0 of data0 only"):
        gops.export.onnx(net, tmp_path / "net.onnx", inputs=arange(2, 3))
    session = ort.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape == [2, 3]


class States(Block):
    """A recurrent net whose states have the batch in their second axis, behind as many layers."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.rnn, self.out = mx.gluon.rnn.GRU(4, num_layers=2), nn.Dense(3, flatten=False)

    def forward(self, x, state):
        y, state = self.rnn(x.swapaxes(0, 1), state)
        return self.out(y), state


@pytest.mark.parametrize("batch", [2, 3, 4])
def test_onnx_takes_any_batch_of_states(batch, tmp_path, rng):
    """The batch is as large as the number of layers, as the units, or as neither."""
    ort = pytest.importorskip("onnxruntime")
    net = States()
    net.initialize(mx.init.Normal(0.3))

    def drawn(rows):
        return nd.array(rng.randn(rows, 5, 3)), [nd.array(rng.randn(2, rows, 4))]
    gops.export.onnx(net, tmp_path / "net.onnx", inputs=drawn(batch))
    session = ort.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    assert [one.shape for one in session.get_inputs()] == [["batch", 5, 3], [2, "batch", 4]]
    x, state = drawn(6)
    found = session.run(None, {"x": x.asnumpy(), "state_0": state[0].asnumpy()})
    for one, two in zip(found, outputs_of(net, x, state)):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


def test_onnx_of_inputs_with_different_first_sizes(tmp_path):
    """They are not the same batch: the first is free, and the others have their sizes."""
    ort = pytest.importorskip("onnxruntime")
    net = Plain(lambda self, x, y: nd.broadcast_sub(x[:, 1:].expand_dims(1), y[:, 1:].expand_dims(0)) + 1)
    inputs = arange(3, 4), arange(2, 4)
    gops.export.onnx(net, tmp_path / "net.onnx", inputs=inputs)
    session = ort.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    assert [one.shape for one in session.get_inputs()] == [["batch", 4], [2, 4]]
    assert_onnx(tmp_path / "net.onnx", net, inputs)


def test_a_fixed_batch_is_compared_with_mxnet(tmp_path):
    net = Plain(lambda self, x: x * x.shape[0] ** 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExportWarning)   # of the size that is fixed
        gops.export.symbol(net, tmp_path / "net", inputs=arange(2, 3))
    difference, = gops.export.compare(net, tmp_path / "net", inputs=arange(2, 3))
    assert difference.relative == 0


def test_torch_of_a_fixed_size_refuses_others(tmp_path):
    torch = pytest.importorskip("torch")
    net = Plain(lambda self, x: self.layers[0](x) * x.shape[0] ** 2, nn.Dense(3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ExportWarning)
        gops.export.torch(net, tmp_path / "net", inputs=arange(2, 3))
    assert any("axis 0 of data0 only" in str(each.message) for each in caught)
    space = {"__file__": str(tmp_path / "net" / "net.py"), "__name__": "written"}
    exec((tmp_path / "net" / "net.py").read_text(), space)
    with pytest.raises(AssertionError, match="expected a size of 2 in axis 0"):
        space["load"]()(torch.ones(4, 3))


SAME = {
    "rows": lambda self, x: x[0] + x[-1],
    "columns": lambda self, x: x[:, 1:] - x[:, :-1],
    "last of an axis": lambda self, x: x[:, -1],
    "a new axis": lambda self, x: x[:, None, :] * x.expand_dims(2),
    "a part of a row": lambda self, x: x[1, 1:3],
    "a step": lambda self, x: x[:, ::2],
    "a range of all numbers": lambda self, x: x.reshape((-1,))[4:8],
    "a row of a row": lambda self, x: x.reshape((2, 2, 2))[1][0][1],
    "a view of a view": lambda self, x: x.reshape((-1,))[2:6].reshape((2, 2)),
    "indices": lambda self, x: nd.take(x, nd.array([1, 0])),
    "an array as an index": lambda self, x: x[nd.array([1, 0, 1])],
    "in place": lambda self, x: in_place(x * 2),
    "in place, an alias": lambda self, x: alias(x * 2),
    "another type": lambda self, x: x.astype("int32").astype("float32") * 1.5,
    "detached": lambda self, x: x.detach() + x,
    "a copy": lambda self, x: x.copy() + nd.identity(x),
    "several outputs": lambda self, x: {"a": x + 1, "b": [x * 2, None, (x.split(2, axis=0))]},
    "the input": lambda self, x: (x, x + 1),
    "a constant": lambda self, x: x + nd.array(np.arange(4)),
    "a constant made in place": lambda self, x: x * prepared(),
    "an operator of gluonops": lambda self, x: gops.ops.gelu(x) + gops.ops.mish(x),
    "printed": lambda self, x: (print(x), x.asnumpy().sum(), float(x[0, 0].asscalar()), x * 2)[-1],
    "checked": lambda self, x: x * 2 if x.sum().asscalar() == x.sum().asscalar() else None,
    "axes in front": lambda self, x: x + nd.broadcast_to(x[0].expand_dims(0), x.shape),
    "a mean": lambda self, x: x.sum(axis=1) / x.shape[1] + x.mean(axis=1) * x.shape[0],
    "lengths are checked": lambda self, x: checked(x),
    "axes": lambda self, x: x.sum(axis=1).reshape((-1, 1)) + x.mean(axis=(0, 1), keepdims=True),
    "as many as there are": lambda self, x: x / nd.ones(x.shape[1]).sum(),
}


def in_place(x):
    x += 1
    x *= x
    x -= 0.5
    return x


def alias(x):
    y = x.as_np_ndarray().as_nd_ndarray()
    y += 1
    return x + y


def checked(x):
    assert (x.argmax(axis=1).asnumpy() < x.shape[1]).all()
    return x * 2


def prepared():
    mask = nd.zeros((2, 4))
    mask[0, 1:3] = 5
    mask[1] = nd.arange(4)
    mask += 1
    return mask


@pytest.mark.parametrize("name", SAME)
def test_what_is_recorded(name):
    net = Plain(SAME[name])
    x = arange(2, 4)
    before = x.asnumpy()
    model, _ = recorded(net, x)
    assert_same(model, net, x)
    np.testing.assert_array_equal(x.asnumpy(), before)


def assigned(x):
    y = x * 2
    y[0] = 1
    return y


def assigned_whole(x):
    y = x * 2
    y[:] = x
    return y


def changed_view(x):
    y = x * 2
    y[0] += 1
    return y


def changed_base(x):
    y = x * 2
    view = y.reshape((-1,))
    y += 3
    return view


def added_to_base(x):
    lost = x * 2
    lost[1] = 1
    y = x + 1
    view = y.reshape((-1,))
    y += lost
    return view


def graded(x):
    x = x.copy()
    x.attach_grad()
    with mx.autograd.record():
        loss = (x * x).sum()
    loss.backward()
    return x.grad


REFUSED = {
    "assignment": (assigned, "assigns to an array in place", "y[0] = 1"),
    "assignment of all": (assigned_whole, "assigns to an array in place", "y[:] = x"),
    "a part in place": (changed_view, "shares its memory|assigns to an array", "y[0] += 1"),
    "the base of a view in place": (changed_base, "shares its memory", "    y += 3"),
    "a view of what such an array is added to": (added_to_base, "assigns to an array", "    lost[1] = 1"),
    "asscalar": (lambda x: x * x.sum().asscalar(), "reads numbers", "lambda x: x * x.sum().asscalar()"),
    "int": (lambda x: x[:, :int(x[0, 0].asscalar())], "reads numbers", "int(x[0, 0].asscalar())"),
    "bool": (lambda x: x * 2 if x.sum() > 0 else x, "reads numbers", "if x.sum() > 0"),
    "NumPy": (lambda x: nd.array(np.sin(x.asnumpy())), "reads numbers", "np.sin(x.asnumpy())"),
    "gradients": (graded, "computes gradients", "loss.backward()"),
    "shapes only": (lambda x: (x, nd.arange(x.shape[1])), "depends on no input", "nd.arange(x.shape[1])),"),
}


@in_turn("name", REFUSED)
def test_what_cannot_be_recorded_is_named_with_its_line(name):
    function, words, source = REFUSED[name]
    lines = pathlib.Path(__file__).read_text().splitlines()
    number = next(number for number, line in enumerate(lines, 1) if source in line and "source in" not in line)
    with pytest.raises(OpError, match=words) as caught:
        recorded(Plain(lambda self, x: function(x)), arange(2, 4))
    assert f"{THIS} line {number}" in str(caught.value)


def test_a_value_that_reaches_no_output_may_be_read_and_assigned():
    def function(self, x):
        y = x * 2
        y[0] = x.sum().asscalar()
        return x + 1
    model, _ = recorded(Plain(function), arange(2, 4))
    assert [node.op for node in model.graph.nodes()] == ["null", "_plus_scalar"]


class WithConstants(Block):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.scale = self.params.get("scale", shape=(3,), init=mx.init.One())
            self.table = self.params.get_constant("table", np.arange(3.0))
            self.norm = nn.BatchNorm(in_channels=3)
        self.weights = [nd.ones((3,)), nd.ones((3,)) * 2]
        self.shift = nd.array([7, 8, 9])

    def forward(self, x):
        first, second = self.weights
        return self.norm(x) * self.scale.data() + self.table.data() * first + self.shift * second


def test_parameters_states_and_constants_keep_their_names():
    net = WithConstants(prefix="net_")
    net.initialize()
    model, _ = recorded(net, arange(2, 3))
    assert set(model.parameters) == {*net.collect_params(), "net_weights0", "net_weights1", "net_shift"}
    assert_same(model, net, arange(2, 3))


class WithoutF(HybridBlock):
    def hybrid_forward(self, F, x):
        return nd.exp(x)


def test_a_hybrid_block_that_python_does_not_trace(tmp_path):
    with pytest.raises(OpError, match="If it computes in Python, pass inputs"):
        gops.export.symbol(WithoutF(), tmp_path / "net", (2, 3))
    gops.export.symbol(WithoutF(), tmp_path / "net", inputs=arange(2, 3))
    assert_same(ExportedModel.from_files(tmp_path / "net"), WithoutF(), arange(4, 7))


class ReadsShape(HybridBlock):
    def hybrid_forward(self, F, x):
        return x.reshape((x.shape[0], -1)) * 2


def test_a_hybrid_block_that_cannot_be_traced(tmp_path):
    net = ReadsShape()
    with pytest.raises(OpError, match=r"reads \.shape .*or pass inputs"):
        gops.export.symbol(net, tmp_path / "net", (2, 3, 4))
    gops.export.symbol(net, tmp_path / "net", inputs=arange(2, 3, 4))
    assert_same(ExportedModel.from_files(tmp_path / "net"), net, arange(5, 3, 4))


def test_hybridized_children_and_exported_files_are_parts_of_the_graph(tmp_path):
    def small(prefix):
        net = nn.HybridSequential(prefix=prefix)
        with net.name_scope():
            net.add(nn.Dense(4, activation="relu"), gops.nn.Mish())
        net.initialize()
        net.hybridize()
        net(nd.ones((2, 3)))
        return net

    small("file_").export(str(tmp_path / "net"))
    imported = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"],
                                            str(tmp_path / "net-0000.params"))
    inner = small("inner_")
    net = Plain(lambda self, x: self.layers[0](x) + self.layers[1](x[::-1]), inner, imported)
    model, _ = recorded(net, arange(2, 3) / 10)
    assert "FullyConnected" in [node.op for node in model.graph.nodes()]
    assert_same(model, net, arange(2, 3) / 10)
    assert inner._active and inner._cached_op is not None


def test_integers_are_inputs_of_their_type(tmp_path):
    ort = pytest.importorskip("onnxruntime")
    net = Plain(lambda self, x, lengths: nd.SequenceMask(x, lengths, True, axis=1) + lengths.astype(
        "float32").reshape((-1, 1)))
    inputs = arange(2, 4), nd.array([1, 3], dtype="int32")
    gops.export.onnx(net, tmp_path / "net.onnx", inputs={"data0": inputs[0], "data1": inputs[1]})
    session = ort.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    assert [one.type for one in session.get_inputs()] == ["tensor(float)", "tensor(int32)"]
    assert_onnx(tmp_path / "net.onnx", net, inputs)


class Two(Block):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = nn.Dense(2, flatten=False)

    def forward(self, x, mask=None, states=()):
        return self.dense(x) if mask is None else self.dense(x) * mask


def test_inputs_have_the_names_of_the_arguments():
    net = Two()
    net.initialize()
    x, mask = arange(2, 3), arange(2, 2)
    assert list(ExportedModel.from_net(net, inputs=x).inputs) == ["x"]
    assert list(ExportedModel.from_net(net, inputs=[x, mask]).inputs) == ["x", "mask"]
    assert list(ExportedModel.from_net(net, inputs={"mask": mask, "x": x}).inputs) == ["x", "mask"]
    assert list(ExportedModel.from_net(net, inputs=(x, None)).inputs) == ["x"]


@in_turn("inputs, words", [
    ((), "inputs lacks x"), ((None, None), "has no array"),
    ({"mask": 1}, "inputs lacks x"), ({"z": 1}, "names 'z'"), ((1, 2, 3, 4), "has 4 values"),
    ((None,), "has no array"), ((np.ones((2, 3)),), "is of NumPy's ndarray"),
    ((nd.ones((2, 3)), mx.np.ones((2, 3))), "x is a legacy NDArray, and mask is an array of mx.np"),
    ((mx.np.ones((2, 3)),), "x is an array of mx.np, and the parameter .* is a legacy NDArray"),
    ((nd.ones((2, 3)).tostype("csr"),), "is a sparse array"), ((nd.ones((2, 7)),), "fails with the inputs x"),
])
def test_bad_inputs(inputs, words):
    net = Two()
    net.initialize()
    net(nd.ones((2, 3)))
    with pytest.raises(OpError, match=words):
        ExportedModel.from_net(net, inputs=inputs)


def divided(x):
    return x / (1 // 0)


def test_an_error_of_mxnet_is_quoted_without_its_source():
    net = Two()
    net.initialize()
    net(nd.ones((2, 3)))
    with pytest.raises(OpError, match="fails with the inputs") as caught:
        ExportedModel.from_net(net, inputs=nd.ones((2, 7)))
    assert "src/" not in str(caught.value)


def test_an_error_of_the_net_is_named_with_its_line():
    number = divided.__code__.co_firstlineno + 1
    with pytest.raises(OpError, match=f"Plain fails .* in {THIS} line {number}: ZeroDivisionError"):
        recorded(Plain(lambda self, x: divided(x)), arange(2, 3))


def test_bad_nets(tmp_path):
    with pytest.raises(OpError, match="is not initialized"):
        gops.export.onnx(Two(), tmp_path / "net.onnx", inputs=nd.ones((2, 3)))
    net = Two()
    net.initialize()
    with pytest.raises(OpError, match="net is Two; expected a HybridBlock.*pass inputs"):
        gops.export.onnx(net, tmp_path / "net.onnx", (2, 3))
    with pytest.raises(OpError, match="inputs and data_shape were both passed"):
        gops.export.onnx(net, tmp_path / "net.onnx", (2, 3), inputs=nd.ones((2, 3)))
    with pytest.raises(OpError, match="is int; expected a Block"):
        gops.export.onnx(7, tmp_path / "net.onnx", inputs=nd.ones((2, 3)))
    with pytest.raises(OpError, match="returns 'x' among its outputs"):
        ExportedModel.from_net(Plain(lambda self, x: [x, "x"]), inputs=nd.ones((2, 3)))
    with pytest.raises(OpError, match="returns nothing"):
        ExportedModel.from_net(Plain(lambda self, x: None), inputs=nd.ones((2, 3)))
    assert not list(tmp_path.iterdir())


def test_the_process_is_as_it_was():
    """No function stays replaced, whether the net fails or not. The net's arrays keep their numbers."""
    library = dict(vars(mx.base._LIB))
    net = WithConstants()
    net.initialize()
    shift, weight = net.shift.asnumpy(), net.weights[0].asnumpy()

    def counting(x):
        net.shift += x[0]
        net.weights[0][0:1] += 1
        return net(x) + net.shift
    recorded(Plain(lambda self, x: counting(x), net), arange(2, 3))
    keeps = Plain(lambda self, x: setattr(self, "kept", x * 2) or self.kept)
    keeps.kept = "before"
    recorded(keeps, arange(2, 3))
    assert keeps.kept == "before"
    with pytest.raises(OpError):
        recorded(Plain(lambda self, x: 1 / 0), arange(2, 3))
    now = vars(mx.base._LIB)
    assert all(now[name] is function for name, function in library.items())
    np.testing.assert_array_equal(net.shift.asnumpy(), shift)
    np.testing.assert_array_equal(net.weights[0].asnumpy(), weight)


def test_other_threads_are_not_recorded():
    """They compute while a net is recorded, and so may they record nets of their own."""
    stop, failures = threading.Event(), []

    def work():
        try:
            while not stop.is_set():
                x = nd.ones((2, 3))
                x[0] = 5
                assert (x * 2).asnumpy().sum() == 36
        except BaseException as error:
            failures.append(error)

    def record(results):
        results.append(recorded(net, arange(2, 4))[0])

    net = Plain(lambda self, x: in_place(x * 2).reshape((x.shape[0], -1))[:, 1:])
    worker = threading.Thread(target=work)
    worker.start()
    results = []
    recorders = [threading.Thread(target=record, args=(results,)) for _ in range(2)]
    for each in recorders:
        each.start()
    for each in recorders:
        each.join()
    stop.set()
    worker.join()
    assert not failures and len(results) == 2
    for model in results:
        assert [node.op for node in model.graph.nodes()] == [node.op for node in results[0].graph.nodes()]
        assert_same(model, net, arange(2, 4))


@pytest.fixture
def numpy_mode():
    mx.npx.set_np()
    yield
    mx.npx.reset_np()


@pytest.mark.parametrize("name", plain_nets.NUMPY_NETS)
def test_numpy_nets(name, rng, numpy_mode):
    """MXNet computes by the graph what the net computes, for any batch. Nodes get legacy names where there are some."""
    net, inputs = made(name, rng, plain_nets.NUMPY_NETS)
    model, _ = recorded(net, *inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExportWarning)   # of sizes that are fixed
        kept = gops.export.ExportedModel.from_net(net, None, inputs=tuple(inputs), numpy=True)
    assert any(node.op.startswith(("_np", "_npi", "_npx")) for node in kept.graph.nodes())
    assert kept.graph.attrs["is_np_shape"] == ["int", 1]
    for given in (inputs, [mx.np.concatenate([each, each[:1]]) for each in inputs]):
        found = evaluated(model, *(each.as_nd_ndarray() for each in given))
        for one, two in zip(found, outputs_of(net, *given)):
            np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)
            assert (one.shape, one.dtype) == (two.shape, two.dtype)


def test_a_broadcast_that_adds_axes_holds_for_other_sizes(numpy_mode):
    """As a decoder repeats its context for each step."""
    net = Plain(lambda self, x: mx.np.broadcast_to(x[:, 0], (x.shape[1], *x[:, 0].shape)).swapaxes(0, 1) + x)
    model, notes = recorded(net, mx.np.ones((2, 3, 4)))
    assert not notes
    x = mx.np.arange(60).reshape(3, 5, 4)
    np.testing.assert_array_equal(evaluated(model, x.as_nd_ndarray())[0], net(x).asnumpy())


def test_a_numpy_net_is_recorded_in_any_mode(rng, numpy_mode):
    net, inputs = made("text_cnn", rng, plain_nets.NUMPY_NETS)
    expected = outputs_of(net, *inputs)
    mx.npx.reset_np()
    model, _ = recorded(net, *inputs)
    assert not mx.util.is_np_array() and not mx.util.is_np_shape()
    with mx.util.np_shape(True):
        found = evaluated(model, *(each.as_nd_ndarray() for each in inputs))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)


def test_a_legacy_array_given_to_a_numpy_net(rng, numpy_mode):
    net, inputs = made("text_cnn", rng, plain_nets.NUMPY_NETS)
    with pytest.raises(OpError, match="x is a legacy NDArray, and the parameter .* is an array of mx.np"):
        ExportedModel.from_net(net, inputs=inputs[0].as_nd_ndarray())
    fresh = plain_nets.NumpyTextCNN()
    fresh.initialize()
    with pytest.raises(OpError, match="x is a legacy NDArray"):
        ExportedModel.from_net(fresh, inputs=inputs[0].as_nd_ndarray())


def test_an_array_of_mx_np_given_to_a_legacy_net():
    net = nn.Sequential()
    net.add(nn.Dense(2, use_bias=False))   # The shape of its weight is not known.
    net.initialize()
    with pytest.raises(OpError, match="is an array of mx.np, and NumPy mode is off"):
        ExportedModel.from_net(net, inputs=mx.np.ones((2, 3)))


def test_a_plain_block_in_8_bits(tmp_path, rng):
    """In both formats, close to the float net, from a recording that takes any batch."""
    pytest.importorskip("onnxruntime")
    net, inputs = made("tiny_ssd", rng)
    images = rng.randn(12, 3, 32, 32).astype("float32")
    result = gops.export.quantize(net, tmp_path / "net", images, onnx=tmp_path / "net.onnx", inputs=inputs)
    assert sum(layer.is_quantized for layer in result.layers) == 9
    assert set(result.errors) == {"MXNet", "ONNX"} and max(result.errors.values()) < 0.05
    model = ExportedModel.from_files(tmp_path / "net")
    assert list(model.inputs) == ["x"]


def fixed_batch(self, words, lengths):
    """Its loop over the rows is unrolled."""
    rows = [row.expand_dims(0) for row in self.layers[0](words)]
    return self.layers[1](nd.SequenceMask(nd.concat(*rows, dim=0), lengths, True, axis=1).mean(axis=1))


@pytest.mark.filterwarnings("ignore:.*a size of 3 in axis 0:gluonops.export.ExportWarning")
def test_a_net_of_integers_and_of_one_batch_size_in_8_bits(tmp_path, rng):
    """Its inputs of integers are those of the ONNX file. Its examples are cut into batches of the size that it takes,
    and the shape of a weight is not known before it is recorded."""
    ort = pytest.importorskip("onnxruntime")
    net = Plain(fixed_batch, nn.Embedding(20, 6), nn.Dense(4))
    net.initialize(mx.init.Uniform(1))
    data = {"data0": rng.randint(0, 20, (15, 5)), "data1": rng.randint(1, 5, (15,))}
    inputs = nd.array(data["data0"][:3]), nd.array(data["data1"][:3], dtype="int32")

    def count(predict):
        return len(predict({name: each[:6] for name, each in data.items()}))

    result = gops.export.quantize(net, tmp_path / "net", data, onnx=tmp_path / "net.onnx", inputs=inputs, limit=0.1,
                                  score=count)
    assert set(result.scores.values()) == {6}
    session = ort.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    assert [(one.shape, one.type) for one in session.get_inputs()] == [
        ([3, 5], "tensor(float)"), ([3], "tensor(int32)")]
    few = {name: each[:5] for name, each in data.items()}
    with pytest.raises(OpError, match="has 3 examples; expected more than 5"):
        gops.export.quantize(net, None, few, onnx=tmp_path / "x.onnx", inputs=inputs)


def test_a_picture_of_a_plain_block(tmp_path, rng):
    pytest.importorskip("grandalf")
    net, inputs = made("text_cnn", rng)
    text = pathlib.Path(gops.export.picture(net, tmp_path / "net.svg", inputs=inputs)).read_text(encoding="utf-8")
    assert text.count(">Embedding") == 2 and text.count(">Convolution") == 3
    with pytest.raises(OpError, match="inputs and data_shape were both passed"):
        gops.export.picture(net, tmp_path / "net.svg", (2, 9), inputs=inputs)


def test_a_recorded_model_has_copies_of_the_parameters():
    """Inference that still runs may be storing those of the net, and the user may train on."""
    net = nn.Conv2D(2, 3, in_channels=3)
    net.initialize()
    model = ExportedModel.from_net(net, inputs=mx.nd.ones((1, 3, 8, 8)))
    before = model.parameters[net.weight.name].asnumpy()
    net.weight.set_data(net.weight.data() + 1)
    np.testing.assert_array_equal(model.parameters[net.weight.name].asnumpy(), before)
