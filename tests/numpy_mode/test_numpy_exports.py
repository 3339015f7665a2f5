"""Nets as the book writes them leave NumPy mode: symbol JSON, ONNX and PyTorch, in each mode, from net and files."""
import importlib.util
import json
import re
import runpy
import types

import book_nets
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops import export
from mxnet import gluon, npx
from mxnet.gluon import nn
from mxnet.util import np_shape

MODES = ["numpy", "shapes", "legacy"]


def enter(mode):
    """A mode of the process."""
    npx.reset_np()
    if mode == "numpy":
        npx.set_np()
    elif mode == "shapes":
        npx.set_np(shape=True, array=False)


@pytest.fixture(params=MODES)
def mode(request):
    yield request.param
    npx.reset_np()


@pytest.fixture
def book_net(numpy_mode, request):
    yield book_nets.made(request.param)
    npx.reset_np()


def in_force():
    return npx.is_np_shape(), npx.is_np_array()


def in_onnxruntime(path, inputs):
    session = pytest.importorskip("onnxruntime").InferenceSession(path)
    return session.run(None, dict(zip([one.name for one in session.get_inputs()], inputs)))


def is_close(outputs, expected, tolerance=2e-5):
    assert [(each.shape, each.dtype) for each in outputs] == [(each.shape, each.dtype) for each in expected]
    for one, other in zip(outputs, expected):
        np.testing.assert_allclose(one, other, tolerance, tolerance)


def of_symbol(prefix, shapes, inputs):
    """Return what the files compute, bound with legacy arrays."""
    loaded = mx.sym.load(f"{prefix}-symbol.json")
    arrays = {name.split(":", 1)[1]: value for name, value in mx.nd.load(f"{prefix}-0000.params").items()}
    arrays.update((name, mx.nd.array(value)) for name, value in zip(shapes, inputs))
    names, states = loaded.list_arguments(), loaded.list_auxiliary_states()
    bound = loaded.bind(mx.cpu(), {name: arrays[name] for name in names},
                        aux_states={name: arrays[name] for name in states}, grad_req="null")
    return [each.asnumpy() for each in bound.forward()]


# How files are read in a mode does not depend on the net, beyond its kind: layers, states, and NumPy's own operators.
OF_EACH_KIND = ("lenet", "lstm", "mixed")


@pytest.mark.parametrize("book_net, modes", [
    *((name, MODES if name in OF_EACH_KIND else ["numpy"]) for name in book_nets.NETS),
    *(pytest.param(name, MODES, marks=pytest.mark.slow) for name in book_nets.NETS if name not in OF_EACH_KIND)],
    indirect=["book_net"])
def test_files_and_onnx_in_each_mode(book_net, modes, tmp_path):
    net, inputs, expected, shapes = book_net
    for mode in modes:
        enter(mode)
        before, prefix = in_force(), str(tmp_path / mode)
        export.symbol(net, prefix, shapes)
        export.symbol(net, f"{prefix}-kept", shapes, numpy=True)
        for source, name in ((net, "net"), (prefix, "files"), (f"{prefix}-kept", "kept")):
            path = export.onnx(source, str(tmp_path / f"{mode}-{name}.onnx"), shapes, dynamic_batch=True)
            is_close(in_onnxruntime(path, inputs), expected)
        assert in_force() == before
    assert len({(tmp_path / f"{mode}-symbol.json").read_text() for mode in modes}) == 1


@pytest.mark.parametrize("book_net", [name for name in book_nets.NETS if name not in book_nets.OF_NUMPY], indirect=True)
def test_default_files_are_of_legacy_mode(book_net, tmp_path):
    net, inputs, expected, shapes = book_net
    export.symbol(net, str(tmp_path / "net"), shapes)
    npx.reset_np()
    content = json.loads((tmp_path / "net-symbol.json").read_text())
    assert "is_np_shape" not in content["attrs"]
    assert [node["op"] for node in content["nodes"] if node["op"].startswith(("_np_", "_npi_", "_npx_"))] == []
    is_close(of_symbol(tmp_path / "net", shapes, inputs), expected)


@pytest.mark.parametrize("book_net", book_nets.NETS, indirect=True)
def test_torch_with_gradients(book_net, tmp_path):
    """The export itself compares outputs, gradients and a step with MXNet."""
    pytest.importorskip("torch")
    net, _, _, shapes = book_net
    export.symbol(net, str(tmp_path / "kept"), shapes, numpy=True)
    export.torch(net, tmp_path / "numpy", shapes)
    npx.reset_np()
    export.torch(net, tmp_path / "legacy", shapes)
    export.torch(str(tmp_path / "kept"), tmp_path / "files", shapes)
    sources = {(tmp_path / folder / "net.py").read_text() for folder in ("numpy", "legacy")}
    assert len(sources) == 1
    assert (tmp_path / "files" / "net.py").is_file()


@pytest.mark.parametrize("book_net", ["lenet", pytest.param("resnet", marks=pytest.mark.slow), "mixed"], indirect=True)
def test_files_are_read_in_each_mode(book_net, tmp_path):
    """By MXNet's own loader where it can, by rewrite and by picture."""
    net, inputs, expected, shapes = book_net
    export.symbol(net, str(tmp_path / "kept"), shapes, numpy=True)
    for mode in MODES:
        enter(mode)
        before = in_force()
        export.rewrite(str(tmp_path / "kept"), str(tmp_path / f"{mode}-again"))
        export.picture(str(tmp_path / "kept"), str(tmp_path / f"{mode}.svg"), shapes)
        export.picture(net, str(tmp_path / f"{mode}-net.svg"), shapes)
        with np_shape(True):
            is_close(of_symbol(tmp_path / f"{mode}-again", shapes, inputs), expected)
        assert in_force() == before
    texts = {mode: re.findall(r" d='?\"[^\"]*", (tmp_path / f"{mode}.svg").read_text()) for mode in MODES}
    assert texts["numpy"] == texts["shapes"] == texts["legacy"] != []


@pytest.mark.filterwarnings("ignore::gluonops.export.warning.ExportWarning")   # untrained nets lose much
@pytest.mark.parametrize("book_net", ["lenet", pytest.param("resnet", marks=pytest.mark.slow)], indirect=True)
def test_quantized_in_each_mode(book_net, tmp_path):
    net, _, _, shapes = book_net
    drawing = np.random.RandomState(1)
    export.symbol(net, str(tmp_path / "kept"), shapes, numpy=True)
    data = drawing.uniform(-1, 1, (6, *shapes["data"][1:])).astype("float32")
    for mode in MODES:
        enter(mode)
        before = in_force()
        for source, name in ((net, "net"), (str(tmp_path / "kept"), "files")):
            export.quantize(source, str(tmp_path / f"{mode}-{name}"), data, onnx=str(tmp_path / f"{mode}-{name}.onnx"))
        assert in_force() == before
    assert len({(tmp_path / f"{mode}-net-symbol.json").read_text() for mode in MODES}) == 1


def test_a_legacy_net_is_exported_the_same_in_numpy_mode(tmp_path):
    pytest.importorskip("torch")
    net = nn.HybridSequential(prefix="")
    net.add(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), gops.nn.Mish(), nn.Dense(3))
    net.initialize(mx.init.Xavier())
    data = mx.nd.random.uniform(shape=(2, 3, 8, 8))
    expected = [net(data).asnumpy()]
    sources = []
    for mode in MODES:
        enter(mode)
        prefix = str(tmp_path / mode)
        export.symbol(net, prefix, (2, 3, 8, 8))
        is_close(in_onnxruntime(export.onnx(net, f"{prefix}.onnx", (2, 3, 8, 8)), [data.asnumpy()]), expected)
        is_close(in_onnxruntime(export.onnx(prefix, f"{prefix}-files.onnx"), [data.asnumpy()]), expected)
        if mode != "shapes":
            export.torch(net, tmp_path / f"{mode}-torch", (2, 3, 8, 8))
            sources.append((tmp_path / f"{mode}-torch" / "net.py").read_text())
    npx.reset_np()
    assert len({(tmp_path / f"{mode}-symbol.json").read_text() for mode in MODES}) == len(set(sources)) == 1


@pytest.mark.parametrize("book_net", ["lenet", "resnet"], indirect=True)
def test_module_trains_the_files(book_net, tmp_path):
    net, _, _, shapes = book_net
    export.symbol(net, str(tmp_path / "net"), shapes, head="softmax_output")
    npx.reset_np()
    symbol, arguments, states = mx.model.load_checkpoint(str(tmp_path / "net"), 0)
    module = mx.mod.Module(symbol, label_names=["softmax_label"])
    batches = mx.io.NDArrayIter(np.random.RandomState(1).rand(4, *shapes["data"][1:]).astype("float32"),
                                np.array([0, 1, 2, 3], "float32"), 2, label_name="softmax_label")
    module.fit(batches, num_epoch=1, arg_params=arguments, aux_params=states)
    after, _ = module.get_params()
    assert any(np.abs(after[name].asnumpy() - arguments[name].asnumpy()).max() > 0 for name in arguments)


def test_a_loaded_classifier_runs_in_each_mode(numpy_mode, tmp_path):
    net, _, _, _ = book_nets.made("resnet")
    net.classes = [str(number) for number in range(10)]
    net.preprocessing = {"colours": "RGB", "range": [0, 1], "resize": "stretch"}
    export.symbol(net, str(tmp_path / "net"), book_nets.IMAGES, numpy=True)
    answers = []
    picture = np.random.RandomState(1).randint(0, 255, (20, 30, 3)).astype("uint8")
    for mode in MODES:
        enter(mode)
        answers.append(export.load(str(tmp_path / "net")).classify(picture))
    npx.reset_np()
    assert answers[0] == answers[1] == answers[2]


def dense(channels):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(2, 3, in_channels=channels))
    return net


class OfConstants(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.np.ones((2, 3)) * 2


class WithLegacyOperator(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.relu(x)


def half():
    net, other = dense(3), dense(2)
    net.initialize()
    npx.reset_np()
    other.initialize()
    both = nn.HybridSequential()
    both.add(net, other)
    return both


def made_in_legacy_mode():
    npx.reset_np()
    net = dense(3)
    npx.set_np()
    net.initialize()
    return net


def made_in_numpy_mode():
    net = dense(3)
    npx.reset_np()
    net.initialize()
    return net


WRONG = {
    half: r"is half in each mode: its parameter conv\d+_weight is an mx\.np array, and conv\d+_weight a legacy one",
    made_in_legacy_mode: "is of NumPy mode, and has a layer of Convolution that was made in the other one",
    made_in_numpy_mode: "is of legacy mode, and has a layer of convolution that was made in the other one",
    WithLegacyOperator: "is of NumPy mode, and calls the legacy operator relu",
    OfConstants: r"no output of OfConstants depends on an input \(data\)",
    lambda: dense(3): r"the parameter conv\d+_weight of HybridSequential is not initialized",
}


@pytest.mark.parametrize("make", WRONG, ids=list(WRONG.values()))
def test_nets_that_no_mode_runs(make, numpy_mode, tmp_path):
    net = make()
    for function, name in ((export.symbol, "net"), (export.onnx, "net.onnx")):
        with pytest.raises(gops.OpError, match=WRONG[make]):
            function(net, str(tmp_path / name), (2, 3, 8, 8))
    assert list(tmp_path.iterdir()) == []


class Forgotten(gluon.HybridBlock):
    """MXNet writes other shapes into the inputs of a dstack, and of a concatenation without an axis."""

    def hybrid_forward(self, F, x):
        return F.np.concatenate([x, x], axis=None), F.np.dstack([x, x]), F.np.sort(x, axis=-1)


class Rows(gluon.HybridBlock):
    """Rows of six numbers, of which there are as many as the free sizes of the input make."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4)

    def hybrid_forward(self, F, x):
        return self.dense(F.np.reshape(x, (-1, 6)))


@pytest.mark.parametrize("make", [Forgotten, Rows])
def test_shapes_that_do_not_follow_from_one_axis(make, numpy_mode, tmp_path):
    """The comparison of the export to PyTorch runs other sizes as well."""
    net, x = make(), mx.np.arange(24).reshape(4, 2, 3).astype("float32")
    net.initialize()
    expected = net(x)
    expected = [each.asnumpy() for each in (expected if isinstance(expected, (list, tuple)) else [expected])]
    export.symbol(net, tmp_path / "net", (4, 2, 3))
    is_close(in_onnxruntime(export.onnx(net, str(tmp_path / "net.onnx"), (4, 2, 3)), [x.asnumpy()]), expected)
    pytest.importorskip("torch")
    export.torch(net, tmp_path / "port", (4, 2, 3))


# Operators of an empty batch; see the page for those of which MXNet and the targets make other numbers.
OF_EMPTY = {
    "elements": lambda F, x: (x * 2 + 1, x > 0, F.np.where(x > 0, x, x * 2), F.npx.softmax(x)),
    "a number": lambda F, x: F.np.sum(x),
    "reductions": lambda F, x: (F.np.sum(x, axis=0), F.np.mean(x, axis=(1, 2)), F.np.max(x, axis=1),
                                F.np.argmax(x, axis=1)),
    "shapes": lambda F, x: (F.np.transpose(x, (2, 0, 1)), F.np.roll(x, 1, axis=1), F.np.repeat(x, 2, axis=0), x[:, 1:],
                            F.npx.reshape(x, (-2, -5)), F.np.reshape(x, (-1, 12))),
    "parts": lambda F, x: (F.np.concatenate([x, x], axis=0), F.np.stack([x, x], axis=1), F.np.split(x, 3, axis=1)[1]),
    "products": lambda F, x: (F.np.matmul(x, F.np.swapaxes(x, 1, 2)), F.np.tensordot(x, x, axes=([0], [0]))),
}


class OfEmpty(gluon.HybridBlock):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F, x):
        return self.function(F, x)


def in_torch(folder, *inputs):
    torch = pytest.importorskip("torch")
    found = runpy.run_path(str(folder / "net.py"))["load"]()(*map(torch.from_numpy, inputs))
    return [each.detach().numpy() for each in (found if isinstance(found, (list, tuple)) else [found])]


@pytest.mark.parametrize("name", OF_EMPTY)
def test_an_empty_batch(name, numpy_mode, tmp_path):
    """Shapes, types and numbers of what is computed of no images are NumPy's.

    MXNet's are the same, but a run of them makes later calls of MXNet in the same process fail.
    """
    net, empty = OfEmpty(OF_EMPTY[name]), np.zeros((0, 3, 4), "float32")
    found = [in_onnxruntime(export.onnx(net, str(tmp_path / "net.onnx"), (2, 3, 4)), [empty])]
    if importlib.util.find_spec("torch"):
        export.torch(net, tmp_path / "port", (2, 3, 4))
        found.append(in_torch(tmp_path / "port", empty))
    npx_of_numpy = types.SimpleNamespace(softmax=lambda x: x, reshape=lambda x, codes: x.reshape(0, 12))
    expected = OF_EMPTY[name](types.SimpleNamespace(np=np, npx=npx_of_numpy), empty)
    expected = [np.asarray(each) for each in (expected if isinstance(expected, tuple) else [expected])]
    for each in found:
        is_close(each, expected)


@pytest.mark.parametrize("name", ["mlp", "lenet", "resnet", "densenet", "attention"])
def test_an_empty_batch_of_whole_nets(name, numpy_mode, tmp_path):
    """MXNet has no dense layer and no convolution of it; both targets have."""
    net, (x,), (expected,), shapes = book_nets.made(name)
    empty, shape = x[:0], (0, *expected.shape[1:])
    found, = in_onnxruntime(export.onnx(net, str(tmp_path / "net.onnx"), shapes), [empty])
    assert found.shape == shape
    pytest.importorskip("torch")
    export.torch(net, tmp_path / "port", shapes)
    assert in_torch(tmp_path / "port", empty)[0].shape == shape
