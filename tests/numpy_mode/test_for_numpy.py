"""gops.nn.for_numpy: MXNet's own layers that fail in NumPy mode compute as in legacy mode, and have an exit."""
import gluonops as gops
import mxnet as mx
import numpy as onp
import pytest
from gluonops import OpError
from gluonops.export import ExportedModel
from mxnet import gluon, npx
from mxnet.gluon import contrib, nn, rnn
from mxnet.gluon.model_zoo import vision
from test_numpy_blocks import compare

IMAGES, VIDEO, ROWS = (2, 8, 6, 6), (2, 8, 2, 3, 3), (4, 3)
LABELS = onp.array([[1, -1, 1], [-1, 1, 1], [1, 1, -1], [1, -1, -1]])


def concurrent():
    net = contrib.nn.HybridConcurrent(axis=1)
    with net.name_scope():
        net.add(nn.Conv2D(3, 1), contrib.nn.Identity(), nn.MaxPool2D(3, 1, 1))
    return net


def dense_net():
    return vision.DenseNet(16, 16, [2, 1], classes=3)


def squeeze_net():
    """Without dropout: the modes draw other random numbers for parameters, and so other masks behind them."""
    net = vision.squeezenet1_1(classes=3)
    net.apply(lambda block: isinstance(block, nn.Dropout) and setattr(block, "_rate", 0))
    return net


class Cells(gluon.HybridBlock):
    """A cell step by step, and unrolled over a sequence, from states of its own."""

    def __init__(self, kind, **options):
        super().__init__()
        with self.name_scope():
            self.cell = kind(5, **options)

    def hybrid_forward(self, F, x, *states):
        out, states = self.cell(x, list(states))
        more, last = self.cell.unroll(2, [x, x], states)
        return out, more[1], last[0]


class Modified(gluon.HybridBlock):
    """A cell that modifies another one, step by step."""

    def __init__(self, kind, **options):
        super().__init__()
        with self.name_scope():
            self.cell = kind(rnn.GRUCell(3), **options)

    def hybrid_forward(self, F, x, *states):
        self.cell.reset()
        out, states = self.cell(x, list(states))
        more, states = self.cell(out, states)
        return more, states[0]


class Unrolled(gluon.HybridBlock):
    def __init__(self, kind):
        super().__init__()
        with self.name_scope():
            self.cell = kind(5)

    def hybrid_forward(self, F, x):
        return self.cell.unroll(3, x, layout="NTC", merge_outputs=True)[0]


class Sequence(gluon.HybridBlock):
    """A recurrent layer without states."""

    def __init__(self, kind, **options):
        super().__init__()
        with self.name_scope():
            self.layer = kind(5, layout="NTC", **options)

    def hybrid_forward(self, F, x):
        return self.layer(x)


LAYERS = {
    "GroupNorm": (lambda: nn.GroupNorm(4), IMAGES), "InstanceNorm": (lambda: nn.InstanceNorm(scale=True), IMAGES),
    "InstanceNorm, axis": (lambda: nn.InstanceNorm(axis=2), IMAGES),
    "ReflectionPad2D": (lambda: nn.ReflectionPad2D(2), IMAGES), "HybridConcurrent": (concurrent, IMAGES),
    "PixelShuffle1D": (lambda: contrib.nn.PixelShuffle1D(2), (2, 8, 6)),
    "PixelShuffle2D": (lambda: contrib.nn.PixelShuffle2D(2), IMAGES),
    "PixelShuffle3D": (lambda: contrib.nn.PixelShuffle3D(2), VIDEO),
    "LSTMCell": (lambda: Cells(rnn.LSTMCell), ROWS, onp.ones((4, 5)), onp.ones((4, 5)) / 2),
    "GRUCell": (lambda: Cells(rnn.GRUCell), ROWS, onp.ones((4, 5))),
    "RNNCell": (lambda: Cells(rnn.RNNCell, activation="relu"), ROWS, onp.ones((4, 5))),
    "ResidualCell": (lambda: Modified(rnn.ResidualCell), ROWS, onp.ones((4, 3))),
    "ZoneoutCell": (lambda: Modified(rnn.ZoneoutCell, zoneout_outputs=0.3, zoneout_states=0.2), ROWS,
                    onp.ones((4, 3))),
    "LSTMCell, unrolled": (lambda: Unrolled(rnn.LSTMCell), (2, 3, 4)),
    "GRUCell, unrolled": (lambda: Unrolled(rnn.GRUCell), (2, 3, 4)),
    "LSTM": (lambda: Sequence(rnn.LSTM, num_layers=2), (2, 3, 4)),
    "GRU": (lambda: Sequence(rnn.GRU, bidirectional=True), (2, 3, 4)), "RNN": (lambda: Sequence(rnn.RNN), (2, 3, 4)),
    **{name: (getattr(gluon.loss, name), ROWS, LABELS) for name in (
        "HuberLoss", "HingeLoss", "SquaredHingeLoss", "LogisticLoss", "PoissonNLLLoss", "KLDivLoss")},
    "TripletLoss": (gluon.loss.TripletLoss, ROWS, LABELS, LABELS[::-1]),
    "CosineEmbeddingLoss": (gluon.loss.CosineEmbeddingLoss, ROWS, LABELS, LABELS[:, 0]),
    "SDMLLoss": (gluon.loss.SDMLLoss, ROWS, LABELS),
    "CTCLoss": (gluon.loss.CTCLoss, (2, 6, 5), onp.array([[1, 2], [3, 0]])),
    "SyncBatchNorm": (lambda: contrib.nn.SyncBatchNorm(num_devices=1, prefix="of_this_test_"), IMAGES),
    "squeezenet": (squeeze_net, (1, 3, 224, 224)),
    "mobilenet_v2": (lambda: vision.mobilenet_v2_0_25(classes=3), (1, 3, 32, 32)),
    "densenet": (dense_net, (1, 3, 224, 224)),
}


def inputs_of(shape, others, rng):
    return [rng.uniform(0.1, 1, shape).astype("float32"), *(other.astype("float32") for other in others)]


# The layers above in another order. test_onnx has a net every day, in NumPy mode.
NETS = ("squeezenet", "mobilenet_v2", "densenet")


@pytest.mark.parametrize("name, hybridized", [
    pytest.param(name, hybridized, marks=[pytest.mark.slow] * (name in NETS))
    for name in LAYERS for hybridized in (False, True)
    if name != "ZoneoutCell"   # Its masks follow those numbers that a mode has drawn for parameters.
    and (name != "SDMLLoss" or not hybridized)])   # It reads a shape, and no mode takes it hybridized.
def test_the_same_as_in_legacy_mode(name, hybridized, rng):
    """Outputs and gradients to the bit."""
    make, shape, *others = LAYERS[name]
    compare(lambda: gops.nn.for_numpy(make()), inputs_of(shape, others, rng), hybridized)


def test_a_zoneout_cell_keeps_some_numbers(numpy_mode):
    """Of the step before, and of the old states, while it trains; each other number is that of the cell inside."""
    inner = rnn.GRUCell(3)
    cell = gops.nn.for_numpy(rnn.ZoneoutCell(inner, zoneout_outputs=0.5, zoneout_states=0.5))
    cell.initialize(mx.init.Normal(0.3))
    x, state = mx.np.ones((40, 2)), mx.np.ones((40, 3))
    new, _ = inner(x, [state])
    with mx.autograd.train_mode():
        out, (after,) = cell(x, [state])
    assert type(out) is type(after) is mx.np.ndarray
    for found, old in ((out, 0), (after, 1)):
        is_kept = found.asnumpy() == old
        assert 30 < is_kept.sum() < 90
        onp.testing.assert_array_equal(found.asnumpy()[~is_kept], new.asnumpy()[~is_kept])


def prepared(name, rng):
    make, shape, *others = LAYERS[name]
    net = gops.nn.for_numpy(make())
    net.initialize(mx.init.Normal(0.3))
    inputs = [mx.np.array(each, dtype="float32") for each in inputs_of(shape, others, rng)]
    outputs = net(*inputs)
    shapes = {name: each.shape for name, each in zip(("data", "state0", "state1"), inputs)}
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    return net, shapes, [each.asnumpy() for each in inputs], [each.asnumpy() for each in outputs]


EXPORTED = ["GroupNorm", "InstanceNorm", "InstanceNorm, axis", "ReflectionPad2D", "HybridConcurrent", "PixelShuffle2D",
            "LSTMCell", "ResidualCell", "ZoneoutCell", "LSTMCell, unrolled", "GRUCell, unrolled", "LSTM", "GRU",
            "mobilenet_v2"]


@pytest.mark.parametrize("name", EXPORTED)
def test_onnx(name, numpy_mode, rng, tmp_path):
    """The file computes the same, for another batch too."""
    ort = pytest.importorskip("onnxruntime")
    net, shapes, inputs, expected = prepared(name, rng)
    gops.export.onnx(net, tmp_path / "net.onnx", shapes)
    session = ort.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    for rows in (1, 2):
        twice = [onp.concatenate([each] * rows) for each in inputs]
        for one, other in zip(session.run(None, dict(zip(names, twice))), expected):
            onp.testing.assert_allclose(one, onp.concatenate([other] * rows), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", [name for name in EXPORTED if name not in ("mobilenet_v2", "GRU")])
def test_torch(name, numpy_mode, rng, tmp_path):
    """The export compares outputs and gradients with MXNet's before it writes a file."""
    pytest.importorskip("torch")
    net, shapes, _, _ = prepared(name, rng)
    gops.export.torch(net, tmp_path / "port", shapes)


def run_files(prefix, x, numpy):
    """What MXNet makes of exported files, in the mode that they need."""
    with mx.util.np_shape(numpy):
        symbol, arguments, states = mx.model.load_checkpoint(str(prefix), 0)
        executor = symbol.simple_bind(mx.cpu(), data=x.shape, grad_req="null")
        executor.copy_params_from(arguments, states)
        return executor.forward(data=mx.nd.array(x))[0].asnumpy()


@pytest.mark.parametrize("numpy", [False, True], ids=["legacy names", "numpy names"])
@pytest.mark.parametrize("name", ["LSTM", "LSTMCell, unrolled", "InstanceNorm"])
def test_symbol(name, numpy, numpy_mode, rng, tmp_path):
    """MXNet runs the file for another batch too. It is read again."""
    net, shapes, (x,), (expected,) = prepared(name, rng)
    gops.export.symbol(net, tmp_path / "net", shapes, numpy=numpy)
    assert ExportedModel.from_files(tmp_path / "net").graph.is_numpy == numpy
    npx.reset_np()
    found = run_files(tmp_path / "net", onp.concatenate([x, x]), numpy)
    onp.testing.assert_allclose(found, onp.concatenate([expected] * 2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("numpy", [False, True], ids=["legacy names", "numpy names"])
def test_an_lstm_without_states_that_nobody_has_prepared(numpy, numpy_mode, rng, tmp_path):
    """MXNet's own trace has a size of 0 in the states, which MXNet does not run. An export can tell what it means."""
    make, shape = LAYERS["LSTM"]
    net = make()
    net.initialize(mx.init.Normal(0.3))
    x = rng.uniform(-1, 1, shape).astype("float32")
    expected = net(mx.np.array(x)).asnumpy()
    gops.export.symbol(net, tmp_path / "net", shape, numpy=numpy)
    npx.reset_np()
    onp.testing.assert_allclose(run_files(tmp_path / "net", x, numpy), expected, rtol=1e-5, atol=1e-6)


def test_what_is_no_block():
    with pytest.raises(OpError, match="net is int; expected a Block"):
        gops.nn.for_numpy(3)
