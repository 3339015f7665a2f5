"""NumpyOp and NDArrayOp in every way a node can run, on classes written as tutorials before MXNet 1.0 had them."""
import copy
import functools
import gc
import pickle
import warnings
import weakref

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.data import digits
from gluonops.legacy import instances, notice
from mxnet import autograd, gluon
from old_tutorials import NDArraySoftmax, NumpySoftmax, NumpyTile


class Layer(gluon.HybridBlock):
    """An instance as a layer."""

    def __init__(self, op):
        super().__init__()
        self.op = op

    def hybrid_forward(self, F, *inputs):
        return self.op(*inputs)


def recorded(function, inputs, heads=None):
    """(output, gradient of the first input) under autograd."""
    inputs[0].attach_grad()
    with autograd.record():
        output = function(*inputs)
    output.backward(heads)
    return output.asnumpy(), inputs[0].grad.asnumpy()


def in_module(op, inputs, heads=None):
    """The same through Module, whose graph has been to JSON and back."""
    names = op.list_arguments()
    symbol = mx.sym.load_json(op(*map(mx.sym.var, names), name="layer").tojson())
    module = mx.mod.Module(symbol, names[:1], names[1:] or None)
    module.bind([(names[0], inputs[0].shape)], [(name, x.shape) for name, x in zip(names[1:], inputs[1:])] or None,
                inputs_need_grad=True)
    module.init_params()
    module.forward(mx.io.DataBatch(inputs[:1], inputs[1:]), is_train=True)
    module.backward(None if heads is None else [heads])
    return module.get_outputs()[0].asnumpy(), module.get_input_grads()[0].asnumpy()


def hybridized(op, inputs, heads=None, **how):
    layer = Layer(op)
    layer.hybridize(**how)
    return recorded(layer, inputs, heads)


WAYS = {"imperative": recorded, "hybridized": hybridized, "module": in_module,
        "static": lambda *args: hybridized(*args, static_alloc=True, static_shape=True)}


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tile(way, dtype, rng):
    dtype = "float32" if way is in_module else dtype   # Module binds that
    data, heads = (rng.standard_normal(shape).astype(dtype) for shape in ((3, 5), (3, 20)))
    output, gradient = way(NumpyTile(4), [mx.nd.array(data, dtype=dtype)], mx.nd.array(heads, dtype=dtype))
    np.testing.assert_array_equal(output, np.tile(data, 4))
    np.testing.assert_allclose(gradient, sum(np.split(heads, 4, axis=1)), rtol=1e-5, atol=1e-6)
    assert output.dtype == gradient.dtype == dtype


@pytest.mark.parametrize("op", [NumpySoftmax, NDArraySoftmax])
def test_softmax_as_a_loss(op, way, rng):
    """The gradient is p - onehot, whatever the head gradient is."""
    data, label = rng.standard_normal((6, 4)).astype("float32"), rng.randint(4, size=6)
    heads = None if way is in_module else mx.nd.ones((6, 4)) * 7
    output, gradient = way(op(), [mx.nd.array(data), mx.nd.array(label)], heads)
    expected = np.exp(data) / np.exp(data).sum(1, keepdims=True)
    np.testing.assert_allclose(output, expected, rtol=1e-5)
    np.testing.assert_allclose(gradient, expected - np.eye(4)[label], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("op", [NumpySoftmax, NDArraySoftmax])
def test_trains_digits_as_our_own_loss_does(op):
    """A head as the tutorials have it: the label's variable and shape are found, and the weights come out the same."""
    training = digits()[0]
    images = mx.io.NDArrayIter(training.images[:320].reshape(320, -1), training.labels[:320], 32)
    weights = {}
    for name, head in (("old", op()), ("ours", gops.ops.softmax_output)):
        hidden = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=10, name="fc")
        net = head(data=hidden, name="softmax")
        assert net.list_arguments() == ["data", "fc_weight", "fc_bias", "softmax_label"]
        assert net.list_outputs() == ["softmax_output"]
        module = mx.mod.Module(net)
        images.reset()
        mx.random.seed(3)
        module.fit(images, num_epoch=3, initializer=mx.init.Xavier(), optimizer_params={"learning_rate": 0.1})
        weights[name] = module.get_params()[0]["fc_weight"].asnumpy()
    np.testing.assert_allclose(weights["old"], weights["ours"], atol=1e-5)
    assert dict(module.score(images, "acc"))["accuracy"] > 0.7


@pytest.mark.parametrize("op", [NumpySoftmax, NDArraySoftmax])
@pytest.mark.parametrize("request_", ["write", "add", "null"])
def test_requests(op, request_, rng):
    data, label = mx.nd.array(rng.standard_normal((2, 3))), mx.nd.array([0, 2])
    grads = [mx.nd.ones((2, 3)), mx.nd.ones(2)]
    bound = op()(mx.sym.var("data"), mx.sym.var("label")).bind(
        mx.cpu(), [data, label], grads, {"data": request_, "label": "write"})
    for _ in range(3):
        bound.forward(is_train=True)
        bound.backward()
    once = mx.nd.softmax(data) - mx.nd.one_hot(label, 3)
    expected = {"write": once, "add": 1 + 3 * once, "null": mx.nd.ones((2, 3))}[request_]
    np.testing.assert_allclose(grads[0].asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(grads[1].asnumpy(), [0, 0])   # backward does not write the label's


@pytest.mark.parametrize("how", [None, {}, {"static_alloc": True}])
def test_between_convolutions(how, rng):
    """oneDNN's layouts do not reach it: the same numbers as with MXNet's own tile, in a net that is called often."""
    nets = []
    for tile in (NumpyTile(2), lambda x: x.tile((1, 1, 1, 2)) if isinstance(x, mx.nd.NDArray) else mx.sym.tile(
            x, (1, 1, 1, 2))):
        net = gluon.nn.HybridSequential(prefix="net_")
        with net.name_scope():
            net.add(gluon.nn.Conv2D(16, 3, padding=1, in_channels=16), Layer(tile),
                    gluon.nn.Conv2D(16, 3, padding=1, in_channels=16))
        net.initialize(mx.init.Constant(0.01))
        if how is not None:
            net.hybridize(**how)
        nets.append(net)
    for _ in range(4):
        data = mx.nd.array(rng.standard_normal((2, 16, 24, 24)))
        (output, gradient), (expected, expected_gradient) = (recorded(net, [data]) for net in nets)
        np.testing.assert_array_equal(output, expected)
        np.testing.assert_array_equal(gradient, expected_gradient)


class Halves(gops.legacy.NumpyOp):
    """Two outputs."""

    def list_outputs(self):
        return ["left", "right"]

    def infer_shape(self, in_shape):
        half = [in_shape[0][0], in_shape[0][1] // 2]
        return in_shape, [half, half]

    def forward(self, in_data, out_data):
        out_data[0][:], out_data[1][:] = np.split(in_data[0], 2, axis=1)

    def backward(self, out_grad, in_data, out_data, in_grad):
        in_grad[0][:] = np.concatenate(out_grad, axis=1)


@pytest.mark.parametrize("hybrid", [False, True])
def test_several_outputs_and_instances(hybrid):
    """Nodes of one class keep to their own instances."""
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.ops = Halves(), NumpyTile(2), NumpyTile(3)

        def hybrid_forward(self, F, data):
            split, two, three = self.ops
            left, right = split(data)
            return F.concat(two(left), three(right) * 10, dim=1)

    net, data = Net(), mx.nd.array([[1, 2, 3, 4]])
    net.hybridize(hybrid)
    output, gradient = recorded(net, [data])
    assert output.tolist() == [[1, 2, 1, 2, 30, 40, 30, 40, 30, 40]]
    assert gradient.tolist() == [[2, 2, 30, 30]]


class TestReloaded:
    """Graphs in another process, whose instances are not there; or not any more."""

    @pytest.fixture
    def graph(self, monkeypatch):
        text = NumpyTile(3)(mx.sym.var("data"), name="tile").tojson()
        monkeypatch.setattr(instances, "_alive", weakref.WeakValueDictionary())
        return text

    def test_the_constructor_is_called_again(self, graph):
        bound = mx.sym.load_json(graph).bind(mx.cpu(), [mx.nd.array([[1, 2]])])
        assert bound.forward()[0].asnumpy().tolist() == [[1, 2, 1, 2, 1, 2]]

    def test_a_class_of_another_module_will_do(self, graph):
        assert mx.sym.load_json(graph.replace("old_tutorials.NumpyTile", "__main__.NumpyTile")).list_arguments()

    @pytest.mark.parametrize("there, wanted, text", [
        ("old_tutorials.NumpyTile", "gone.Lost", "is an instance of gone.Lost; there is no such class here"),
        ('"given"', '"__given__"', "its constructor took other arguments than numbers and strings"),
        ("((3,), {})", "((3, 4, 5), {})", "takes 2 positional arguments but 4 were given")])
    def test_refused(self, graph, there, wanted, text):
        """An error comes where MXNet would end the process."""
        assert there in graph
        with pytest.raises((gops.OpError, mx.MXNetError), match=text):
            mx.sym.load_json(graph.replace(there, wanted)).list_arguments()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda op: pickle.loads(pickle.dumps(op))],
                         ids=["copy", "deepcopy", "pickle"])
def test_a_copy_is_an_instance_of_its_own(copied, monkeypatch):
    original, data = NumpyTile(3), mx.nd.array([[1, 2]])
    again = copied(original)
    again.tiles = 1
    assert original(data).shape == (1, 6) and again(data).shape == (1, 2)
    graph = again(mx.sym.var("data"), name="tile").tojson()
    monkeypatch.setattr(instances, "_alive", weakref.WeakValueDictionary())
    with pytest.raises(gops.OpError, match="was a copy, or its constructor took other arguments than numbers and "
                       "strings"):
        mx.sym.load_json(graph).list_arguments()   # the constructor's arguments need not be what the copy holds


class Bad(gops.legacy.NumpyOp):
    """Does what it is told wrong."""

    def __init__(self, shape=None, forward=None, arguments=("data",), outputs=("output",)):
        super().__init__()
        self.shape, self.how, self.arguments, self.outputs = shape, forward, arguments, outputs

    def list_arguments(self):
        return self.arguments

    def list_outputs(self):
        return self.outputs

    def infer_shape(self, in_shape):
        return self.shape(in_shape) if self.shape else super().infer_shape(in_shape)

    def forward(self, in_data, out_data):
        self.how(in_data, out_data)


def replace(in_data, out_data):
    out_data[0] = in_data[0] * 2


@pytest.mark.parametrize("op, call, text", [
    (lambda: Bad(lambda s: [s, s, []]), None, r"infer_shape returned .*; expected two lists, of the inputs' shapes "
     r"and"),
    (lambda: Bad(lambda s: [s, s + s]), None, "expected two lists of 1 and 1 shapes"),
    (lambda: Bad(lambda s: [s, [[s[0][0] / 2, 3]]]), None, r"shape \(1.0, 3\); expected whole numbers. Divide with //"),
    *[(lambda shape=shape: Bad(lambda s: [s, [shape]]), None, r"shape \(.*\); expected sizes from 1 to 2147483647")
      for shape in ([-1, 3], [0, 3], [], [10 ** 12, 3])],
    (lambda: Bad(lambda s: [[[2, -1]], s]), None, r"shape \(2, -1\); expected sizes from 1 to 2147483647"),
    *[(lambda names=names: Bad(arguments=names), lambda op, x: op(x), "list_arguments returned .* list of different na")
      for names in (["data", "data"], "data", [1], 7, None)],
    (lambda: Bad(arguments=[]), lambda op, x: op(x), "got 1 input; expected none. Leave the others out"),
    (lambda: Bad(arguments=[]), lambda op, x: op(data=x), "there is no input 'data'; expected none"),
    *[(lambda names=names: Bad(outputs=names), None, "list_outputs returned .*; expected a list of different names")
      for names in (["a", "a"], "output", [None], None, [])],
    (lambda: Bad(lambda s: s[7]), None, "IndexError: list index out of range"),
    (lambda: Bad(forward=lambda i, o: mx.rtc("a", [], [], "")), None,
     "'module' object is not callable. Write gluonops.legacy.Rtc where mx.rtc is called."),
    (lambda: Bad(forward=lambda i, o: 1 / 0), None, "legacy.Bad: forward raised ZeroDivisionError: division by zero"),
    (lambda: Bad(forward=replace), None, r"another array into out_data\[0\], which is not used. Write into the array"),
    (NumpySoftmax, lambda op, x: op(x), "data is NDArray, label is NoneType; expected NDArrays or Symbols"),
    (NumpySoftmax, lambda op, x: op(x, x, x), "got 3 inputs; expected data, label"),
    (NumpySoftmax, lambda op, x: op(x, data=x), "the input 'data' was passed twice"),
    (NumpySoftmax, lambda op, x: op(x, lable=x), "there is no input 'lable'; expected data, label"),
    (NumpySoftmax, lambda op, x: op(x, mx.sym.var("label")), "data is NDArray, label is Symbol"),
    (lambda: NumpyTile(2), lambda op, x: op(x.asnumpy()), "data is numpy.ndarray; expected NDArrays")])
def test_mistakes(op, call, text):
    instance, x = op(), mx.nd.ones((2, 3))
    with pytest.raises(gops.OpError, match=text):
        (call(instance, x) if call else instance(x)).wait_to_read()


def test_a_class_without_backward():
    class Double(gops.legacy.NumpyOp):
        def forward(self, in_data, out_data):
            out_data[0][:] = 2 * in_data[0]

    assert Double()(mx.nd.array([4])).asscalar() == 8
    with pytest.raises(gops.OpError, match="legacy.Double: it has no backward"):
        recorded(Double(), [mx.nd.array([4])])


class Numbers(gops.legacy.NumpyOp):
    """An operator without inputs."""

    def __init__(self, count):
        super().__init__(need_top_grad=False)
        self.count = count

    def list_arguments(self):
        return []

    def infer_shape(self, in_shape):
        return [], [[self.count, 2]]

    def forward(self, in_data, out_data):
        out_data[0][:] = np.arange(2 * self.count).reshape(self.count, 2)

    def backward(self, out_grad, in_data, out_data, in_grad):
        pass


def test_an_operator_without_inputs():
    """It gives a Symbol, as it did, and works in Module, in a block and in a graph from JSON."""
    numbers = Numbers(3)(name="numbers")
    data = mx.sym.var("data")
    graph = mx.sym.load_json(mx.sym.broadcast_mul(data, numbers).tojson())
    assert graph.infer_shape(data=(3, 2))[1] == [(3, 2)] and graph.infer_type(data="float32")[1] == [np.float32]
    x = mx.nd.array([[1, 2], [3, 4], [5, 6]])
    expected = np.arange(6).reshape(3, 2)
    executor = graph.bind(mx.cpu(), {"data": x}, {"data": mx.nd.zeros((3, 2))})
    np.testing.assert_array_equal(executor.forward(is_train=True)[0].asnumpy(), x.asnumpy() * expected)
    executor.backward(mx.nd.ones((3, 2)))
    np.testing.assert_array_equal(executor.grad_dict["data"].asnumpy(), expected)
    block = gluon.SymbolBlock(graph, data)
    np.testing.assert_array_equal(block(x).asnumpy(), x.asnumpy() * expected)


def test_a_shape_that_is_not_known_yet():
    """The old infer_shape reads sizes that nobody knows: no error."""
    tiled = NumpyTile(2)(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3), name="tile")
    assert tiled.infer_shape_partial()[0] == [(), (), ()]
    assert tiled.infer_shape(data=(5, 4))[1] == [(5, 6)]


def test_the_nodes_attributes():
    node = NumpyTile(2).get_symbol(mx.sym.var("data"), name="tile", attr={"ctx_group": "stage1"})
    assert node.attr_dict()["tile_custom"]["ctx_group"] == "stage1"
    assert node.infer_shape(data=(1, 2))[1] == [(1, 4)]


def test_instances_are_let_go(monkeypatch):
    monkeypatch.setattr(instances, "_alive", weakref.WeakValueDictionary())
    for _ in range(20):
        Layer(NumpyTile(2))(mx.nd.ones((2, 3))).wait_to_read()
        NumpyTile(2)(mx.sym.var("data")).list_outputs()
    gc.collect()
    mx.nd.waitall()
    assert len(instances._alive) <= 2   # MXNet keeps what it ran last


def test_an_export_says_that_the_class_is_needed(tmp_path):
    layer = Layer(NumpyTile(2))
    layer.hybridize()
    with pytest.warns(gops.export.ExportWarning, match="is the operator 'old_tutorials.NumpyTile', which is not from "
                      "gluonops: the file needs that operator wherever it runs, with gluonops.legacy"):
        paths = gops.export.symbol(layer, str(tmp_path / "net"), (2, 3))
    assert gluon.SymbolBlock.imports(paths[0], ["data"])(mx.nd.ones((2, 3))).shape == (2, 6)


@pytest.mark.filterwarnings("ignore::gluonops.export.ExportWarning")
def test_onnx_refuses_it_by_its_class(tmp_path):
    with pytest.raises(gops.OpError, match="is the operator old_tutorials.NumpyTile, which has no converter to ONNX"):
        gops.export.onnx(Layer(NumpyTile(2)), tmp_path / "net.onnx", (2, 3))


def test_warns_once_and_says_what_to_use(monkeypatch):
    monkeypatch.setattr(notice, "_warn", functools.cache(warnings.warn))
    with pytest.warns(DeprecationWarning, match="gluonops.legacy.NumpyOp is for code .* use an operator") as caught:
        NumpyTile(2)
        NumpyTile(3)
        NumpySoftmax()
    assert len(caught) == 1 and caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="legacy.NDArrayOp"):
        NDArraySoftmax()


@pytest.mark.parametrize("name", ["NumpyOp", "NDArrayOp"])
def test_a_class_of_mxnets_own_base_is_told_which_to_derive_from(name, monkeypatch):
    monkeypatch.setattr(notice, "_warn", functools.cache(warnings.warn))
    old = type("Old", (getattr(mx.operator, name),), {})
    with pytest.warns(UserWarning) as caught:
        old()
        old(False)
    ours = [warning for warning in caught if "gluonops" in str(warning.message)]
    assert len(ours) == 1 and ours[0].filename == __file__
    assert f"Derive from gluonops.legacy.{name}, and change nothing else" in str(ours[0].message)
