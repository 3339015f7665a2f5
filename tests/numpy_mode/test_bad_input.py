"""Nets and arrays that belong to no mode, or to the other one: each is one clear line, in exports and in calls."""
import re

import gluonops as gops
import mxnet as mx
import numpy as onp
import pytest
from gluonops import export
from in_turn import in_turn
from mxnet import np, npx
from mxnet.gluon import Block, HybridBlock, nn
from test_numpy_blocks import LOSSES, MODELS, NN
from typed import Typed

SHAPE = (2, 3, 8, 8)


def enter(numpy):
    npx.reset_np()
    if numpy:
        npx.set_np()


@pytest.fixture(autouse=True)
def _legacy_mode_afterwards():
    yield
    npx.reset_np()


class Both(HybridBlock):
    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def hybrid_forward(self, F, x):
        return self.second(self.first(x))


class Plain(Block):
    """It reads a shape, so it can only be recorded."""

    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x):
        return self.second(self.first(x)).reshape((x.shape[0], -1))


def layers(numpy):
    enter(numpy)
    return nn.Conv2D(4, 3, in_channels=3), nn.Dense(2, in_units=144)


def half(kind):
    first, _ = layers(True)
    first.initialize()
    _, second = layers(False)
    second.initialize()
    return kind(first, second)


def made_in_legacy_mode(kind):
    net = kind(*layers(False))
    enter(True)
    net.initialize()
    return net


def made_in_numpy_mode(kind):
    net = kind(*layers(True))
    enter(False)
    net.initialize()
    return net


def whole(kind, numpy):
    net = kind(*layers(numpy))
    net.initialize()
    return net


def not_initialized(kind):
    return kind(*layers(True))


class OfConstants(HybridBlock):
    def hybrid_forward(self, F, x):
        return F.np.ones((2, 3)) * 2


class OfShapes(Block):
    def forward(self, x):
        return x, np.ones((x.shape[1], 3))


def of_constants(kind):
    enter(True)
    return OfConstants() if kind is Both else OfShapes()


# What makes the net, whether its arrays are of mx.np, and what the message says.
NETS = {
    "half in each mode": (half, True, r"is half in each mode: its parameter \w+ is an mx\.np array, and \w+ a legacy"),
    "half, legacy arrays": (half, False, "is half in each mode"),
    "made in legacy mode": (made_in_legacy_mode, True, "is of NumPy mode, and has a layer of Convolution that was "),
    "made in NumPy mode": (made_in_numpy_mode, False, "is of legacy mode, and has a layer of convolution that was "),
    "legacy arrays": (lambda kind: whole(kind, True), False, "is a legacy NDArray, and the parameter .* an array of"),
    "NumPy arrays": (lambda kind: whole(kind, False), True, r"is an array of mx\.np, and the parameter .* a legacy ND"),
    "not initialized": (not_initialized, True, r"the parameter conv\d+_weight of \w+ is not initialized"),
    "of no input": (of_constants, True, "depends on an? |depends on no input"),
}
EXPORTS = {
    "symbol": lambda net, folder, **options: export.symbol(net, folder / "net", **options),
    "onnx": lambda net, folder, **options: export.onnx(net, folder / "net.onnx", **options),
    "torch": lambda net, folder, **options: export.torch(net, folder / "port", **options),
    "picture": lambda net, folder, **options: export.picture(net, folder / "net.svg", **options),
    "quantize": lambda net, folder, data_shape=None, inputs=None: export.quantize(
        net, folder / "net", onp.ones((8, *SHAPE[1:]), "float32"), inputs=inputs),
}


def is_clear(error):
    """One line that says what is wrong and what to do, without what MXNet prints."""
    text = str(error.value)
    return "\n" not in text and "Traceback" not in text and len(text) < 400 and error.value.remedy


@pytest.mark.parametrize("called", ["before", "after"])
@pytest.mark.parametrize("way", ["traced", "recorded", "a plain Block"])
@pytest.mark.parametrize("name", NETS)
def test_exports(name, way, called, tmp_path):
    """In either mode of the process. Nothing is written."""
    make, numpy, words = NETS[name]
    if way == "traced" and "arrays" in name and name != "half, legacy arrays":
        pytest.skip("a shape belongs to no mode")
    net = make(Plain if way == "a plain Block" else Both)
    enter(called == "after")
    inputs = np.ones(SHAPE) if numpy else mx.nd.ones(SHAPE)
    options = {"data_shape": SHAPE} if way == "traced" else {"inputs": inputs}
    mode = npx.is_np_shape(), npx.is_np_array()
    for function in EXPORTS.values():
        with pytest.raises(gops.OpError, match=words) as error:
            function(net, tmp_path, **options)
        assert is_clear(error)
    assert (npx.is_np_shape(), npx.is_np_array()) == mode
    assert list(tmp_path.iterdir()) == []


def save(prefix, graph, parameters):
    graph.save(f"{prefix}-symbol.json")
    mx.nd.save(f"{prefix}-0000.params", {f"arg:{name}": mx.nd.ones(shape) for name, shape in parameters.items()})


FILES = {   # Parameters, and what the message says.
    "a parameter is missing": ({"dense_bias": (2,)}, "has no value for dense_weight; it has dense_bias. Pass the par"),
    "no input": ({"dense_bias": (2,), "dense_weight": (2, 192), "data": (1, 3, 8, 8)},
                 "no output of the file depends on an input: all that its graph reads are parameters. Remove"),
}


@pytest.mark.parametrize("numpy", [False, True], ids=["legacy", "NumPy"])
@pytest.mark.parametrize("name", FILES)
def test_files(name, numpy, tmp_path, monkeypatch, capsys):
    """In Python and by command."""
    parameters, words = FILES[name]
    graph = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="dense")
    graph = (graph.as_np_ndarray() * 2).as_nd_ndarray() if numpy else graph * 2
    save(tmp_path / "net", graph, parameters)
    prefix, shape = str(tmp_path / "net"), "1,3,8,8"
    for call in EXPORTS["onnx"], EXPORTS["torch"], EXPORTS["picture"]:
        with pytest.raises(gops.OpError, match=words) as error:
            call(prefix, tmp_path, data_shape=(1, 3, 8, 8))
        assert is_clear(error)
    gluonops = Typed(monkeypatch, capsys, tmp_path)
    for options in (["--onnx", f"{prefix}.onnx"], ["--torch", f"{prefix}-port"], [f"{prefix}-again"]):
        out, err = gluonops("export", prefix, *options, "--data-shape", shape, fails=1)
        assert words in err and len(err.splitlines()) == 1 and not out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net-0000.params", "net-symbol.json"]


SMALL = [name for name in MODELS if not name.startswith("yolo")]
OURS = {**NN, **LOSSES, **{name: (
    lambda name=name: gops.models.get_model(name, **MODELS[name]),
    (2, 1, 28, 28) if name in ("mlp", "lenet_reorg") else (1, 3, 64, 64)) for name in SMALL}}


def call(name, made, called, numpy, hybridized):
    """Call one of our blocks, which was made and initialized in one mode, in a mode, with arrays of a mode."""
    make, shape, *labels = OURS[name]
    enter(made)
    net = make()
    net.initialize()
    if hybridized:
        net.hybridize()
    enter(called)
    array = np.array if numpy else mx.nd.array
    drawn = onp.random.RandomState(1).rand(*shape)
    outputs = net(array(drawn, dtype="float32"), *(array(label, dtype="float32") for label in labels))
    for output in outputs if isinstance(outputs, (list, tuple)) else [outputs]:
        output.wait_to_read()


# Darknet-19 is made of tiny_yolov2's layers, and has 20 million parameters.
OF_OURS = pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "darknet19"))
                                           for name in OURS])


@in_turn("hybridized", [False, True])
@OF_OURS
def test_a_legacy_array_in_numpy_mode(name, hybridized):
    for made in (False, True):
        with pytest.raises(gops.OpError, match=r"input \d is a legacy array .*Convert it with \.as_np_nd") as error:
            call(name, made, True, False, hybridized)
        assert is_clear(error)


@in_turn("made", [False, True])
@in_turn("hybridized", [False, True])
@OF_OURS
def test_the_mode_of_an_array_or_a_net_is_not_in_force(name, hybridized, made):
    """What one layer can compute all the same, it does. Everything else is one clear line."""
    expected = (r"npx\.set_np\(\) is (not )?in force|is half in each mode|expected NDArrays or Symbols\. Convert it|"
                "that was made in the other one")
    for called, numpy in ((False, True), (not made, not made)):
        try:
            call(name, made, called, numpy, hybridized)
        except gops.OpError as error:
            assert re.search(expected, str(error)) and "\n" not in str(error)


def test_what_is_wrong_is_named():
    with pytest.raises(gops.OpError, match=r"input 0 is an array or symbol of mx\.np, and .* Call npx\.set_np\(\) fi"):
        call("SqueezeExcite", False, False, True, False)
    with pytest.raises(gops.OpError, match=r"its parameter \w+ is an mx\.np array, and npx\.set_np\(\) is not in f"):
        call("tiny_yolov2", True, False, False, True)
    with pytest.raises(gops.OpError, match=r"its parameter \w+ is a legacy array, and npx\.set_np\(\) is in force"):
        call("lenet_reorg", False, True, True, False)


@pytest.mark.parametrize("numpy", [False, True], ids=["legacy", "NumPy"])
@pytest.mark.parametrize("hybridized", [False, True], ids=["imperative", "hybridized"])
@pytest.mark.parametrize("name", ["GroupNorm", "SqueezeExcite", "CenterLoss", "mlp", "tiny_yolov3"])
def test_parameters_that_are_not_initialized(name, hybridized, numpy):
    make, shape, *labels = OURS[name]
    enter(numpy)
    net, array = make(), np.array if numpy else mx.nd.array
    if hybridized:
        net.hybridize()
    with pytest.raises(gops.OpError, match=r"the parameter \w+ of \w+ is not initialized\. Call net\.init") as error:
        net(array(onp.ones(shape, "float32")), *(array(label, dtype="float32") for label in labels))
    assert is_clear(error)


def test_an_error_of_a_users_block_is_left_alone():
    class Failing(HybridBlock):
        def hybrid_forward(self, F, x):
            raise TypeError("of the user")

    class Net(gops.nn.SqueezeExcite):
        def hybrid_forward(self, F, x, **parameters):
            return Failing()(x)

    net = Net(8)
    net.initialize()
    with pytest.raises(TypeError, match="of the user"):
        net(mx.nd.ones((2, 8, 6, 6)))
