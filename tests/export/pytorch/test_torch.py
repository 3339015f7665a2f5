"""gops.export.torch: what it writes computes and trains as MXNet does, reads well, and needs torch only."""
import ast
import json
import pathlib
import runpy
import subprocess
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.commands import cli
from gluonops.export.torch.converters import CONVERTERS
from mxnet import gluon
from mxnet.gluon import nn

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.numpy")
torch.set_num_threads(1)
sys.path.append(str(pathlib.Path(__file__).parent))
import scripted  # noqa: E402
import steps  # noqa: E402


class Residual(nn.HybridBlock):
    """A block with or without a projection of its shortcut."""

    def __init__(self, channels, projects):
        super().__init__()
        with self.name_scope():
            self.body = nn.HybridSequential(prefix="")
            self.body.add(nn.Conv2D(channels, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
                          nn.Conv2D(channels, 3, padding=1, use_bias=False), nn.BatchNorm(scale=False))
            self.shortcut = None
            if projects:
                self.shortcut = nn.HybridSequential(prefix="shortcut_")
                self.shortcut.add(nn.Conv2D(channels, 1, use_bias=False), nn.BatchNorm())

    def hybrid_forward(self, F, x):
        shortcut = x if self.shortcut is None else self.shortcut(x)
        return F.relu(self.body(x) + shortcut)


class Functions(nn.HybridBlock):
    """Operators without parameters, with shapes that depend on the batch and on the image."""

    def hybrid_forward(self, F, x):
        left, right = F.split(x, 2, axis=1)
        rows = F.reshape(F.transpose(left, (0, 2, 3, 1)), (0, -3, -1))
        weights = F.softmax(F.batch_dot(rows, rows, transpose_b=True), axis=-1)
        attended = F.reshape_like(F.transpose(F.batch_dot(weights, rows), (0, 2, 1)), left)
        scale = F.mean(right, axis=(2, 3), keepdims=True)
        scaled = F.broadcast_mul(attended, F.clip(scale + 1.5, 0, 6)) - F.slice_axis(x, 1, 0, 2)
        pooled = F.max(F.pad(scaled, "constant", (0, 0, 0, 0, 1, 2, 0, 1)), axis=(2, 3))
        return F.concat(pooled, F.expand_dims(F.sum(F.BlockGrad(scaled) * right, axis=(1, 2, 3)), 1), dim=1)


class Twice(nn.HybridBlock):
    """A row of layers that is used twice, with one set of parameters."""

    def __init__(self):
        super().__init__()
        self.rows = nn.HybridSequential()
        for _ in range(3):
            self.rows.add(nn.Conv2D(4, 3, padding=1, in_channels=4), nn.BatchNorm(use_global_stats=True),
                          nn.Activation("relu"))

    def hybrid_forward(self, F, x):
        return self.rows(F.sin(self.rows(x)))


class Tied(nn.HybridBlock):
    """Layers of different kinds with one weight: convolutions of two dilations, and a deconvolution."""

    def __init__(self):
        super().__init__()
        self.near = nn.Conv2D(4, 3, padding=1, in_channels=4)
        self.far = nn.Conv2D(4, 3, padding=2, dilation=2, in_channels=4, params=self.near.params)
        self.back = nn.Conv2DTranspose(4, 3, 2, 1, 1, in_channels=4, params=self.near.params)

    def hybrid_forward(self, F, x):
        return self.back(self.near(x) + F.sin(self.far(x)))


class Returned(nn.HybridBlock):
    """Returns its input, its parameter and a constant beside what it computes of them."""

    def __init__(self):
        super().__init__()
        self.scale = self.params.get("scale", shape=(1, 4, 1, 1))

    def hybrid_forward(self, F, x, scale):
        return x, F.broadcast_mul(x, scale), scale, F.arange(3)


class Gauss(nn.HybridBlock):
    def __init__(self):
        super().__init__()
        self.width = self.params.get("width", shape=(1, 4, 1, 1), init=mx.init.Constant(0.7))

    def hybrid_forward(self, F, x, width):
        return F.exp(-F.broadcast_mul(width, F.square(x)))


class Resize(nn.HybridBlock):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def hybrid_forward(self, F, x):
        return F.contrib.BilinearResize2D(x, **self.options)


def sequence(*layers):
    net = nn.HybridSequential()
    net.add(*layers)
    return net


def residual():
    blocks = [Residual(4, False), Residual(8, True), Residual(8, False), Residual(8, False)]
    return sequence(nn.Conv2D(4, 3, 2, 1), *blocks, nn.GlobalAvgPool2D(), nn.Dense(5))


NETS = {
    "residual": residual,
    "functions": Functions,
    "parameter": lambda: sequence(nn.Conv2D(4, 3), Gauss(), nn.Dense(2)),
    "twice": Twice,
    "tied": Tied,
    "returned": Returned,
    "fixed_size": lambda: sequence(nn.Conv2D(3, 3, activation="relu"), nn.Dense(4, activation="tanh"), nn.Dropout(0.5)),
    "dense_norms": lambda: sequence(nn.Dense(8), nn.BatchNorm(), nn.Activation("relu"), nn.Dense(4), nn.BatchNorm()),
    "poolings": lambda: sequence(nn.MaxPool2D(3, 2, ceil_mode=True), nn.AvgPool2D(3, 2, 1, count_include_pad=False),
                                 nn.AvgPool2D(2, 2, ceil_mode=True), nn.GlobalMaxPool2D()),
    "norms": lambda: sequence(nn.InstanceNorm(), gops.nn.GroupNorm(2), nn.LayerNorm(), nn.BatchNorm(momentum=0.8),
                              gops.nn.GroupNorm(2, epsilon=0.1),
                              nn.BatchNorm(use_global_stats=True), gops.nn.L2Normalize(), gops.nn.RMSNorm(axis=1),
                              gluon.contrib.nn.SyncBatchNorm()),
    "norms_of_axes": lambda: sequence(nn.BatchNorm(axis=-1), nn.Conv2D(4, 3), nn.BatchNorm(axis=2, scale=False),
                                      nn.GroupNorm(2), nn.LayerNorm(axis=1)),
    "norms_of_rows": lambda: sequence(nn.InstanceNorm(axis=2), nn.Conv2D(4, 3)),
    "activations": lambda: sequence(nn.LeakyReLU(0.1), nn.PReLU(), nn.ELU(0.7), nn.SELU(), nn.GELU(), nn.Swish(),
                                    gops.nn.Mish(), gops.nn.HardSwish(), gops.nn.GELU("tanh"), gops.nn.GELU("erf"),
                                    gops.nn.SwiGLU(axis=1)),
    "deconvolutions": lambda: sequence(nn.Conv2DTranspose(6, 3, 2, 1, 1),
                                       nn.Conv2DTranspose(4, 2, 2, groups=2, in_channels=6)),
    "reorg": lambda: sequence(*[gops.nn.Reorg(2, mode, reverse) for reverse in (False, True)
                                for mode in ("darknet", "DCR", "CRD")]),
    "resizing": lambda: sequence(*[Resize(**options) for options in (
        {"height": 5, "width": 11}, {"height": 12, "width": 7, "align_corners": False},
        {"scale_height": 2, "scale_width": 3}, {"scale_height": 3, "scale_width": 1, "align_corners": False})]),
    "dropout_of_channels": lambda: sequence(nn.Conv2D(4, 1), nn.Dropout(0.5, axes=(2, 3))),
}


class Cell(nn.HybridBlock):
    """A recurrent cell, step by step."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def hybrid_forward(self, F, x):
        return self.cell.unroll(6, x, layout="TNC", merge_outputs=True)[0]


RECURRENT = {
    "lstm": lambda: gluon.rnn.LSTM(5, num_layers=2, bidirectional=True, layout="NTC", dropout=0.3),
    "gru": lambda: gluon.rnn.GRU(4),
    "rnn": lambda: gluon.rnn.RNN(4, activation="tanh"),
    "rnn_relu": lambda: gluon.rnn.RNN(4, num_layers=2, bidirectional=True),
}


def export(net, folder, shape=(2, 4, 8, 8)):
    mx.random.seed(3)
    net.initialize(mx.init.Normal(0.3))
    paths = gops.export.torch(net, folder, shape)
    steps.check(net, shape)
    source = (pathlib.Path(folder) / "net.py").read_text()
    assert {path.rsplit("/", 1)[1] for path in paths} >= {"net.py", "net.safetensors", "names.json", "test_net.py"}
    assert max(map(len, source.splitlines())) <= 100
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import)]
    assert {name.name for node in nodes for name in node.names} <= {"json", "torch", "torch.nn.functional"}
    return source


@pytest.mark.parametrize("name", NETS)
def test_nets(name, tmp_path):
    """The export compares outputs, gradients and training itself, and writes nothing that differs."""
    export(NETS[name](), tmp_path)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_nets_of_other_types(dtype, tmp_path):
    net = sequence(nn.Conv2D(4, 3), nn.BatchNorm(), nn.Dense(2))
    net.cast(dtype)
    export(net, tmp_path)
    weights = safetensors.load_file(tmp_path / "net.safetensors")
    assert weights["conv.weight"].dtype == dtype


def test_a_net_that_takes_no_negative_numbers(tmp_path):
    export(sequence(nn.HybridLambda(lambda F, x: F.log(x) * F.arccos(x)), nn.Dense(2)), tmp_path)


def test_inputs_that_are_not_read(tmp_path):
    class First(nn.HybridBlock):
        def hybrid_forward(self, F, x, y):
            return F.sin(x)

    net = First()
    net.initialize()
    for training in (False, True):
        gops.export.torch(net, tmp_path, {"x": (2, 3), "y": (2, 3)}, training=training)
        assert "forward(self, x):" in (tmp_path / "net.py").read_text()


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(name, tmp_path):
    assert "[0]" in export(sequence(RECURRENT[name](), nn.Dense(2)), tmp_path, (4, 6, 3))


def test_the_source_has_classes_and_loops(tmp_path):
    source = export(residual(), tmp_path)
    assert source.count("class Residual(") == 1 and "shortcut=True" in source
    assert "F.relu(self.body(x) + self.shortcut(x))" in source
    assert len(source.splitlines()) < 110
    long = sequence(nn.Dense(8, in_units=8), *[Residual(8, False) for _ in range(5)], nn.Dense(2))
    assert "*(Residual() for _ in range(5))" in export(sequence(*long[1:]), tmp_path, (2, 8, 4, 4))


def test_parts_of_all_images_joined_along_the_batch(tmp_path):
    """With one image, the sizes do not tell that the parts are the first axis, whatever the batch is."""
    class Joined(nn.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.reshape(F.concat(x, 2 * x, dim=0), (2, -1))

    assert ".reshape(2, -1)" in export(Joined(), tmp_path, (1, 3))


def test_rows_of_different_length_have_no_placeholders(tmp_path):
    long, short = [sequence(*[nn.Dense(8, in_units=8) for _ in range(count)]) for count in (3, 2)]
    assert "Identity" not in export(sequence(long, nn.Activation("relu"), short), tmp_path, (2, 8))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_states_as_outputs(kind, tmp_path):
    class Continued(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.layer = getattr(gluon.rnn, kind)(3)

        def hybrid_forward(self, F, x):
            return self.layer(x, self.layer.begin_state(0, F.zeros))

    export(Continued(), tmp_path, (6, 4, 5))
    scripted.check(tmp_path, torch.rand(7, 3, 5))


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_recurrent_cells(kind, tmp_path):
    source = export(Cell(getattr(gluon.rnn, kind)(5)), tmp_path, (6, 4, 3))
    assert ".new_zeros(" in source and source.count(f"class {kind}(") == 1 and source.count("self.cell(") == 6


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_gradients_that_need_more_memory_than_there_is(tmp_path, monkeypatch):
    from gluonops.export.torch import verify
    monkeypatch.setattr(verify, "available_memory", lambda: 10 ** 6)
    with pytest.warns(gops.export.ExportWarning, match="only the outputs in evaluation mode were compared"):
        export(sequence(nn.Dense(1000)), tmp_path, (2, 100))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_batch_norm_of_one_number_per_channel(tmp_path):
    """torch refuses it in training mode; the net takes one image only."""
    net = sequence(nn.HybridLambda(lambda F, x: F.reshape(x, (1, -1))), nn.Dense(4), nn.BatchNorm())
    with pytest.warns(gops.export.ExportWarning, match="only evaluation mode was compared"):
        export(net, tmp_path, (1, 2, 3))
    names = safetensors.load_file(tmp_path / "test_net.safetensors")
    assert any(name.startswith("evaluation.gradient.") for name in names)
    assert not any(name.startswith("training.") for name in names)


@pytest.mark.parametrize("function, growth", [(lambda x: 3 * x, 1), (lambda x: torch.sin(1e4 * x), 3),
                                              (lambda x: torch.sin(1e12 * x), 10)])
def test_tolerances_grow_where_rounding_errors_do(function, growth):
    x = torch.rand(100, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = steps._growth(function, [x], [function(x)])
    assert growth / 5 <= found <= growth * 5 and 1 <= found <= steps.MOST_GROWTH


def test_poolings_of_clips_may_have_larger_windows_than_the_data(tmp_path):
    """torch takes none in three dimensions, in spite of the padding."""
    net = sequence(nn.Conv3D(4, 3, strides=8), nn.AvgPool3D(3, strides=1, padding=(1, 0, 1)), nn.Dense(2))
    export(net, tmp_path, (1, 3, 16, 24, 16))


class Lengths(nn.HybridBlock):
    def hybrid_forward(self, F, x, lengths):
        masked = F.SequenceMask(F.SequenceReverse(x, lengths, True), lengths, True)
        return masked, F.SequenceLast(x, lengths, True)


def test_lengths_as_input(tmp_path):
    """MXNet reads beyond its data for a length of 0."""
    export(Lengths(), tmp_path, {"x": (6, 2, 3), "lengths": (2,)})


def test_dropout_of_the_same_units_in_every_step(tmp_path):
    cell = gluon.contrib.rnn.VariationalDropoutCell(gluon.rnn.LSTMCell(5), 0.1, 0.2, 0.3)
    assert export(Cell(cell), tmp_path, (6, 4, 3)).count("nn.Dropout(") == 3


@pytest.mark.parametrize("mode, module", [("lstm", "LSTM"), ("gru", "GRU"), ("rnn_relu", "RNN")])
def test_one_vector_of_the_parameters_of_all_layers(mode, module, tmp_path):
    """Module's FusedRNNCell has one."""
    data = mx.sym.var("data")
    cell = mx.rnn.FusedRNNCell(5, 2, mode=mode, bidirectional=True, dropout=0.2, prefix="cell_")
    output, _ = cell.unroll(6, data, layout="NTC", merge_outputs=True)
    assert f"nn.{module}(3, 5, num_layers=2" in export(gluon.SymbolBlock(output, data), tmp_path, (4, 6, 3))
    names = json.loads((tmp_path / "names.json").read_text())
    assert len(names) == 16 and "cell_parameters_r1_h2h_bias" in names.values()


@pytest.mark.parametrize("first, count, options, what", [
    ("h", 280, {"projection_size": 3}, "has packed parameters or a projection"),
    ("h", 304, {"lstm_state_clip_min": -1, "lstm_state_clip_max": 1}, "clips its states"),
    ("ones", 304, {}, "has a batch that does not follow from data")])
def test_recurrent_layers_that_are_refused(first, count, options, what, tmp_path):
    shapes = {"data": (5, 2, 3), "h": (2, 2, options.get("projection_size", 4)), "c": (2, 2, 4)}
    state = mx.sym.ones((2, 0, 4)) if first == "ones" else mx.sym.var(first)
    layer = mx.sym.RNN(mx.sym.var("data"), mx.sym.var("all"), state, mx.sym.var("c"), state_size=4, num_layers=2,
                       mode="lstm", **options)
    layer.save(str(tmp_path / "net-symbol.json"))
    mx.nd.save(str(tmp_path / "net-0000.params"), {"all": mx.nd.random.normal(shape=(count,))})
    with pytest.raises(gops.OpError, match=what):
        gops.export.torch(tmp_path / "net", tmp_path, {name: shape for name, shape in shapes.items()
                                                       if name in layer.list_arguments()})


class Names(nn.HybridBlock):
    """Layers and inputs that have the names of attributes of every module, and of words of the language."""

    def __init__(self):
        super().__init__()
        self.type = nn.Dense(3)
        setattr(self, "class", nn.Dense(3))
        self.forward_ = nn.Dense(3)

    def hybrid_forward(self, F, x, y):
        return self.forward_(self.type(x) + getattr(self, "class")(y))


def test_names_that_torch_or_the_language_has(tmp_path):
    source = export(Names(), tmp_path, {"in": (2, 3), "2": (2, 3)})
    assert "def forward(self, x_in, x_2):" in source
    assert "self.type_ = nn.Linear(" in source and "self.class_ = nn.Linear(" in source
    assert "def forward(self, a_b, a_b_):" in export(Names(), tmp_path, {"a.b": (2, 3), "a_b": (2, 3)})


def test_names_of_functions_and_of_the_net_itself(tmp_path):
    class Named(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.space_to_depth = nn.Conv2D(4, 1)
            self.self = nn.Conv2D(4, 1)

        def hybrid_forward(self, F, x, y):
            x, y = self.space_to_depth(x), self.self(y)
            return F.space_to_depth(x, 2), F.sin(x), F.space_to_depth(y, 2), y

    export(Named(), tmp_path, {"x": (2, 4, 8, 8), "depth_to_space": (2, 4, 8, 8)})


def test_names_that_every_module_has():
    """A later torch may have further ones."""
    from gluonops.export.torch.classes import ATTRIBUTES
    assert {name for name in dir(torch.nn.Module()) if not name.startswith("_")} <= set(ATTRIBUTES)


def test_names_that_the_source_imports(tmp_path):
    class Path(Gauss):
        def hybrid_forward(self, F, x, width):
            return super().hybrid_forward(F, x, width) + x

    class Twice(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.torch, self.path = nn.Conv2D(4, 3, in_channels=4), Path()

        def hybrid_forward(self, F, x, y):
            x = self.torch(x)
            return F.broadcast_add(self.path(F.sin(x) * x), F.mean(y))

    source = export(Twice(), tmp_path, {"F": (2, 4, 8, 8), "nn": (2, 3)})
    assert "class Path2(" in source and "torch_ = self.torch_(x_F)" in source and "x_nn.mean()" in source


def test_inputs_whose_names_become_one(tmp_path):
    class Sum(nn.HybridBlock):
        def hybrid_forward(self, F, *inputs):
            return F.add_n(*inputs)

    assert "def forward(self, a_b, a_b_):" in export(Sum(), tmp_path, {"a-b": (2, 3), "a.b": (2, 3)})


def test_a_name_that_begins_with_a_number_names_no_class(tmp_path):
    x = mx.sym.var("data")
    for number in range(3):
        x = mx.sym.relu(mx.sym.FullyConnected(x, num_hidden=4, name=f"1x1_{number}_fc"), name=f"1x1_{number}_relu") + x
    net = gluon.SymbolBlock(x, mx.sym.var("data"))
    assert "class Block(" in export(net, tmp_path, (2, 4))


def test_a_layer_with_the_name_of_its_parameter(tmp_path):
    x, bias = mx.sym.var("data"), mx.sym.var("fc")
    for name in ("fc", "last"):
        x = mx.sym.FullyConnected(x, bias=bias, num_hidden=4, name=name)
    assert "= nn.Linear(4, 4)" in export(gluon.SymbolBlock(x, mx.sym.var("data")), tmp_path, (2, 4))


def test_a_parameter_of_a_layer_that_the_net_reads_as_well(tmp_path):
    class Scaled(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.gamma, self.beta = self.params.get("gamma", shape=(3,)), self.params.get("beta", shape=(3,))

        def hybrid_forward(self, F, x, gamma, beta):
            return F.broadcast_mul(F.LayerNorm(x, gamma, beta), gamma)

    assert "self.gamma = self.norm.weight" in export(Scaled(), tmp_path, (2, 3))


def test_indices_as_input_of_a_net(tmp_path):
    layers = sequence(nn.Embedding(50, 6), gluon.rnn.LSTM(6, 2, layout="NTC"), nn.Dense(50, flatten=False))
    assert "nn.LSTM(6, 6, num_layers=2)" in export(layers, tmp_path, (2, 7))


def test_an_embedding_with_sparse_gradients(tmp_path):
    assert "nn.Embedding(50, 6)" in export(sequence(nn.Embedding(50, 6, sparse_grad=True)), tmp_path, (2, 7))


def test_lengths_of_a_softmax(tmp_path):
    """MXNet reads beyond its data for other lengths."""
    class Weights(nn.HybridBlock):
        def hybrid_forward(self, F, scores, length):
            lengths = F.broadcast_axis(F.expand_dims(length, 1), axis=1, size=6)
            return F.softmax(scores, F.cast(lengths, "int32"), use_length=True)

    from gluonops.export.torch.verify import load
    export(Weights(), tmp_path, {"scores": (2, 6, 4), "length": (2,)})
    weights = load(tmp_path).load()(torch.ones(3, 6, 4), torch.tensor([0, 1, 4]))
    torch.testing.assert_close(weights[:, 0], torch.tensor([[0, 0, 0, 0], [1, 0, 0, 0], [0.25] * 4]))


class Siamese(nn.HybridBlock):
    """A block with a block inside, called twice; the second call has a result that the first one has not."""

    def __init__(self):
        super().__init__()
        self.body, self.head = sequence(Residual(4, True), Residual(4, False)), nn.Dense(3)

    def hybrid_forward(self, F, left, right):
        return self.head(self.body(left)) - self.head(self.body(right)), F.sum(self.body(right), axis=1)


def test_a_block_that_is_called_twice(tmp_path):
    source = export(Siamese(), tmp_path, {"left": (2, 4, 8, 8), "right": (2, 4, 8, 8)})
    assert "self.body(left)" in source and source.count("self.body(right)") == 2 and "self.body = nn.Seq" in source


def test_the_trace_leaves_no_marks_in_the_net(tmp_path):
    data = mx.sym.var("data")
    body = gluon.SymbolBlock(mx.sym.relu(mx.sym.FullyConnected(data, num_hidden=4, name="fc")), data)
    net = sequence(body, nn.Dense(3))
    export(net, tmp_path, (2, 5))
    assert "__call__" not in net(data).tojson() and not body._forward_hooks and not body._forward_pre_hooks


class TiedEmbedding(nn.HybridBlock):
    """A weight that is an embedding's, of two dense layers, and is read by the net itself."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.embedding = nn.Embedding(20, 6)
            self.decoder = nn.Dense(20, flatten=False, params=self.embedding.params)
            self.again = nn.Dense(20, flatten=False, use_bias=False, params=self.embedding.params)
            self.weight = self.embedding.params.get("weight")

    def hybrid_forward(self, F, x, weight):
        x = F.tanh(self.embedding(x))
        return F.broadcast_mul(self.decoder(x) + self.again(x), F.mean(weight, axis=1))


def test_tied_weights(tmp_path):
    source = export(TiedEmbedding(), tmp_path, (2, 5))
    assert "self.decoder.weight = self.embedding.weight" in source
    assert "self.again.weight = self.embedding.weight" in source
    assert "self.weight = self.embedding.weight" in source


class Masked(nn.HybridBlock):
    """Its argument that is read first is the second one. Codes of a reshape count from the back."""

    def __init__(self):
        super().__init__()
        self.values = nn.Dense(8, flatten=False)

    def hybrid_forward(self, F, data, mask):
        heads = F.transpose(F.reshape(self.values(data), (0, 0, 2, -1)), (0, 2, 1, 3))
        heads = F.reshape(heads, (-1, 0, 0), reverse=True)
        mask = F.reshape(F.broadcast_axis(F.expand_dims(mask, 1), 1, 2), (-1, 0, 0), reverse=True)
        return F.where(mask, F.batch_dot(heads, heads, transpose_b=True), -1e18 * F.ones_like(mask))


class Wrapped(nn.HybridBlock):
    def __init__(self):
        super().__init__()
        self.first, self.second = Masked(), nn.Dense(3, flatten=False)

    def hybrid_forward(self, F, tokens, mask):
        return self.second(F.softmax(self.first(F.expand_dims(tokens, 2), mask)))


def test_names_and_order_of_arguments(tmp_path):
    source = export(Wrapped(), tmp_path, {"tokens": (2, 5), "mask": (2, 5, 5)})
    assert "def forward(self, data, mask):" in source and "def forward(self, tokens, mask):" in source
    assert "self.first(tokens.unsqueeze(2), mask)" in source


class NormTwice(nn.HybridBlock):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm(in_channels=4)

    def hybrid_forward(self, F, x):
        return self.norm(F.sin(self.norm(x)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_batch_norm_that_is_called_twice(tmp_path):
    """Its statistics have one order of updates in torch, the other one in MXNet."""
    with pytest.warns(gops.export.ExportWarning, match="MXNet updates norm.running_mean, norm.running_var in another "
                      "order"):
        assert "self.norm(torch.sin(self.norm(x)))" in export(NormTwice(), tmp_path)


def test_the_length_of_sequences_is_free(tmp_path):
    from gluonops.export.torch.verify import load
    export(Masked(), tmp_path, {"data": (2, 5, 3), "mask": (2, 5, 5)})
    assert load(tmp_path).load()(torch.rand(3, 9, 3), torch.ones(3, 9, 9)).shape == (6, 9, 9)


class Attention(nn.HybridBlock):
    """Self-attention of two heads over embedded words, with their number in each sentence."""

    def __init__(self):
        super().__init__()
        self.embedding, self.heads = nn.Embedding(50, 6), nn.Dense(6, flatten=False)

    def hybrid_forward(self, F, words, length):
        x = F.reshape(self.heads(self.embedding(words)), (0, 0, 2, -1))
        heads = F.reshape(F.transpose(x, (0, 2, 1, 3)), (-3, 0, 0))
        places = F.expand_dims(F.contrib.arange_like(words, axis=1), 0)
        inside = F.broadcast_lesser(places, F.expand_dims(length, 1))
        inside = F.expand_dims(F.reshape(F.tile(F.expand_dims(inside, 1), (1, 2, 1)), (-3, 0)), 1)
        weights = F.broadcast_mul(F.softmax(F.batch_dot(heads, heads, transpose_b=True)), inside)
        return F.reshape(F.batch_dot(weights, heads), (-4, -1, 2, 0, 0))


def test_the_length_of_sentences_is_free(tmp_path):
    from gluonops.export.torch.verify import load
    source = export(Attention(), tmp_path, {"words": (2, 7), "length": (2,)})
    assert source.count(".unflatten(") == 2 and "reshape" not in source.split("def load")[0]
    assert load(tmp_path).load()(torch.ones(3, 5), torch.tensor([5, 2, 3])).shape == (3, 2, 5, 3)


def test_the_length_of_sentences_beside_features_is_free(tmp_path):
    class Weighed(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.weight = nn.Dense(1)

        def hybrid_forward(self, F, features, words):
            places = F.reshape(F.contrib.arange_like(words, axis=1), (1, -1))
            return F.broadcast_mul(F.broadcast_add(words, places), self.weight(features))

    from gluonops.export.torch.verify import load
    export(Weighed(), tmp_path, {"features": (2, 5), "words": (2, 7)})
    assert load(tmp_path).load()(torch.ones(3, 5), torch.ones(3, 4)).shape == (3, 4)


class Products(nn.HybridBlock):
    def hybrid_forward(self, F, left, right):
        return F.dot(left, right), left


def test_a_product_and_an_output_that_is_an_input(tmp_path):
    source = export(Products(), tmp_path, {"left": (2, 3, 4), "right": (4, 5)})
    assert "x = torch.tensordot(left, right, 1)" in source and "return x, left" in source


class Scaled(nn.HybridBlock):
    def __init__(self):
        super().__init__()
        self.layer, self.scale = nn.Dense(3), self.params.get_constant("scale", [[1, 2, 3]])

    def hybrid_forward(self, F, x, scale):
        return F.broadcast_mul(self.layer(x), scale)


def test_constants_of_files_are_not_trained(tmp_path):
    net = Scaled()
    net.initialize()
    gops.export.symbol(net, tmp_path / "net", (2, 3))
    gops.export.torch(tmp_path / "net", tmp_path / "port")
    assert 'self.register_buffer("scale", torch.empty(1, 3))' in (tmp_path / "port" / "net.py").read_text()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")   # torch.compile warns
def test_parameter_groups(tmp_path):
    from gluonops.export.torch.verify import load
    net = residual()
    net[0].weight.grad_req = "null"
    net[6].bias.lr_mult, net[6].bias.wd_mult = 2.0, 0.0
    export(net, tmp_path)
    module = load(tmp_path)
    port = module.load()
    groups = module.parameter_groups(port, 0.5, 0.25)
    rates = {id(group["params"][0]): (group["lr"], group["weight_decay"]) for group in groups}
    assert rates[id(port.fc.bias)] == (1.0, 0.0) and rates[id(port.fc.weight)] == (0.5, 0.25)
    assert id(port.features[0].weight) not in rates
    fixed = [name for name, parameter in port.named_parameters() if not parameter.requires_grad]
    assert len(fixed) == 4 and len(groups) == len(list(port.parameters())) - len(fixed) - 1
    for other in (torch.nn.DataParallel(port), torch.compile(port), torch.nn.Sequential(torch.nn.ReLU(), port)):
        assert module.parameter_groups(other, 0.5, 0.25) == groups


@pytest.mark.parametrize("fault, what", [
    ("decay", r"conv.bias after \d+ steps"), ("rate", r"conv.bias after \d+ steps"),
    ("momentum", r"after \d+ steps"), ("frozen", r"conv.weight after \d+ steps"),
    ("gamma", "the gradient of bn.weight"), ("statistics", r"bn.running_mean after \d+ steps")])
def test_training_that_differs_is_found(fault, what, tmp_path, monkeypatch):
    from gluonops.export.torch import write
    net = sequence(nn.Conv2D(4, 3), nn.BatchNorm(scale=False), nn.Dense(2))
    net[0].bias.lr_mult, net[0].bias.wd_mult = 2.0, 0.5
    net[0].weight.grad_req = "null" if fault == "frozen" else "write"
    groups_source = write.groups_source
    if fault in ("decay", "rate"):
        wrong = (2.0, 1.0) if fault == "decay" else (1.0, 0.5)
        monkeypatch.setattr(write, "groups_source", lambda pairs: groups_source(
            {key: pair if pair in (None, (1, 1)) else wrong for key, pair in pairs.items()}))
    elif fault == "frozen":
        monkeypatch.setattr(write, "groups_source", lambda pairs: groups_source(
            {key: pair or (1, 1) for key, pair in pairs.items()}))
    elif fault == "momentum":
        monkeypatch.setattr(steps, "MOMENTUM", 0.8999)
    else:
        argument = {"gamma": {"fix_gamma": False}, "statistics": {"momentum": 0.1001}}[fault]
        form = CONVERTERS["BatchNorm"]

        def batch_norm(call):
            made = form(call)
            made.args.update(argument)
            return made
        monkeypatch.setitem(CONVERTERS, "BatchNorm", batch_norm)
    net.initialize(mx.init.Normal(0.3))
    with pytest.raises(AssertionError, match=what):
        steps.check(net, (2, 4, 8, 8))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_file_that_differs_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setitem(CONVERTERS, "LeakyReLU", lambda call: "F.leaky_relu({0}, 0.1001)")
    what = r"leakyrelu\d*_fwd_output at .* is .*; MXNet's is .* begin to differ at the node 'leakyrelu\d*_fwd'"
    with pytest.raises(gops.OpError, match=what):
        export(sequence(nn.LeakyReLU(0.1)), tmp_path)
    assert not list(tmp_path.iterdir())
    net = sequence(nn.LeakyReLU(0.1))
    net.initialize()
    with pytest.warns(gops.export.ExportWarning, match=what):
        gops.export.torch(net, tmp_path, (2, 4, 8, 8), force=True)
    assert "0.1001" in (tmp_path / "net.py").read_text()


def test_a_file_that_cannot_be_compared(tmp_path):
    values = {"arg:fc_weight": mx.nd.ones((2, 3)), "arg:fc_bias": mx.nd.full(2, np.nan)}
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    net.save(str(tmp_path / "net-symbol.json"))
    mx.nd.save(str(tmp_path / "net-0000.params"), values)
    with pytest.raises(gops.OpError, match="an output in evaluation mode has numbers that are not finite in MXNet"):
        gops.export.torch(tmp_path / "net", tmp_path / "port", (1, 3))
    mx.nd.save(str(tmp_path / "net-0000.params"), {**values, "data": mx.nd.ones((1, 3))})
    with pytest.raises(gops.OpError, match="no output of the file depends on an input: all .* Remove the data"):
        gops.export.torch(tmp_path / "net", tmp_path / "port")


def test_a_folder_that_nothing_was_written_to_is_removed(tmp_path):
    with pytest.raises(gops.OpError, match="there is no file"):
        gops.export.torch(tmp_path / "net", tmp_path / "new" / "port")
    assert not list(tmp_path.iterdir())
    with pytest.raises(gops.OpError, match="the path is None; expected text"):
        gops.export.torch(tmp_path / "net", None)


def test_all_files_are_replaced_or_none(tmp_path):
    (tmp_path / "net.py").write_text("old")
    (tmp_path / "test_net.py").mkdir()
    with pytest.raises(gops.OpError, match="test_net.py is a folder"):
        export(sequence(nn.LeakyReLU(0.1)), tmp_path)
    assert (tmp_path / "net.py").read_text() == "old" and len(list(tmp_path.iterdir())) == 2


def test_what_has_no_converter_is_refused_by_node_and_operator(tmp_path):
    class Unknown(nn.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.gammaln(F.gamma(x, name="special"))

    with pytest.raises(gops.OpError, match=r"'.*special' \(gamma\) .* has no converter, and neither have gammaln"):
        export(Unknown(), tmp_path, (2, 3))
    assert not list(tmp_path.iterdir())


REFUSED = {
    "has no converter": lambda F, x: F.broadcast_add(x, F.random.normal(shape=(4, 1, 1))),
    "runs over the flattened data": lambda F, x: F.topk(x, axis=None),
    "normalizes single numbers": lambda F, x: F.InstanceNorm(F.mean(x, (2, 3), keepdims=True), F.ones(4), F.zeros(4)),
    "normalizes data of 2 dimensions": lambda F, x: F.LRN(F.mean(x, (2, 3)), nsize=3),
    "has an even nsize": lambda F, x: F.LRN(x, nsize=2),
    "wholly beyond the data of some images": lambda F, x: F.Pooling(x, kernel=(2, 2), stride=(2, 2), pad=(1, 1),
                                                                    pooling_convention="full"),
    "wrong numbers in float64": lambda F, x: F.Deconvolution(x, F.ones((4, 2, 3, 3)), kernel=(3, 3), stride=(2, 2),
                                                             dilate=(2, 2), num_filter=2),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_refused(reason, tmp_path):
    with pytest.raises(gops.OpError, match=reason):
        export(sequence(nn.HybridLambda(REFUSED[reason])), tmp_path)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_net_that_mxnet_does_not_run(tmp_path):
    net = sequence(nn.HybridLambda(lambda F, x: F.norm(x, ord=3)))
    with pytest.warns(gops.export.ExportWarning, match="net.py is not compared with MXNet, which does not run the net: "
                      ".*only supp"):
        gops.export.torch(net, tmp_path, (2, 3))
    assert "vector_norm" in (tmp_path / "net.py").read_text()


def test_a_parameter_of_whole_numbers(tmp_path):
    class Shifted(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.shift = self.params.get("shift", shape=(1, 3), dtype="int32", init="ones", grad_req="null")

        def hybrid_forward(self, F, x, shift):
            return F.broadcast_add(F.cast(x, "int32"), shift)

    net = Shifted()
    net.initialize()
    gops.export.torch(net, tmp_path, (2, 3))


def test_constants_of_whole_numbers(tmp_path):
    shifted = nn.HybridLambda(lambda F, x: F.broadcast_add(F.cast(x, "int32"), F.arange(3, dtype="int32")))
    source = export(sequence(shifted, nn.Embedding(9, 4), nn.Dense(5)), tmp_path, (2, 3))
    assert "self.constant.to(torch.int32)" in source and "FROZEN" not in source


def test_a_table_of_whole_numbers(tmp_path):
    """A Swin transformer has one of relative positions."""
    class Positions(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.table = self.params.get("table", shape=(5, 4))
            self.index = self.params.get_constant("index", mx.nd.array([[0, 4], [2, 0]], dtype="int32"))

        def hybrid_forward(self, F, x, table, index):
            return F.broadcast_add(x, F.expand_dims(F.take(table, index), 0))

    export(Positions(), tmp_path, (2, 2, 2, 4))


@pytest.mark.filterwarnings("ignore")
def test_a_net_of_8_bits_is_refused(tmp_path, rng):
    net = sequence(nn.Conv2D(4, 3), nn.Dense(3))
    net.initialize(mx.init.Normal(0.3))
    images = [mx.nd.array(rng.rand(2, 3, 8, 8)) for _ in range(2)]
    gops.export.quantize(net, tmp_path / "net", images, layer_limit=10)
    with pytest.raises(gops.OpError, match="'data_quantize' .* computes with 8 bits, .*; expected a net of floats"):
        gops.export.torch(tmp_path / "net", tmp_path / "port", (1, 3, 8, 8))


def test_numbers_that_are_zero_but_for_rounding(tmp_path):
    """A ReLU reads the sign of the mean behind a norm without a beta; MXNet's own gradients jump there."""
    net = sequence(nn.Conv2D(4, 3), nn.InstanceNorm(), gops.nn.SqueezeExcite(4, 2))
    mx.random.seed(3)
    net.initialize(mx.init.Normal(0.3))
    gops.export.torch(net, tmp_path, (2, 4, 8, 8))
    with pytest.raises(AssertionError, match=r"the gradient of .* 0 but for rounding"):
        steps.check(net, (2, 4, 8, 8))
    net[1].beta.set_data(mx.nd.array([0.1, -0.2, 0.3, -0.4]))
    export(net, tmp_path)


def test_arguments_that_are_defaults_are_left_out(tmp_path):
    """MXNet rounds each epsilon to float32, and the compared source has the rounded one."""
    source = export(sequence(nn.Dense(8), nn.LayerNorm(), nn.ELU(), nn.LayerNorm(epsilon=1e-3)), tmp_path, (2, 3))
    assert all(f"nn.{layer}" in source for layer in ("LayerNorm(8)", "ELU()", "LayerNorm(8, eps=0.001)"))


def test_images_as_large_as_the_compared_ones(tmp_path):
    from gluonops.export.torch.verify import load
    export(sequence(nn.HybridLambda(lambda F, x: F.reshape(x, (0, 0, -1)))), tmp_path, (2, 4, 40, 40))
    assert load(tmp_path).load()(torch.rand(3, 4, 8, 6)).shape == (3, 4, 48)


def test_maps_that_are_as_large_in_small_images(tmp_path):
    from gluonops.export.torch.verify import load
    flat = nn.HybridLambda(lambda F, x: F.reshape(x, (0, 0, -1)))
    export(sequence(nn.MaxPool2D(3, 32, 1), flat), tmp_path, (2, 4, 56, 56))
    assert load(tmp_path).load()(torch.rand(3, 4, 112, 112)).shape == (3, 4, 16)


def test_training_with_autocast(tmp_path):
    """The data of a batch norm have 16 bits, and its statistics have 32."""
    from gluonops.export.torch.verify import load
    export(sequence(nn.Conv2D(3, 3), nn.BatchNorm()), tmp_path)
    net, other, data = load(tmp_path).load().train(), load(tmp_path).load().train(), torch.rand(3, 4, 8, 8)
    with torch.autocast("cpu", torch.bfloat16):
        net(data).sum().backward()
    other(data)
    torch.testing.assert_close(net.state_dict(), other.state_dict(), rtol=1e-2, atol=1e-3)


def test_a_squeeze_of_images_that_become_one_pixel(tmp_path):
    from gluonops.export.torch.verify import load
    export(sequence(nn.Conv2D(3, 5), nn.HybridLambda(lambda F, x: F.squeeze(x))), tmp_path, (2, 4, 16, 16))
    assert load(tmp_path).load()(torch.rand(2, 4, 5, 5)).shape == (2, 3)


def test_any_image_in_a_batch_of_one(tmp_path):
    from gluonops.export.torch.verify import load
    rows = nn.HybridLambda(lambda F, x: F.squeeze(F.reshape(x, (0, 0, -1)), axis=0))
    export(sequence(nn.Conv2D(3, 5), rows), tmp_path, (1, 4, 16, 16))
    assert load(tmp_path).load()(torch.rand(1, 4, 9, 8)).shape == (3, 20)


def test_a_squeeze_of_two_channels(tmp_path):
    """The compared data do not have a single one, which MXNet would leave out."""
    export(sequence(nn.HybridLambda(lambda F, x: F.squeeze(F.sum(x, axis=0)))), tmp_path, (3, 2, 7))


def test_a_cast_of_the_input_is_left_out(tmp_path):
    class Residue(nn.HybridBlock):
        def hybrid_forward(self, F, x):
            x = F.cast(x, "float32")
            return x + F.sin(x)

    assert "def forward(self, x):\n        return x + torch.sin(x)\n" in export(Residue(), tmp_path, (2, 3))


class Half(nn.HybridBlock):
    """Computes a part in another type."""

    def __init__(self, kind, function=lambda F, x: x * 3):
        super().__init__()
        self.kind, self.function, self.out = kind, function, nn.Dense(3)

    def hybrid_forward(self, F, x):
        rounded = F.cast(self.function(F, F.cast(x, self.kind)), "float32")
        return rounded, self.out(rounded)


@pytest.mark.parametrize("kind", ["float16", "float64"])
def test_a_cast_to_another_type_and_back(kind, tmp_path):
    """It rounds to float16 in any type that load is asked for, and the rest of the net has that type."""
    from gluonops.export.torch.verify import load
    source = export(Half(kind), tmp_path, (2, 5))
    assert f"(x.to(torch.{kind}) * 3).to(x.dtype)" in source
    data = torch.tensor([[0.1, 1 / 3, 1000.3, -7.77, 2049.0]])
    for dtype in (torch.float32, torch.float64):
        found, _ = load(tmp_path).load(dtype)(data.to(dtype))
        assert found.dtype == dtype
        assert torch.equal(found, (data.to(dtype).to(getattr(torch, kind)) * 3).to(dtype))


def test_amp_casts_and_constants_of_another_type(tmp_path):
    source = export(Half("float16", lambda F, x: F.broadcast_add(
        F.amp_cast(x, dtype="float16"), F.cast(F.arange(5), "float16"))), tmp_path, (2, 5))
    assert "x.to(torch.float16)" in source


def test_a_net_of_float16_behind_a_cast(tmp_path):
    """Inputs and parameters of the written net have one type: that of load, float32 by default."""
    class Mixed(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.out = nn.Dense(3, dtype="float16", in_units=5)

        def hybrid_forward(self, F, x):
            return F.cast(self.out(F.cast(x, "float16")), "float32")

    net = Mixed()
    net.initialize()
    gops.export.torch(net, tmp_path, (2, 5))
    assert "return self.out(x).to(torch.float32)" in (tmp_path / "net.py").read_text()


def test_many_inputs(tmp_path):
    class Sum(nn.HybridBlock):
        def hybrid_forward(self, F, *inputs):
            return F.concat(*inputs, dim=1)

    export(Sum(), tmp_path, {f"{'long_' * 3}{number}": (2, 3) for number in range(9)})


def test_slices_that_need_the_whole_batch(tmp_path):
    """MXNet does not take the smaller batch that is compared otherwise."""
    export(sequence(nn.HybridLambda(lambda F, x: F.slice_axis(x, axis=0, begin=-3, end=4))), tmp_path, (4, 3))


def test_the_written_test_takes_integers_and_what_has_no_gradient(tmp_path, monkeypatch):
    class Found(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.scores = nn.Dense(3)

        def hybrid_forward(self, F, x):
            scores = F.BlockGrad(self.scores(x))
            return scores, F.cast(F.argmax(scores, axis=1), "int32"), F.topk(scores, k=2, dtype="int64")

    from gluonops.export.torch.verify import load
    export(Found(), tmp_path, (2, 5))
    monkeypatch.setitem(sys.modules, "net", load(tmp_path))
    test = runpy.run_path(str(tmp_path / "test_net.py"))
    for mode in test["MODES"]:
        test["test_net"](mode)


def test_from_files_and_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    net = residual()
    net.initialize()
    gops.export.symbol(net, "net", (1, 4, 8, 8))
    assert cli.main(["export", "net", "--torch", "port"]) == 0
    assert "port/net.py" in capsys.readouterr().out
    names = json.loads(pathlib.Path("port/names.json").read_text())
    assert set(names.values()) == set(net.collect_params())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("memory, modes, last", [
    (10 ** 12, 2, nn.HybridLambda("identity")), (10 ** 3, 1, nn.HybridLambda("identity")),
    (10 ** 12, 2, nn.HybridLambda("BlockGrad")), (10 ** 12, 2, nn.ELU(0.7))])   # MXNet rounds 0.7 to float32
def test_the_written_test_passes_with_torch_alone(memory, modes, last, tmp_path, monkeypatch):
    from gluonops.export.torch import verify
    monkeypatch.setattr(verify, "available_memory", lambda: memory)
    export(sequence(residual(), last), tmp_path)
    code = ("import sys\n"
            "sys.modules.update(dict.fromkeys(('gluonops', 'mxnet', 'numpy', 'safetensors')))\n"
            "import pytest, torch, net\n"
            "assert net.load()(torch.zeros(5, 4, 20, 12)).shape == (5, 5)\n"
            "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', 'test_net.py']))")

    def run():
        command = [sys.executable, "-W", "ignore", "-c", code]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    ran = run()
    assert ran.returncode == 0 and f"{modes} passed" in ran.stdout, ran.stdout + ran.stderr
    source = (tmp_path / "net.py").read_text()
    (tmp_path / "net.py").write_text(source.replace("return F.relu(", "return F.leaky_relu("))
    assert f"{modes} failed" in run().stdout


def test_float32(tmp_path):
    export(residual(), tmp_path)
    from gluonops.export.torch.verify import load
    net = load(tmp_path).load()
    data = np.random.RandomState(0).uniform(-1, 1, (3, 4, 16, 16)).astype(np.float32)
    assert net(torch.from_numpy(data)).dtype == torch.float32


@pytest.mark.slow
@pytest.mark.parametrize("name", ["residual", "parameter", "functions", "activations", "norms", "resizing"])
@pytest.mark.filterwarnings("ignore")
def test_torch_takes_the_nets_further(name, tmp_path):
    """TorchScript, torch.export, torch.compile (with g++) and ONNX compute the same."""
    import onnxruntime
    from gluonops.export.torch.verify import load
    export(NETS[name](), tmp_path)
    net, data = load(tmp_path).load(), torch.rand(3, 4, 8, 8)
    expected = net(data)
    assert torch.equal(torch.jit.script(net)(data), expected)
    assert torch.equal(torch.export.export(net, (data,)).module()(data), expected)
    torch.testing.assert_close(torch.compile(net)(data), expected)
    torch.onnx.export(net, (data,), str(tmp_path / "net.onnx"), input_names=["x"], dynamo=False)
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    torch.testing.assert_close(torch.from_numpy(session.run(None, {"x": data.numpy()})[0]), expected, rtol=1e-4,
                               atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name, size", [
    ("alexnet", 224), ("cifar_resnet20_v1", 32), ("darknet53", 224), ("densenet121", 224),
    ("googlenet", 224), ("inceptionv3", 299), ("mobilenet0.25", 224), ("mobilenetv2_0.25", 224),
    ("mobilenetv3_small", 224), ("nasnet_4_1056", 224), ("resnest14", 224), ("resnet18_v1", 224),
    ("resnet18_v1b", 224), ("resnet18_v2", 224), ("se_resnet18_v1", 224), ("simple_pose_resnet18_v1b", 256),
    ("squeezenet1.0", 224), ("vgg11_bn", 224), ("xception", 299), ("yolo3_mobilenet1.0_voc", 416)])
def test_gluoncv_zoo(name, size, tmp_path):
    from gluonops.io.optional import require
    options = {"pretrained_base": False} if name.startswith(("simple", "yolo")) else {}
    net = require("gluoncv", "tests").model_zoo.get_model(name, pretrained=False, **options)
    mx.random.seed(0)
    net.initialize(mx.init.Xavier(magnitude=2))
    gops.export.torch(net, tmp_path, (1, 3, size, size))
    assert (tmp_path / "names.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name, size", [("darknet19", 64), ("lenet_reorg", 28), ("tiny_yolov3", 96),
                                        ("tiny_yolov4", 96)])
def test_models(name, size, tmp_path):
    net = gops.models.get_model(name)
    net.initialize(mx.init.Xavier(magnitude=2))
    gops.export.torch(net, tmp_path, (1, 1 if name == "lenet_reorg" else 3, size, size))
    assert (tmp_path / "names.json").exists()


@pytest.mark.slow
def test_a_video_has_small_images(tmp_path):
    """Its frames do not become as many as an image has rows: a net for videos would take hours."""
    net = sequence(nn.Conv3D(2, 3, padding=1), nn.BatchNorm(), nn.GlobalAvgPool3D(), nn.Dense(2))
    net.initialize()
    gops.export.torch(net, tmp_path, (1, 3, 4, 64, 64))
    recorded = safetensors.load_file(tmp_path / "test_net.safetensors")
    assert recorded["training.input.0"].shape == (2, 3, 8, 40, 40)
