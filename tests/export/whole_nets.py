"""Whole nets as people export them: a residual net for faces as insightface trains it, and BERT as GluonNLP builds it.

Their structure, names and attributes are those of these projects; the parameters are drawn.
"""
import mxnet as mx
import numpy as np
from mxnet.gluon import nn

NORM = {"eps": 2e-5, "momentum": 0.9}


def _convolution(data, filters, name, **options):
    options = {"kernel": (3, 3), "pad": (1, 1), "stride": (1, 1), **options}
    return mx.sym.Convolution(data, num_filter=filters, no_bias=True, name=name, **options)


def _norm(data, name, fix_gamma=False):
    return mx.sym.BatchNorm(data, fix_gamma=fix_gamma, name=name, **NORM)


def _prelu(data, name):
    return mx.sym.LeakyReLU(data, mx.sym.var(f"{name}_gamma", init=mx.init.Constant(0.25)), act_type="prelu", name=name)


def _unit(data, filters, stride, keeps_shape, name):
    """insightface's residual unit of version 3: a batch norm in front, and the stride in the second convolution."""
    body = _convolution(_norm(data, f"{name}_bn1"), filters, f"{name}_conv1")
    body = _prelu(_norm(body, f"{name}_bn2"), f"{name}_relu1")
    body = _norm(_convolution(body, filters, f"{name}_conv2", stride=stride), f"{name}_bn3")
    if keeps_shape:
        return body + data
    shortcut = _convolution(data, filters, f"{name}_conv1sc", kernel=(1, 1), pad=(0, 0), stride=stride)
    return body + _norm(shortcut, f"{name}_sc")


def face_net(units=(3, 4, 14, 3), filters=(64, 64, 128, 256, 512), embedding=512):
    """LResNet50E-IR, by default, with its preprocessing in the graph: pixels of 0 to 255 come in."""
    data = (mx.sym.identity(mx.sym.var("data"), name="id") - 127.5) * 0.0078125
    body = _prelu(_norm(_convolution(data, filters[0], "conv0"), "bn0"), "relu0")
    for stage, (count, channels) in enumerate(zip(units, filters[1:])):
        for unit in range(count):
            body = _unit(body, channels, (1, 1) if unit else (2, 2), bool(unit), f"stage{stage + 1}_unit{unit + 1}")
    body = mx.sym.Dropout(_norm(body, "bn1"), p=0.4)
    body = mx.sym.FullyConnected(body, num_hidden=embedding, name="pre_fc1")
    return _norm(body, "fc1", fix_gamma=True)


def save(prefix, symbol, rng, **shapes):
    """Write symbol JSON and drawn parameters. Convolutions keep the size of what they read."""
    arguments, _, states = symbol.infer_shape(**shapes)
    sizes = {**{f"arg:{name}": size for name, size in zip(symbol.list_arguments(), arguments) if name not in shapes},
             **{f"aux:{name}": size for name, size in zip(symbol.list_auxiliary_states(), states)}}
    arrays = {name: mx.nd.array(_drawn(name, size, rng)) for name, size in sizes.items()}
    symbol.save(f"{prefix}-symbol.json")
    mx.nd.save(f"{prefix}-0000.params", arrays)
    return str(prefix)


def _drawn(name, size, rng):
    if name.endswith("weight"):
        return rng.normal(0, (2 / np.prod(size[1:])) ** 0.5, size)
    if "relu" in name:
        return rng.uniform(0.2, 0.3, size)
    low, high = {"gamma": (0.6, 1.2), "var": (0.5, 1.5)}.get(name.rsplit("_", 1)[1], (-0.2, 0.2))
    return rng.uniform(low, high, size)


class Attention(nn.HybridBlock):
    """GluonNLP's DotProductSelfAttentionCell: interleaved heads, and a softmax with lengths."""

    def __init__(self, units, heads):
        super().__init__()
        self._units, self._heads = units, heads
        with self.name_scope():
            for name in ("query", "key", "value"):
                setattr(self, f"{name}_bias", self.params.get(f"{name}_bias", shape=(units,), init="zeros"))
            for name in ("query", "key", "value"):
                setattr(self, f"{name}_weight", self.params.get(f"{name}_weight", shape=(units, units)))
            self.dropout = nn.Dropout(0.1)

    def hybrid_forward(self, F, qkv, lengths, query_bias, key_bias, value_bias, query_weight, key_weight, value_weight):
        weights = [F.reshape(each, (self._heads, -1, 0), reverse=True)
                   for each in (query_weight, key_weight, value_weight)]
        weight = F.reshape(F.concat(*weights, dim=-2), (-1, 0), reverse=True)
        biases = [F.reshape(each, (self._heads, -1), reverse=True) for each in (query_bias, key_bias, value_bias)]
        bias = F.reshape(F.stack(*biases, axis=1), (-1,))
        projected = F.FullyConnected(qkv, weight, bias, num_hidden=3 * self._units, flatten=False)
        scores = F.contrib.interleaved_matmul_selfatt_qk(projected, heads=self._heads)
        lengths = F.broadcast_axis(F.expand_dims(lengths, axis=1), axis=1, size=self._heads)
        lengths = F.reshape(lengths, (-1, 0), reverse=True)
        attended = self.dropout(F.softmax(scores, lengths, use_length=True, axis=-1))
        return F.contrib.interleaved_matmul_selfatt_valatt(projected, attended, heads=self._heads)


class Encoder(nn.HybridBlock):
    """GluonNLP's BERTEncoderCell, with its PositionwiseFFN."""

    def __init__(self, units, heads, hidden):
        super().__init__()
        with self.name_scope():
            self.attention, self.norm = Attention(units, heads), nn.LayerNorm(in_channels=units, epsilon=1e-12)
            self.proj = nn.Dense(units, in_units=units, flatten=False)
            self.ffn_1 = nn.Dense(hidden, in_units=units, flatten=False)
            self.ffn_2 = nn.Dense(units, in_units=hidden, flatten=False)
            self.gelu, self.dropout = nn.GELU(), nn.Dropout(0.1)
            self.ffn_norm = nn.LayerNorm(in_channels=units, epsilon=1e-12)

    def hybrid_forward(self, F, x, lengths):
        x = self.norm(self.dropout(self.proj(self.attention(x, lengths))) + x)
        return self.ffn_norm(self.dropout(self.ffn_2(self.gelu(self.ffn_1(x)))) + x)


class Bert(nn.HybridBlock):
    """GluonNLP's BERTModel: the encoded tokens, the pooled first one, the next sentence, and the masked tokens."""

    def __init__(self, layers=2, units=32, heads=4, hidden=64, vocabulary=50, longest=16):
        super().__init__()
        self._units, self._longest = units, longest
        with self.name_scope():
            self.words, self.types = nn.Embedding(vocabulary, units), nn.Embedding(2, units)
            self.position_weight = self.params.get("position_weight", shape=(longest, units))
            self.norm, self.dropout = nn.LayerNorm(in_channels=units, epsilon=1e-12), nn.Dropout(0.1)
            self.cells = nn.HybridSequential()
            self.cells.add(*[Encoder(units, heads, hidden) for _ in range(layers)])
            self.pooler = nn.Dense(units, activation="tanh", flatten=False)
            self.classifier = nn.Dense(2)
            self.decoder = nn.HybridSequential()
            self.decoder.add(nn.Dense(units, flatten=False), nn.GELU(), nn.LayerNorm(in_channels=units, epsilon=1e-12),
                             nn.Dense(vocabulary, flatten=False, params=self.words.collect_params()))

    def hybrid_forward(self, F, words, types, length, masked, position_weight):
        x = F.transpose(self.words(words) + self.types(types), (1, 0, 2))
        steps = F.contrib.arange_like(x, axis=0)
        lengths = F.broadcast_add(F.reshape(length, (-1, 1)), F.reshape(F.zeros_like(steps), (1, -1)))
        places = F.Embedding(steps, position_weight, input_dim=self._longest, output_dim=self._units)
        x = self.norm(self.dropout(F.broadcast_add(x, F.expand_dims(places, axis=1))))
        for cell in self.cells:
            x = cell(x, F.cast(lengths, "int32"))
        x = F.transpose(F.SequenceMask(x, length, use_sequence_length=True, axis=0), (1, 0, 2))
        pooled = self.pooler(F.reshape(F.slice(x, begin=(0, 0, 0), end=(None, 1, None)), (-1, self._units)))
        return x, pooled, self.classifier(pooled), self.decoder(self._of_places(F, x, masked))

    @staticmethod
    def _of_places(F, x, masked):
        """The encoded tokens at some places of each sentence, (batch, places, units)."""
        masked = F.cast(masked, "int32")
        count = F.cast(F.slice(F.shape_array(masked), begin=(1,), end=(2,)), "int32")
        rows = F.broadcast_div(F.contrib.arange_like(F.reshape(masked, (-1,)), axis=0), count)
        places = F.concat(F.reshape(rows, (1, -1)), F.reshape(masked, (1, -1)), dim=0)
        return F.reshape_like(F.gather_nd(x, places), masked, lhs_begin=-2, lhs_end=-1, rhs_begin=0)
