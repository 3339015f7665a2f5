"""Plain Blocks as MXNet's own book writes them after ``npx.set_np()``, in forms that other trial nets lack."""
import mxnet as mx
from mxnet import autograd, np, npx
from mxnet.gluon import Block, nn, rnn


class Encoder(Block):
    def __init__(self, words, units):
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(words, units), rnn.GRU(units, num_layers=2)

    def forward(self, x):
        x = self.embedding(x).swapaxes(0, 1)
        return self.rnn(x, self.rnn.begin_state(batch_size=x.shape[1], ctx=x.ctx))


class Translator(Block):
    """The decoder reads the last state of the encoder in each step: a broadcast that adds an axis."""

    def __init__(self, words=12, units=6):
        super().__init__()
        self.encoder, self.embedding = Encoder(words, units), nn.Embedding(words, units)
        self.rnn, self.dense = rnn.GRU(units, num_layers=2), nn.Dense(words, flatten=False)

    def forward(self, source, target):
        _, state = self.encoder(source)
        x, context = self.embedding(target).swapaxes(0, 1), state[0][-1]
        context = np.broadcast_to(context, (x.shape[0], context.shape[0], context.shape[1]))
        output, state = self.rnn(np.concatenate((x, context), 2), state)
        return self.dense(output).swapaxes(0, 1), state


class Scratch(Block):
    """A GRU whose weights are a list of arrays, with a loop over the steps, and its state as an input."""

    def __init__(self, words=9, units=5):
        super().__init__()
        self.words = words
        self.weights = [np.random.normal(scale=0.3, size=shape) for shape in 3 * [(words, units), (units, units)]]
        self.bias, self.out = np.zeros(units), np.random.normal(size=(units, words))

    def forward(self, x, state):
        x_update, h_update, x_reset, h_reset, x_new, h_new = self.weights
        outputs = []
        for step in npx.one_hot(x.T, self.words):
            update = npx.sigmoid(np.dot(step, x_update) + np.dot(state, h_update) + self.bias)
            reset = npx.sigmoid(np.dot(step, x_reset) + np.dot(state, h_reset) + self.bias)
            new = np.tanh(np.dot(step, x_new) + np.dot(reset * state, h_new) + self.bias)
            state = update * state + (1 - update) * new
            outputs.append(np.dot(state, self.out))
        return np.concatenate(outputs, axis=0), (state,)


class BatchNorm(Block):
    """It keeps its running statistics as attributes, which each call sets anew."""

    def __init__(self, channels):
        super().__init__()
        self.gamma = self.params.get("gamma", shape=(1, channels, 1, 1), init=mx.init.One())
        self.mean, self.variance = np.zeros((1, channels, 1, 1)), np.ones((1, channels, 1, 1)) * 2

    def forward(self, x):
        if autograd.is_training():
            self.mean = x.mean(axis=(0, 2, 3), keepdims=True)
            self.variance = ((x - self.mean) ** 2).mean(axis=(0, 2, 3), keepdims=True)
        self.mean = self.mean.copyto(x.ctx)
        return self.gamma.data() * (x - self.mean) / np.sqrt(self.variance + 1e-5)


class Normed(Block):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential()
        self.net.add(nn.Conv2D(4, 3), BatchNorm(4), nn.Activation("sigmoid"), nn.GlobalAvgPool2D(), nn.Dense(3))

    def forward(self, x):
        return self.net(x)


class Recommender(Block):
    """Convolutions over a sequence of items, upright and level, and a product with the item asked for."""

    def __init__(self, factors=4, users=7, items=9, steps=5):
        super().__init__()
        self.users, self.items, self.asked = (
            nn.Embedding(users, factors), nn.Embedding(items, factors), nn.Embedding(items, 2 * factors))
        self.upright, self.level, self.pools = nn.Conv2D(2, (steps, 1)), nn.Sequential(), nn.Sequential()
        for height in range(1, steps + 1):
            self.level.add(nn.Conv2D(3, (height, factors)))
            self.pools.add(nn.MaxPool1D(steps - height + 1))
        self.dense = nn.Dense(factors, activation="relu")

    def forward(self, user, sequence, item):
        image = np.expand_dims(self.items(sequence), 1)
        upright = self.upright(image)
        parts = [upright.reshape(upright.shape[0], -1)]
        for convolution, pool in zip(self.level, self.pools):
            parts.append(np.squeeze(pool(np.squeeze(npx.relu(convolution(image)), axis=3)), axis=2))
        both = np.concatenate([self.dense(np.concatenate(parts, axis=1)), self.users(user)], axis=1)
        return (both * np.squeeze(self.asked(item), axis=1)).sum(1)


class Overlaps(Block):
    """The IoU of each box with each other one: two inputs with other first sizes."""

    def forward(self, boxes, others):
        def areas(corners):
            return (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
        first = np.maximum(boxes[:, None, :2], others[:, :2])
        last = np.minimum(boxes[:, None, 2:], others[:, 2:])
        sides = (last - first).clip(min=0)
        shared = sides[:, :, 0] * sides[:, :, 1]
        return shared / (areas(boxes)[:, None] + areas(others) - shared)


class Tempered(Block):
    """A distribution at a temperature, which is an input of shape ()."""

    def forward(self, temperature, scores):
        return npx.softmax(scores / temperature)


def words(rng, count, *shape):
    return np.array(rng.randint(0, count, shape))


def floats(rng, *shape):
    return np.array(rng.uniform(-1, 1, shape), dtype="float32")


def boxes(rng, count):
    return np.array(rng.uniform(0, 0.5, (count, 4)) + [0, 0, 0.5, 0.5], dtype="float32")


# What makes each net, and its inputs for a batch.
NETS = {
    "translator": (Translator, lambda rng, batch: (words(rng, 12, batch, 7), words(rng, 12, batch, 5))),
    "scratch": (Scratch, lambda rng, batch: (words(rng, 9, batch, 4), floats(rng, batch, 5))),
    "normed": (Normed, lambda rng, batch: (floats(rng, batch, 3, 8, 8),)),
    "recommender": (Recommender, lambda rng, batch: (
        words(rng, 7, batch), words(rng, 9, batch, 5), words(rng, 9, batch, 1))),
    "tempered": (Tempered, lambda rng, batch: (np.array(rng.uniform(1, 2), dtype="float32"), floats(rng, batch, 5))),
    "overlaps": (Overlaps, lambda rng, batch: (boxes(rng, batch), boxes(rng, 4))),
}
