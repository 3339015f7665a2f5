"""The source that gops.export.torch writes has the classes, loops and names that an engineer would have written."""
import pathlib
import re

import gluonops as gops
import mxnet as mx
import pytest
from mxnet import gluon
from mxnet.gluon import nn

pytest.importorskip("torch")
pytest.importorskip("safetensors")


def written(net, folder, shape=(2, 4, 8, 8)):
    """The source of a net, after its comparison with MXNet."""
    mx.random.seed(3)
    net.initialize(mx.init.Normal(0.3))
    gops.export.torch(net, folder, shape)
    return (pathlib.Path(folder) / "net.py").read_text()


def classes(source):
    """The classes of the net's own, but those that stand for MXNet's layers."""
    return set(re.findall(r"^class (\w+)", source, re.M)) - {"BatchNorm", "Clip"}


def sequence(*layers):
    net = nn.HybridSequential()
    net.add(*layers)
    return net


def convolution(x, channels, name=None, size=3):
    return mx.sym.Convolution(x, kernel=(size, size), pad=(size // 2, size // 2), num_filter=channels, name=name)


def of_symbol(output):
    return gluon.SymbolBlock(output, mx.sym.var("data"))


def test_parts_of_a_row_without_names(tmp_path):
    x = mx.sym.var("data")
    for channels in (6, 8):
        x = mx.sym.relu(convolution(x, channels))
        for _ in range(3):
            inner = mx.sym.relu(convolution(x, channels // 2, size=1))
            x = mx.sym.relu(convolution(inner, channels) + x)
    source = written(of_symbol(convolution(x, 3)), tmp_path)
    assert classes(source) == {"Residual", "Net"} and "class Residual(nn.Module):" in source
    assert source.count("*(Residual(") == 2 and "return self.features(x)" in source


def test_ways_that_meet_in_a_concatenation(tmp_path):
    x = mx.sym.var("data")
    for _ in range(5):
        x = mx.sym.concat(x, mx.sym.relu(convolution(x, 2)), dim=1)
    source = written(of_symbol(convolution(x, 3)), tmp_path)
    assert "*(Block(channels) for channels in range(4, 14, 2))" in source


def test_sums_without_names_belong_to_the_scope_of_their_terms(tmp_path):
    x = mx.sym.relu(convolution(mx.sym.var("data"), 8, "first"))
    for stage, unit in ((1, 1), (1, 2), (1, 3), (2, 1), (2, 2)):
        name = f"stage{stage}_unit{unit}_"
        inner = mx.sym.relu(convolution(x, 4, name + "conv1"), name=name + "relu")
        x = convolution(inner, 8, name + "conv2") + x
    source = written(of_symbol(x), tmp_path)
    assert classes(source) == {"Unit", "Net"}
    assert "nn.Sequential(*(Unit() for _ in range(3)))" in source and "nn.Sequential(Unit(), Unit())" in source


def test_a_convolution_with_norm_and_activation_is_a_class(tmp_path):
    def layers(channels, size):
        return sequence(nn.Conv2D(channels, size, padding=size // 2), nn.BatchNorm(), nn.Activation("relu"))

    branches = gluon.contrib.nn.HybridConcurrent(axis=1)
    branches.add(layers(2, 1), sequence(layers(2, 1), layers(3, 3)))
    source = written(sequence(layers(4, 3), branches, layers(4, 1)), tmp_path)
    assert classes(source) == {"ConvBlock", "Concurrent", "Net"}
    assert "self.branch1 = ConvBlock(4, 2, 1)" in source and "padding=kernel_size // 2" in source


class Grouped(nn.HybridBlock):
    """Channels in groups, which are shuffled: their numbers are in its forward."""

    def __init__(self, channels, scale):
        super().__init__()
        self.channels, self.scale = channels, scale
        self.layer = nn.Conv2D(2 * channels, 1)

    def hybrid_forward(self, F, x):
        x = F.reshape(self.layer(x), (0, -4, 2, self.channels, 0, 0))
        return F.reshape(F.swapaxes(x, 1, 2), (0, -3, 0, 0)) * self.scale


def test_numbers_of_forward_are_arguments(tmp_path):
    source = written(sequence(Grouped(6, 0.5), Grouped(12, 0.25)), tmp_path)
    assert classes(source) == {"Grouped", "Net"}
    assert "Grouped(4, 12, 0.5)" in source and "self.scale = scale" in source and "self.out_channels // 2" in source


def test_a_sum_is_no_class(tmp_path):
    class Sum(nn.HybridBlock):
        def hybrid_forward(self, F, x, y):
            return F.relu(x + y)

    class Twice(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.layer, self.sum = nn.Conv2D(4, 1), Sum()

        def hybrid_forward(self, F, x):
            return self.sum(self.layer(x), F.identity(x))

    source = written(Twice(), tmp_path)
    assert classes(source) == {"Net"} and "return F.relu(self.layer(x) + x)" in source


def test_parameter_groups_name_modules(tmp_path):
    """They name no parameters if all of a module have the same multipliers. Constants are buffers, and in no group."""
    net = sequence(nn.Conv2D(4, 1), sequence(nn.Conv2D(4, 1), nn.BatchNorm(), nn.Dropout(0.1)), nn.Conv2D(4, 1))
    net[1].collect_params().setattr("lr_mult", 10.0)
    net[2].bias.lr_mult = 2.0
    source = written(net, tmp_path)
    assert 'MULTIPLIERS = {"layers.": (10.0, 1.0), "conv2.bias": (2.0, 1.0)}' in source and "FROZEN = []" in source


def test_images_of_a_net_that_takes_one_only(tmp_path):
    """The sizes of images are free in spite of it, also where some of them become alike."""
    class One(nn.HybridBlock):
        def hybrid_forward(self, F, x):
            x = F.Pooling(x, kernel=(3, 3), stride=(32, 32), pad=(1, 1), pool_type="max")
            return F.broadcast_add(F.reshape(x, (1, -1, 4)), F.zeros((1, 1, 4)))

    assert "reshape(1, -1, 4)" in written(One(), tmp_path, (1, 4, 64, 64))


class Squeeze(nn.HybridBlock):
    def __init__(self, channels, inner):
        super().__init__()
        self.down, self.up = nn.Conv2D(inner, 1, activation="relu"), nn.Conv2D(channels, 1, activation="sigmoid")

    def hybrid_forward(self, F, x):
        weights = self.up(self.down(F.mean(x, axis=(2, 3), keepdims=True)))
        return F.broadcast_mul(x, F.slice_like(weights, x * 0, axes=(0,)))


def test_names_of_arguments_and_values(tmp_path):
    """A layer of Gluon's with an activation is a layer, and only the sizes of what slice_like follows are read."""
    class Scales(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.stem, self.level1, self.level2 = nn.Conv2D(4, 1), Squeeze(4, 2), Squeeze(4, 3)

        def hybrid_forward(self, F, x):
            x = self.stem(x)
            level1 = self.level1(x)
            return level1, self.level2(level1) + x

    source = written(Scales(), tmp_path)
    assert classes(source) == {"Squeeze", "Net"} and "def __init__(self, hidden_channels):" in source
    assert source.count("nn.Sequential(") == 1 and "level1 = self.level1(x)" in source and "* 0" not in source


class Loops(nn.HybridBlock):
    """It joins scores as gluoncv's SSD does, and repeats a step as Darknet's suppression does."""

    def hybrid_forward(self, F, x):
        def channel(k):
            return F.slice_axis(images, axis=1, begin=k, end=k + 1)

        images = x
        x = F.concat(*[F.concat(channel(k), F.exp(F.sin(channel(k + 1)))) for k in range(3)], dim=0)
        for _ in range(4):
            x = F.sin(x) * x
        return F.where(x > 0, x, -2 * F.ones_like(x))


def test_lines_that_repeat_are_loops(tmp_path):
    source = written(Loops(), tmp_path)
    assert "for i in range(3)" in source and "for _ in range(4):" in source
    assert "torch.where(x > 0, x, torch.full_like(x, -2))" in source


def test_a_number_that_grows_beside_one_that_does_not(tmp_path):
    """They are equal in the first of the modules."""
    source = written(sequence(*(nn.MaxPool2D(size, 1) for size in (1, 2, 3, 4))), tmp_path)
    assert "*(nn.MaxPool2d(channels, 1) for channels in range(1, 5, 1))" in source


def test_the_variable_of_a_loop_hides_no_input(tmp_path):
    class Sliced(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.layer = nn.Conv2D(4, 1)

        def hybrid_forward(self, F, i, other):
            def channel(k):
                return F.slice_axis(i, axis=1, begin=k, end=k + 1)

            pairs = [F.concat(channel(k), F.exp(F.sin(channel(k + 1)))) for k in range(3)]
            return self.layer(F.concat(*pairs)) + other

    class Twice(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.layer, self.sliced = nn.Conv2D(4, 1), Sliced()

        def hybrid_forward(self, F, x):
            return self.sliced(self.layer(x), F.exp(x))

    source = written(Twice(), tmp_path)
    assert "def forward(self, i, other):" in source and "i[:, i2:i2 + 1]" in source and "for i2 in range(3)" in source


def test_reshapes_that_join_or_split_axes(tmp_path):
    class Shuffled(nn.HybridBlock):
        def hybrid_forward(self, F, x):
            x = F.swapaxes(F.reshape(x, (0, -4, 2, -1, -2)), 1, 2)
            return F.maximum(F.reshape(x, (0, -3, -2)), F.reshape(F.reshape(x, (0, 4, -1)), (0, 0, 8, 8)))

    source = written(Shuffled(), tmp_path)
    assert "x.unflatten(1, (2, 2)).transpose(1, 2)" in source and "x.flatten(1, 2)" in source
    assert "larger(" in source and "torch.maximum, but between equal numbers" in source
