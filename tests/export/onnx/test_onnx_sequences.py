"""Recurrent layers, sequences of different lengths and attention in ONNX, against MXNet."""
import gluonops as gops
import mxnet as mx
import numpy as np
import onnx_oracle
import pytest
from mxnet import gluon
from mxnet.gluon import nn, rnn
from onnx_oracle import case

STEPS, WIDTH, HIDDEN = 5, 3, 4


def lengths(rng, shape):
    """The lengths of sequences of five steps, at least one each."""
    return rng.randint(1, STEPS + 1, shape[:1]).astype(np.float32)


class Recurrent(gluon.HybridBlock):
    """A recurrent layer of Gluon over (batch, steps, width), and its last states if it begins with given ones."""

    def __init__(self, kind, **options):
        super().__init__()
        with self.name_scope():
            self.layer = getattr(rnn, kind)(HIDDEN, input_size=WIDTH, layout="NTC", **options)

    def hybrid_forward(self, F, data, *states):
        if not states:
            return self.layer(data)
        output, last = self.layer(data, [F.transpose(state, (1, 0, 2)) for state in states])
        return [output, *[F.transpose(state, (1, 0, 2)) for state in last]]


KINDS = {"LSTM": ("LSTM", {}, 2), "GRU": ("GRU", {}, 1), "relu": ("RNN", {"activation": "relu"}, 1),
         "tanh": ("RNN", {"activation": "tanh"}, 1)}


@pytest.mark.parametrize("with_states", [False, True])
@pytest.mark.parametrize("layers, bidirectional", [(1, False), (3, False), (1, True), (2, True)])
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_layers(kind, layers, bidirectional, with_states, tmp_path, rng):
    kind, options, states = KINDS[kind]
    net = Recurrent(kind, num_layers=layers, bidirectional=bidirectional, **options)
    net.initialize(mx.init.Uniform(0.7))
    for parameter in net.collect_params().values():   # biases are zeros otherwise
        parameter.set_data(mx.nd.array(rng.uniform(-0.7, 0.7, parameter.shape)))
    inputs = {"data": (STEPS, WIDTH)}
    if with_states:
        inputs.update({f"state{i}": (layers * (1 + bidirectional), HIDDEN) for i in range(states)})
    model = onnx_oracle.agree(net, tmp_path / "net.onnx", inputs, batches=(2, 1, 3), rng=rng)
    assert [node.op_type for node in model.graph.node].count(kind) == layers


def test_any_number_of_steps(tmp_path, rng):
    """Gluon's own layout, whose first axis is time."""
    net = rnn.LSTM(HIDDEN, 2, input_size=WIDTH, bidirectional=True)
    net.initialize(mx.init.Uniform(0.7))
    onnx_oracle.agree(net, tmp_path / "net.onnx", {"data": (2, WIDTH)}, batches=(4, 1, 9), rng=rng)


@pytest.mark.parametrize("options, text", [
    ({"projection_size": 2}, r"\(RNN\) .* has projection_size, which MXNet computes on a GPU only"),
    ({"lstm_state_clip_min": -1, "lstm_state_clip_max": 1}, r"\(RNN\) cannot be exported to ONNX: it has "
     r"lstm_state_clip_min")])
def test_what_onnx_has_no_layer_for(options, text, tmp_path):
    data, parameters, states = mx.sym.var("data"), mx.sym.var("w"), [mx.sym.zeros((1, 0, size)) for size in (2, HIDDEN)]
    if "projection_size" not in options:
        states[0] = mx.sym.zeros((1, 0, HIDDEN))
    net = gluon.SymbolBlock(mx.sym.RNN(data, parameters, *states, state_size=HIDDEN, num_layers=1, mode="lstm",
                                       **options), data)
    net.initialize(mx.init.Uniform())
    with pytest.raises(gops.OpError, match=text):
        gops.export.onnx(net, tmp_path / "net.onnx", (STEPS, 2, WIDTH))


def test_parameters_that_are_computed(tmp_path):
    net = nn.HybridLambda(lambda F, x, w: F.RNN(x, F.reshape(w, -1), F.zeros((1, 0, 1)), state_size=1, num_layers=1,
                                                mode="rnn_tanh"))
    with pytest.raises(gops.OpError, match=r"\(RNN\) .* has parameters that depend on an input"):
        gops.export.onnx(net, tmp_path / "net.onnx", {"x": (2, 1, 1), "w": (1, 4)}, dynamic_batch=False)


SEQUENCE, BY_TIME = (STEPS, 2, 3), {"axes": (1, 0, 2, 3)}


def by_time(F, x):
    return F.transpose(x, **BY_TIME)


CASES = [
    case("mask", lambda F, x, n: [
        F.SequenceMask(by_time(F, x), n, use_sequence_length=True),
        F.SequenceMask(x, n, use_sequence_length=True, axis=1, value=-7), F.SequenceMask(x)], SEQUENCE, ((), lengths)),
    case("last", lambda F, x, n: [
        F.SequenceLast(by_time(F, x), n, use_sequence_length=True), F.SequenceLast(by_time(F, x)),
        F.SequenceLast(x, n, use_sequence_length=True, axis=1), F.SequenceLast(x, axis=1)], SEQUENCE, ((), lengths)),
    case("reverse", lambda F, x, n: [
        F.SequenceReverse(by_time(F, x), n, use_sequence_length=True), F.SequenceReverse(by_time(F, x))],
        SEQUENCE, ((), lengths)),
    case("softmax_of_lengths", lambda F, x, n: [
        F.softmax(x, F.cast(F.broadcast_axis(F.reshape(n, (-1, 1)), axis=1, size=4), "int32") - 1, axis=1,
                  use_length=True, temperature=2)], (STEPS, 4), ((), lengths)),
    case("attention", lambda F, x: F.contrib.interleaved_matmul_selfatt_valatt(
        F.transpose(x, (1, 0, 2)), F.softmax(F.contrib.interleaved_matmul_selfatt_qk(F.transpose(x, (1, 0, 2)),
                                                                                    heads=2)), heads=2), (STEPS, 24)),
    case("attention_to_another", lambda F, x, y: F.contrib.interleaved_matmul_encdec_valatt(
        F.transpose(y, (1, 0, 2)), F.softmax(F.contrib.interleaved_matmul_encdec_qk(
            F.transpose(x, (1, 0, 2)), F.transpose(y, (1, 0, 2)), heads=2)), heads=2), (3, 8), (STEPS, 16)),
    case("divided_by_root", lambda F, x: F.contrib.div_sqrt_dim(x)),
    case("sizes_that_are_no_line_in_the_batch", lambda F, x: [
        F.reshape(F.dot(x, x, transpose_b=True), (-1,)), F.tile(F.dot(x, x, transpose_b=True), (2, 1)),
        F.reshape(F.slice(x, begin=(None,), end=(None,), step=(2,)), (-4, -1, 1, 0))], (4,)),
    case("every_second_row", lambda F, x: F.broadcast_like(
        F.sum(x, axis=0, keepdims=True), F.slice(x, begin=(None,), end=(None,), step=(2,))), (4,)),
]


@pytest.mark.parametrize("function, inputs, parameters", CASES)
def test_converter(function, inputs, parameters, tmp_path, rng):
    onnx_oracle.converted(function, inputs, parameters, tmp_path / "net.onnx", rng, batches=(2, 1, 3))


class Open(gluon.HybridBlock):
    """Tensors whose shapes MXNet infers from their readers, in Symbol only."""

    def hybrid_forward(self, F, x):
        if F is mx.nd:
            return x + 3.5, x.reshape(-1) + mx.nd.arange(x.size)
        open_sum = F.zeros((0, 5)) + F.ones((0, 5)) + F.full((0, 5), 2.5)
        return x + open_sum, F.reshape(x, -1) + F.arange(0, stop=None, infer_range=True)


def test_open_shapes(tmp_path, rng):
    onnx_oracle.agree(Open(), tmp_path / "net.onnx", {"data": (5,)}, rng=rng)


class Encoder(gluon.HybridBlock):
    """A block of gluon-nlp's BERT: attention with interleaved heads, GELU, and layer norms behind the sums."""

    def __init__(self, units, heads):
        super().__init__()
        self.heads = heads
        with self.name_scope():
            self.projections = nn.Dense(3 * units, flatten=False)
            self.attended = nn.Dense(units, flatten=False)
            self.wide, self.narrow = nn.Dense(4 * units, flatten=False), nn.Dense(units, flatten=False)
            self.norm, self.last_norm = nn.LayerNorm(epsilon=1e-12), nn.LayerNorm(epsilon=1e-12)

    def hybrid_forward(self, F, data, mask):
        projected = self.projections(data)
        scores = F.contrib.interleaved_matmul_selfatt_qk(projected, heads=self.heads)
        weights = F.softmax(F.broadcast_add(scores, mask), axis=-1)
        attended = F.contrib.interleaved_matmul_selfatt_valatt(projected, weights, heads=self.heads)
        data = self.norm(data + self.attended(attended))
        return self.last_norm(data + self.narrow(F.LeakyReLU(self.wide(data), act_type="gelu")))


class Bert(gluon.HybridBlock):
    """Words and positions, encoders, and a pooled first word, with masked padding."""

    def __init__(self, units=16, heads=4, steps=STEPS):
        super().__init__()
        self.heads, self.steps = heads, steps
        with self.name_scope():
            self.words, self.norm = nn.Embedding(30, units), nn.LayerNorm(epsilon=1e-12)
            self.positions = self.params.get("positions", shape=(steps, units), init=mx.init.Normal(0.5))
            self.encoders = [Encoder(units, heads) for _ in range(2)]
            for encoder in self.encoders:
                self.register_child(encoder)
            self.pooler = nn.Dense(units, activation="tanh", flatten=False)

    def hybrid_forward(self, F, words, valid, positions):
        data = self.norm(F.broadcast_add(self.words(words), F.expand_dims(positions, 0)))
        columns = F.reshape(F.contrib.arange_like(words, axis=1), (1, 1, -1))
        outside = F.broadcast_greater_equal(columns, F.reshape(valid, (-1, 1, 1)))
        mask = F.reshape(F.broadcast_axis(F.expand_dims(outside * -1e4, 1), axis=1, size=self.heads), (-3, 0, 0))
        data = F.SequenceMask(F.transpose(data, (1, 0, 2)), valid, use_sequence_length=True)
        for encoder in self.encoders:
            data = encoder(data, mask)
        data = F.transpose(data, (1, 0, 2))
        return data, self.pooler(F.reshape(F.slice_axis(data, axis=1, begin=0, end=1), (0, -1)))


def words(rng, shape):
    return rng.randint(0, 30, shape).astype(np.float32)


def test_bert(tmp_path, rng):
    net = Bert()
    net.initialize(mx.init.Normal(0.2))
    onnx_oracle.agree(net, tmp_path / "net.onnx", {"words": ((STEPS,), words), "valid": ((), lengths)},
                      batches=(2, 1, 3), rng=rng)


class Forecaster(gluon.HybridBlock):
    """GluonTS's DeepAR: values are divided by their mean, a cell is unrolled over them, and two heads follow."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.cells = rnn.HybridSequentialRNNCell()
            for cell in (rnn.LSTMCell(HIDDEN), rnn.ResidualCell(rnn.LSTMCell(HIDDEN)), rnn.GRUCell(HIDDEN)):
                self.cells.add(cell)
            self.mean, self.deviation = nn.Dense(1, flatten=False), nn.Dense(1, flatten=False, activation="softrelu")

    def hybrid_forward(self, F, past, features):
        scale = F.mean(F.abs(past), axis=1, keepdims=True) + 1
        inputs = F.concat(F.expand_dims(F.broadcast_div(past, scale), -1), features, dim=-1)
        output, states = self.cells.unroll(STEPS, inputs, layout="NTC", merge_outputs=True)
        return self.mean(output), self.deviation(output), *states


def test_deep_ar(tmp_path, rng):
    net = Forecaster()
    net.initialize(mx.init.Uniform(0.7))
    onnx_oracle.agree(net, tmp_path / "net.onnx", {"past": (STEPS,), "features": (STEPS, 2)}, batches=(2, 1, 3),
                      rng=rng)


class Loop(gluon.HybridBlock):
    """A loop over time, with several outputs, states and a loop inside of it."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.cell = rnn.LSTMCell(HIDDEN, input_size=WIDTH)

    def hybrid_forward(self, F, data, scale):
        def inner(row, state):
            return F.broadcast_mul(row, scale), [state[0] + row]

        def step(frame, states):
            output, states = self.cell(frame, states)
            scaled, total = F.contrib.foreach(inner, F.transpose(output), [F.slice_axis(scale, 1, 0, 1).reshape(-1)])
            return [output * 2, F.transpose(scaled), total[0]], states

        first = F.slice_axis(F.transpose(data, (1, 0, 2)), 0, 0, 1).sum(axis=2).reshape((-1, 1)).tile((1, HIDDEN))
        outputs, states = F.contrib.foreach(step, F.transpose(data, (1, 0, 2)), [first, first * 0.5])
        return [*outputs, *states]


def with_lengths(mode, count):
    """A recurrent layer that reads lengths, which MXNet ignores on a CPU: its graph and its parameters."""
    names = ["data", "parameters", "state", "state_cell"][:2 + count]
    net = mx.sym.RNN(*map(mx.sym.var, names), sequence_length=mx.sym.var("lengths"), state_size=4, num_layers=2,
                     mode=mode, bidirectional=True, state_outputs=True, use_sequence_length=True)
    rng = np.random.RandomState(1)
    gates = {"lstm": 4, "gru": 3}.get(mode, 1)
    size = 2 * gates * 4 * ((3 + 4) + (8 + 4) + 4)
    return net, {"parameters": mx.nd.array(rng.uniform(-0.7, 0.7, (size,)))}


STATES = {"lstm": 2, "gru": 1, "rnn_tanh": 1, "rnn_relu": 1}


@pytest.mark.parametrize("mode", STATES)
def test_a_recurrent_layer_that_reads_lengths(mode, tmp_path, rng):
    """Each sequence is what the layer without lengths, run by MXNet, makes of it alone; behind its end are zeros."""
    count = STATES[mode]
    net, values = with_lengths(mode, count)
    net.save(str(tmp_path / "net-symbol.json"))
    mx.nd.save(str(tmp_path / "net-0000.params"), {f"arg:{name}": value for name, value in values.items()})
    x, lengths = rng.randn(5, 3, 3).astype("float32"), np.array([2, 5, 1], "float32")
    states = [rng.randn(4, 3, 4).astype("float32") for _ in range(count)]
    shapes = {"data": x.shape, **dict.fromkeys(("state", "state_cell")[:count], (4, 3, 4)), "lengths": (3,)}
    gops.export.onnx(tmp_path / "net", tmp_path / "net.onnx", shapes, dynamic_batch=False)
    found = onnx_oracle.session(tmp_path / "net.onnx").run(None, dict(zip(shapes, [x, *states, lengths])))
    for row, length in enumerate(lengths.astype(int)):
        expected = mx.nd.RNN(mx.nd.array(x[:length, row:row + 1]), values["parameters"],
                             *[mx.nd.array(each[:, row:row + 1]) for each in states], state_size=4, num_layers=2,
                             mode=mode, bidirectional=True, state_outputs=True)
        for one, other in zip(found, expected):
            own = one[:length, row:row + 1] if one is found[0] else one[:, row:row + 1]
            np.testing.assert_allclose(own, other.asnumpy(), rtol=1e-5, atol=1e-5)
        assert not found[0][length:, row].any()


def test_a_loop_is_unrolled(tmp_path, rng):
    net = Loop()
    net.initialize(mx.init.Uniform(0.7))
    net.hybridize()
    onnx_oracle.agree(net, tmp_path / "net.onnx", {"data": (STEPS, WIDTH), "scale": (1,)}, batches=(2, 1, 3), rng=rng)


def test_a_loop_over_the_batch(tmp_path):
    net = nn.HybridLambda(lambda F, x: F.contrib.foreach(lambda row, state: (row + state[0], [row]), x, [
        F.slice_axis(x, 0, 0, 1).reshape(-1)])[0])
    with pytest.raises(gops.OpError, match=r"\(_foreach\) cannot be exported to ONNX: it has as many steps as the "
                       r"batch has images"):
        gops.export.onnx(net, tmp_path / "net.onnx", (2, 3), dynamic_batch=True)
    onnx_oracle.agree(net, tmp_path / "net.onnx", {"data": (3,)}, batches=(4,))


class Until(gluon.HybridBlock):
    """A loop that ends when a sum is reached, with branches and a loop inside of it."""

    def hybrid_forward(self, F, data):
        def step(count, total):
            grown = F.contrib.cond(count < 1.5, lambda: total * 2, lambda: total - F.abs(data))
            rows, last = F.contrib.foreach(lambda row, state: (row + state, state * 3 + row),
                                           F.arange(0, 3).reshape((3, 1)), count - 2)
            return [grown, rows.reshape((1, 3))], [count + 1, F.broadcast_add(grown, last.reshape((1, 1)))]

        outputs, states = F.contrib.while_loop(lambda count, total: count < 4, step, [F.zeros((1,)), data],
                                               max_iterations=6)
        return [*(F.slice_axis(output, 0, 0, 4) for output in outputs), *states]   # behind them MXNet writes nothing


def test_a_while_loop_and_branches(tmp_path, rng):
    net = Until()
    net.hybridize()
    onnx_oracle.agree(net, tmp_path / "net.onnx", {"data": (3,)}, batches=(2, 1, 5), rng=rng)


def test_a_very_long_while_loop(tmp_path):
    net = nn.HybridLambda(lambda F, x: F.contrib.while_loop(lambda y: F.sum(y) < 9, lambda y: ([], [y + 1]), [x],
                                                            max_iterations=2000)[1][0])
    with pytest.raises(gops.OpError, match=r"\(_while_loop\) .* has up to 2000 steps; expected at most 1000"):
        gops.export.onnx(net, tmp_path / "net.onnx", (2, 3))
