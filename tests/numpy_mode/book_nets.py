"""Nets as MXNet's own book writes them after ``npx.set_np()``: layers of Gluon, and operators of npx and np."""
import math

import mxnet as mx
from mxnet import gluon
from mxnet.gluon import nn, rnn

IMAGES = (2, 3, 16, 16)


class MLP(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.hidden, self.output = nn.Dense(16), nn.Dense(4)

    def hybrid_forward(self, F, x):
        return self.output(F.npx.relu(self.hidden(x)))


def linear():
    net = nn.HybridSequential()
    net.add(nn.Dense(1))
    return net


def lenet():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, kernel_size=5, padding=2, activation="sigmoid"), nn.AvgPool2D(pool_size=2, strides=2),
            nn.Conv2D(8, kernel_size=5, activation="sigmoid"), nn.AvgPool2D(pool_size=2, strides=2),
            nn.Dense(12, activation="sigmoid"), nn.Dense(10))
    return net


def nin():
    net = nn.HybridSequential()
    for channels in (8, 10):
        net.add(nn.Conv2D(channels, 3, padding=1, activation="relu"), nn.Conv2D(channels, 1, activation="relu"),
                nn.Conv2D(channels, 1, activation="relu"), nn.MaxPool2D(pool_size=3, strides=2))
    net.add(nn.Dropout(0.5), nn.GlobalAvgPool2D(), nn.Flatten())
    return net


def vgg():
    net = nn.HybridSequential()
    for channels in (6, 8):
        for _ in range(2):
            net.add(nn.Conv2D(channels, kernel_size=3, padding=1, activation="relu"))
        net.add(nn.MaxPool2D(pool_size=2, strides=2))
    net.add(nn.Dense(16, activation="relu"), nn.Dropout(0.5), nn.Dense(10))
    return net


class Inception(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.p1_1 = nn.Conv2D(4, kernel_size=1, activation="relu")
        self.p2_1 = nn.Conv2D(3, kernel_size=1, activation="relu")
        self.p2_2 = nn.Conv2D(4, kernel_size=3, padding=1, activation="relu")
        self.p3_1 = nn.MaxPool2D(pool_size=3, strides=1, padding=1)
        self.p3_2 = nn.Conv2D(4, kernel_size=1, activation="relu")

    def hybrid_forward(self, F, x):
        return F.np.concatenate((self.p1_1(x), self.p2_2(self.p2_1(x)), self.p3_2(self.p3_1(x))), axis=1)


class Residual(gluon.HybridBlock):
    def __init__(self, channels=8, use_1x1conv=True, strides=2):
        super().__init__()
        self.conv1 = nn.Conv2D(channels, kernel_size=3, padding=1, strides=strides)
        self.conv2 = nn.Conv2D(channels, kernel_size=3, padding=1)
        self.conv3 = nn.Conv2D(channels, kernel_size=1, strides=strides) if use_1x1conv else None
        self.bn1, self.bn2 = nn.BatchNorm(), nn.BatchNorm()

    def hybrid_forward(self, F, x):
        y = F.npx.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.conv3:
            x = self.conv3(x)
        return F.npx.relu(y + x)


def resnet():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, kernel_size=3, padding=1), nn.BatchNorm(), nn.Activation("relu"), Residual(8, False, 1),
            Residual(12), nn.GlobalAvgPool2D(), nn.Dense(10))
    return net


class DenseBlock(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.net = nn.HybridSequential()
        for _ in range(2):
            block = nn.HybridSequential()
            block.add(nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(4, kernel_size=3, padding=1))
            self.net.add(block)

    def hybrid_forward(self, F, x):
        for block in self.net:
            x = F.np.concatenate((x, block(x)), axis=1)
        return x


class LanguageModel(gluon.HybridBlock):
    """The states begin with zeros of the right batch, which the caller passes: see the page on NumPy mode."""

    def __init__(self, layer, states):
        super().__init__()
        self.embedding, self.rnn, self.dense = nn.Embedding(20, 8), layer, nn.Dense(20)
        self.states = states

    def hybrid_forward(self, F, tokens, *states):
        y, _ = self.rnn(F.np.swapaxes(self.embedding(tokens), 0, 1), list(states))
        return self.dense(F.np.reshape(y, (-1, 6)))


class Attention(gluon.HybridBlock):
    """Scaled dot products of one head, with positions behind ``valid_len`` masked."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Dense(8, use_bias=False, flatten=False) for _ in range(3))
        self.norm = nn.LayerNorm()

    def hybrid_forward(self, F, x):
        scores = F.npx.batch_dot(self.query(x), self.key(x), transpose_b=True) / math.sqrt(8)
        y = F.npx.batch_dot(F.npx.softmax(scores), self.value(x))
        return self.norm(y) + F.np.mean(y, axis=1, keepdims=True)


class Heads(gluon.HybridBlock):
    """Attention of two heads as the book transposes them."""

    def __init__(self):
        super().__init__()
        self.query, self.output = nn.Dense(8, flatten=False), nn.Dense(6, flatten=False)

    def hybrid_forward(self, F, x):
        q = F.npx.reshape(self.query(x), (-2, -2, 2, -1)).transpose(0, 2, 1, 3)
        scores = F.npx.softmax(F.np.matmul(q, q.transpose(0, 1, 3, 2)) / 2.0)
        y = F.np.matmul(scores, q).transpose(0, 2, 1, 3)
        return self.output(F.npx.reshape(y, (-2, -2, -5)))


def fcn():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, strides=2, padding=1, activation="relu"), nn.Conv2D(5, kernel_size=1),
            nn.Conv2DTranspose(5, kernel_size=4, padding=1, strides=2))
    return net


class Losses(gluon.HybridBlock):
    """What the losses of Gluon compute, as a net that returns numbers."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4)

    def hybrid_forward(self, F, x):
        y = self.dense(x)
        squared = F.np.square(y - F.np.ones_like(y)) / 2
        distance = F.np.abs(y).mean(axis=1)
        cross = -F.np.log(F.npx.softmax(y) + 1e-6).sum(axis=-1)
        return squared.mean(), distance, cross, F.np.exp(-y), F.npx.sigmoid(y) * 1.5, F.np.tanh(1 - y) ** 2


class Mixed(gluon.HybridBlock):
    """Operators that have no legacy sibling: truth values, an argmax of int64, dots of many axes, numbers."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(6)

    def hybrid_forward(self, F, x):
        y = self.dense(x)
        chosen = F.np.where(y > 0.1, y, F.np.zeros_like(y))
        cube = F.np.reshape(chosen, (-1, 2, 3))
        return (F.np.argmax(y, axis=1), F.np.dot(cube, cube[0].transpose()),
                F.np.tensordot(cube, cube, axes=([1], [1])), F.np.einsum("bij,bkj->bik", cube, cube),
                F.np.max(y) + F.np.min(y), F.np.std(y, axis=1))


def recurrent(layer, count, mode):
    states = {f"state{number}": (1, 3, 6) for number in range(count)}
    return lambda: LanguageModel(getattr(rnn, layer)(6, **mode), states), {"data": (3, 5), **states}


NETS = {
    "linear": (linear, (4, 3)), "mlp": (MLP, (4, 5)), "lenet": (lenet, (2, 1, 20, 20)), "nin": (nin, IMAGES),
    "vgg": (vgg, IMAGES), "inception": (Inception, IMAGES), "resnet": (resnet, IMAGES),
    "densenet": (DenseBlock, IMAGES), "rnn": recurrent("RNN", 1, {"activation": "tanh"}),
    "gru": recurrent("GRU", 1, {}), "lstm": recurrent("LSTM", 2, {}),
    "attention": (Attention, (2, 4, 6)), "heads": (Heads, (2, 4, 6)), "fcn": (fcn, IMAGES), "losses": (Losses, (3, 5)),
    "mixed": (Mixed, (3, 5)),
}
OF_NUMPY = ("losses", "mixed")   # they return numbers, or truth values


def made(name, hybridize=True):
    """Return a net, made and run in the NumPy mode in force: net, inputs, outputs, and shapes by name."""
    mx.random.seed(1)
    make, shapes = NETS[name]
    net = make()
    net.initialize(mx.init.Xavier())
    shapes = shapes if isinstance(shapes, dict) else {"data": shapes}
    inputs = [mx.np.random.uniform(-1, 1, shape) for shape in shapes.values()]
    if "state0" in shapes:
        inputs[0] = mx.np.array([[(3 * row + column) % 20 for column in range(5)] for row in range(3)])
    outputs = net(*inputs)
    if hybridize:
        net.hybridize()
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    return net, [each.asnumpy() for each in inputs], [each.asnumpy() for each in outputs], shapes
