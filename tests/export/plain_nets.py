"""Nets as plain Blocks that cannot be hybridized: they read shapes, loop over steps, and keep arrays as attributes.

They are small nets of the kinds that books teach: recurrent encoders and decoders with attention, transformers, BERT, a
small SSD, natural language inference and a convolution over text. The ones of MXNet's NumPy interface are below.
"""
from __future__ import annotations

import math

import mxnet as mx
import numpy as np
from mxnet import nd
from mxnet.gluon import Block, nn, rnn

FAR = -1e6


def masked_softmax(scores, lengths):
    """A softmax over the last axis of (batch, queries, keys) in which keys behind a row's length count nothing."""
    positions = nd.arange(scores.shape[-1]).reshape((1, 1, -1))
    is_valid = positions < lengths.astype("float32").reshape((-1, 1, 1))
    return nd.softmax(nd.where(nd.broadcast_like(is_valid, scores), scores, nd.full(scores.shape, FAR)), axis=-1)


class AdditiveAttention(Block):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.of_query = nn.Dense(units, flatten=False, use_bias=False)
            self.of_key = nn.Dense(units, flatten=False, use_bias=False)
            self.score = nn.Dense(1, flatten=False, use_bias=False)

    def forward(self, query, keys, values, lengths):
        features = nd.tanh(nd.broadcast_add(self.of_query(query).expand_dims(2), self.of_key(keys).expand_dims(1)))
        scores = self.score(features).squeeze(axis=3)
        return nd.batch_dot(masked_softmax(scores, lengths), values)


class Translator(Block):
    """An encoder and a decoder of GRUs with attention, which runs step by step."""

    def __init__(self, words=20, units=8, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.source = nn.Embedding(words, units)
            self.target = nn.Embedding(words, units)
            self.encoder = rnn.GRU(units, input_size=units)
            self.attention = AdditiveAttention(units)
            self.cell = rnn.GRUCell(units, input_size=2 * units)
            self.out = nn.Dense(words, flatten=False)

    def forward(self, source, target, lengths):
        inputs = self.source(source).swapaxes(0, 1)
        state = self.encoder.begin_state(batch_size=source.shape[0], ctx=source.context)
        memory, state = self.encoder(inputs, state)
        memory, hidden = memory.swapaxes(0, 1), state[0][-1]
        steps = []
        for word in self.target(target).swapaxes(0, 1):
            context = self.attention(hidden.expand_dims(1), memory, memory, lengths)
            output, (hidden,) = self.cell(nd.concat(context.squeeze(axis=1), word, dim=1), [hidden])
            steps.append(output)
        return self.out(nd.stack(*steps, axis=1)), hidden


class Attention(Block):
    """Attention with several heads, which are a part of the batch while it computes."""

    def __init__(self, units, heads, **kwargs):
        super().__init__(**kwargs)
        self.heads = heads
        with self.name_scope():
            self.of_query, self.of_key, self.of_value, self.out = (
                nn.Dense(units, flatten=False, use_bias=False) for _ in range(4))

    def split(self, x):
        x = x.reshape((x.shape[0], x.shape[1], self.heads, -1)).transpose((0, 2, 1, 3))
        return x.reshape((-1, x.shape[2], x.shape[3]))

    def forward(self, query, memory, lengths):
        query, key, value = self.split(self.of_query(query)), self.split(self.of_key(memory)), self.split(
            self.of_value(memory))
        scores = nd.batch_dot(query, key, transpose_b=True) / math.sqrt(query.shape[-1])
        if lengths is not None:
            scores = self.masked(scores, lengths)
        mixed = nd.batch_dot(nd.softmax(scores, axis=-1), value)
        mixed = mixed.reshape((-1, self.heads, mixed.shape[1], mixed.shape[2])).transpose((0, 2, 1, 3))
        return self.out(mixed.reshape((mixed.shape[0], mixed.shape[1], -1)))

    def masked(self, scores, lengths):
        lengths = lengths.repeat(self.heads, axis=0)
        if lengths.ndim == 1:
            lengths = lengths.repeat(scores.shape[1]).reshape((-1, scores.shape[1]))
        flat = nd.SequenceMask(scores.reshape((-1, scores.shape[-1])), lengths.reshape((-1,)), True, value=FAR, axis=1)
        return flat.reshape(scores.shape)


class Layer(Block):
    """A layer of a transformer. A decoder's reads a memory too."""

    def __init__(self, units, heads, has_memory=False, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.attention, self.first = Attention(units, heads), nn.LayerNorm()
            self.wide, self.narrow = nn.Dense(2 * units, flatten=False, activation="relu"), nn.Dense(
                units, flatten=False)
            self.last = nn.LayerNorm()
            if has_memory:
                self.across, self.middle = Attention(units, heads), nn.LayerNorm()

    def forward(self, x, lengths, memory=None, memory_lengths=None):
        x = self.first(x + self.attention(x, x, lengths))
        if memory is not None:
            x = self.middle(x + self.across(x, memory, memory_lengths))
        return self.last(x + self.narrow(self.wide(x)))


class Positions(Block):
    """Sines and cosines of the positions, up to ``most``, in an array that the block keeps."""

    def __init__(self, units, most=50, **kwargs):
        super().__init__(**kwargs)
        angles = np.arange(most)[:, None] / 100 ** (np.arange(0, units, 2) / units)
        self.table = nd.zeros((1, most, units))
        self.table[:, :, 0::2] = np.sin(angles)[None]
        self.table[:, :, 1::2] = np.cos(angles)[None]

    def forward(self, x):
        return x + self.table[:, :x.shape[1], :].as_in_context(x.context)


class Transformer(Block):
    def __init__(self, words=20, units=8, heads=2, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        with self.name_scope():
            self.words, self.positions = nn.Embedding(words, units), Positions(units)
            self.encoder, self.decoder = Layer(units, heads), Layer(units, heads, has_memory=True)
            self.out = nn.Dense(words, flatten=False)

    def forward(self, source, target, lengths):
        memory = self.encoder(self.positions(self.words(source) * math.sqrt(self.units)), lengths)
        batch, steps = target.shape
        past = nd.tile(nd.arange(1, steps + 1), (batch, 1))   # Each word sees those in front of it.
        return self.out(self.decoder(self.positions(self.words(target)), past, memory, lengths))


class Bert(Block):
    def __init__(self, words=30, units=8, heads=2, most=20, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.words, self.segments = nn.Embedding(words, units), nn.Embedding(2, units)
            self.places = self.params.get("places", shape=(1, most, units))
            self.layers = nn.Sequential()
            for _ in range(2):
                self.layers.add(Layer(units, heads))
            self.hidden, self.norm = nn.Dense(units, flatten=False, activation="relu"), nn.LayerNorm()
            self.word, self.follows = nn.Dense(words, flatten=False), nn.Dense(2)

    def forward(self, tokens, segments, lengths, masked):
        x = self.words(tokens) + self.segments(segments)
        x = x + self.places.data(x.context)[:, :x.shape[1], :]
        for layer in self.layers:
            x = layer(x, lengths)
        count, batch = masked.shape[1], nd.arange(0, tokens.shape[0])
        rows = nd.repeat(batch, repeats=count)
        chosen = nd.gather_nd(x, nd.stack(rows, masked.astype("float32").reshape((-1,))))
        chosen = chosen.reshape((-1, count, x.shape[-1]))
        return x, self.word(self.norm(self.hidden(chosen))), self.follows(x[:, 0, :])


class TinySSD(Block):
    """Anchors, classes and boxes of three scales."""

    def __init__(self, classes=2, **kwargs):
        super().__init__(**kwargs)
        self.classes, anchors = classes, 3
        self.scales = [((0.2, 0.3), (1, 2)), ((0.4, 0.5), (1, 2)), ((0.7, 0.8), (1, 2))]
        with self.name_scope():
            for number in range(3):
                stage = nn.Sequential()
                stage.add(nn.Conv2D(4 + number, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(2))
                setattr(self, f"stage{number}", stage)
                setattr(self, f"class{number}", nn.Conv2D(anchors * (classes + 1), 3, padding=1))
                setattr(self, f"box{number}", nn.Conv2D(anchors * 4, 3, padding=1))

    def forward(self, x):
        anchors, classes, boxes = [], [], []
        for number, (sizes, ratios) in enumerate(self.scales):
            x = getattr(self, f"stage{number}")(x)
            anchors.append(nd.contrib.MultiBoxPrior(x, sizes=sizes, ratios=ratios))
            for parts, name in ((classes, "class"), (boxes, "box")):
                parts.append(getattr(self, f"{name}{number}")(x).transpose((0, 2, 3, 1)).flatten())
        classes = nd.concat(*classes, dim=1)
        return nd.concat(*anchors, dim=1), classes.reshape((classes.shape[0], -1, self.classes + 1)), nd.concat(
            *boxes, dim=1)


class Inference(Block):
    """Whether one text follows from another: attend, compare, aggregate."""

    def __init__(self, words=20, units=8, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.words = nn.Embedding(words, units)
            self.attend, self.compare = self.mlp(units, False), self.mlp(units, False)
            self.aggregate, self.out = self.mlp(units, True), nn.Dense(3)

    def mlp(self, units, flatten):
        net = nn.Sequential()
        net.add(nn.Dropout(0.2), nn.Dense(units, activation="relu", flatten=flatten))
        net.add(nn.Dropout(0.2), nn.Dense(units, activation="relu", flatten=flatten))
        return net

    def forward(self, texts):
        one, two = (self.words(text) for text in texts)
        scores = nd.batch_dot(self.attend(one), self.attend(two), transpose_b=True)
        of_two = nd.batch_dot(nd.softmax(scores), two)
        of_one = nd.batch_dot(nd.softmax(scores.transpose((0, 2, 1))), one)
        sums = [self.compare(nd.concat(a, b, dim=2)).sum(axis=1) for a, b in ((one, of_two), (two, of_one))]
        return self.out(self.aggregate(nd.concat(*sums, dim=1)))


class TextCNN(Block):
    def __init__(self, words=20, units=6, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.words, self.constant = nn.Embedding(words, units), nn.Embedding(words, units)
            self.dropout, self.out, self.pool = nn.Dropout(0.5), nn.Dense(2), nn.GlobalMaxPool1D()
            self.convolutions = nn.Sequential()
            for width, channels in ((3, 4), (4, 5), (5, 6)):
                self.convolutions.add(nn.Conv1D(channels, width, activation="relu"))

    def forward(self, x):
        x = nd.concat(self.words(x), self.constant(x), dim=2).transpose((0, 2, 1))
        parts = [self.pool(convolution(x)).squeeze(axis=-1) for convolution in self.convolutions]
        return self.out(self.dropout(nd.concat(*parts, dim=1)))


def words(rng, *shape):
    return nd.array(rng.randint(0, 20, shape))


def lengths(*numbers):
    return nd.array(numbers, dtype="int32")


# The nets with the inputs that they are recorded with.
NETS = {
    "translator": lambda rng: (Translator(), (words(rng, 2, 7), words(rng, 2, 3), lengths(4, 7))),
    "transformer": lambda rng: (Transformer(), (words(rng, 2, 7), words(rng, 2, 5), lengths(4, 7))),
    "bert": lambda rng: (Bert(), (words(rng, 2, 9), nd.array(rng.randint(0, 2, (2, 9))), lengths(6, 9),
                                  nd.array([[1, 3, 5], [2, 7, 8]], dtype="int32"))),
    "tiny_ssd": lambda rng: (TinySSD(), (nd.array(rng.randn(2, 3, 32, 32)),)),
    "inference": lambda rng: (Inference(), ([words(rng, 2, 5), words(rng, 2, 6)],)),
    "text_cnn": lambda rng: (TextCNN(), (words(rng, 2, 9),)),
}


class NumpyAttention(Block):
    """Attention of mx.np, with a mask of booleans."""

    def __init__(self, units=8, heads=2, **kwargs):
        super().__init__(**kwargs)
        self.heads = heads
        with self.name_scope():
            self.dense, self.out = nn.Dense(units, flatten=False), nn.Dense(units, flatten=False)
            self.norm = nn.LayerNorm()

    def forward(self, x, valid_len):
        batch, steps, _ = x.shape
        h = self.dense(x).reshape(batch, steps, self.heads, -1).transpose(0, 2, 1, 3)
        scores = mx.np.matmul(h, h.swapaxes(2, 3)) / math.sqrt(h.shape[-1])
        is_valid = mx.np.arange(steps).reshape(1, 1, 1, -1) < valid_len.reshape(-1, 1, 1, 1)
        scores = mx.np.where(is_valid, scores, mx.np.full_like(scores, FAR))
        h = mx.np.matmul(mx.npx.softmax(scores, axis=-1), h).transpose(0, 2, 1, 3).reshape(batch, steps, -1)
        return self.norm(self.out(h) + h), mx.np.tensordot(h[0], h[-1], axes=([1], [1]))


class NumpyRNN(Block):
    """A recurrent net whose weights are arrays of its own, and not Parameters."""

    def __init__(self, words=10, units=6, **kwargs):
        super().__init__(**kwargs)
        rng = np.random.RandomState(0)
        self.size, self.units = words, units
        self.weights = [mx.np.array(rng.randn(*shape) / 3, dtype="float32")
                        for shape in ((words, units), (units, units), (units, words))]
        self.bias = mx.np.zeros(units)

    def forward(self, x, state=None):
        of_word, of_state, of_out = self.weights
        state = mx.np.zeros((x.shape[0], self.units)) if state is None else state
        outputs = []
        for step in mx.npx.one_hot(x.T, self.size):
            state = mx.np.tanh(mx.np.dot(step, of_word) + mx.np.dot(state, of_state) + self.bias)
            outputs.append(mx.np.dot(state, of_out))
        outputs = mx.np.concatenate(outputs, axis=0)
        outputs -= outputs.mean()
        return outputs, state


class NumpyPicks(Block):
    """The features of some words, which pairs of indices pick, as in a masked language model."""

    def __init__(self, words=20, units=6, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.words, self.out = nn.Embedding(words, units), nn.Dense(words, flatten=False)
            self.places = self.params.get("places", shape=(1, 30, units))

    def forward(self, tokens, masked):
        x = self.words(tokens) + self.places.data()[:, :tokens.shape[1], :]
        batch, count = masked.shape
        rows = mx.np.repeat(mx.np.arange(0, batch), count)
        return self.out(x[rows, masked.reshape(-1)].reshape(batch, count, -1)), x[:, 0, :]


class NumpyTextCNN(TextCNN):
    def forward(self, x):
        x = mx.np.concatenate([self.words(x), self.constant(x)], axis=2).transpose(0, 2, 1)
        parts = [mx.np.squeeze(self.pool(convolution(x)), axis=-1) for convolution in self.convolutions]
        return self.out(self.dropout(mx.np.concatenate(parts, axis=1)))


NUMPY_NETS = {
    "attention": lambda rng: (NumpyAttention(), (mx.np.array(rng.randn(2, 5, 4), dtype="float32"),
                                                 mx.np.array([3, 5]))),
    "picks": lambda rng: (NumpyPicks(), (mx.np.array(rng.randint(0, 20, (2, 7))),
                                         mx.np.array([[1, 2, 5], [3, 4, 6]], dtype="int32"))),
    "rnn": lambda rng: (NumpyRNN(), (mx.np.array(rng.randint(0, 10, (2, 4))),)),
    "text_cnn": lambda rng: (NumpyTextCNN(), (mx.np.array(rng.randint(0, 20, (2, 9))),)),
}
