"""gops.convert.from_torch: Gluon nets with weights of PyTorch compute the same, and what does not fit is named."""
import doctest

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet.gluon import nn
from mxnet.gluon.model_zoo import vision

torch = pytest.importorskip("torch")
torch.set_num_threads(1)


def conv_norm(inputs, outputs, kernel, stride=1):
    return torch.nn.Sequential(torch.nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
                               torch.nn.BatchNorm2d(outputs))


class BasicBlock(torch.nn.Module):
    """torchvision's, with the names of its layers."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(outputs)
        self.conv2 = torch.nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(outputs)
        self.downsample = conv_norm(inputs, outputs, 1, stride) if stride > 1 or inputs != outputs else None

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(x + shortcut)


class ResNet(torch.nn.Module):
    """torchvision's resnet18, narrow."""

    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 8, 7, 2, 3, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(8)
        self.maxpool = torch.nn.MaxPool2d(3, 2, 1)
        self.layer1 = torch.nn.Sequential(BasicBlock(8, 8, 1), BasicBlock(8, 8, 1))
        self.layer2 = torch.nn.Sequential(BasicBlock(8, 16, 2), BasicBlock(16, 16, 1))
        self.layer3 = torch.nn.Sequential(BasicBlock(16, 24, 2), BasicBlock(24, 24, 1))
        self.layer4 = torch.nn.Sequential(BasicBlock(24, 32, 2), BasicBlock(32, 32, 1))
        self.fc = torch.nn.Linear(32, classes)

    def forward(self, x):
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class Fire(torch.nn.Module):
    def __init__(self, inputs, squeezed, outputs):
        super().__init__()
        self.squeeze = torch.nn.Conv2d(inputs, squeezed, 1)
        self.expand1x1 = torch.nn.Conv2d(squeezed, outputs, 1)
        self.expand3x3 = torch.nn.Conv2d(squeezed, outputs, 3, padding=1)

    def forward(self, x):
        x = torch.relu(self.squeeze(x))
        return torch.relu(torch.cat([self.expand1x1(x), self.expand3x3(x)], 1))


class SqueezeNet(torch.nn.Module):
    """torchvision's squeezenet1_1: its layers are numbered, activations and poolings included."""

    def __init__(self):
        super().__init__()
        pool = torch.nn.MaxPool2d(3, 2, ceil_mode=True)
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(3, 64, 3, 2), torch.nn.ReLU(), pool, Fire(64, 16, 64), Fire(128, 16, 64), pool,
            Fire(128, 32, 128), Fire(256, 32, 128), pool, Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256),
            Fire(512, 64, 256))
        self.classifier = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Conv2d(512, 10, 1), torch.nn.ReLU(),
                                              torch.nn.AdaptiveAvgPool2d(1))

    def forward(self, x):
        return self.classifier(self.features(x)).flatten(1)


class Sequence(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(20, 6)
        self.lstm = torch.nn.LSTM(6, 6, num_layers=2, bidirectional=True)
        self.norm = torch.nn.LayerNorm(12)
        self.head = torch.nn.Conv1d(12, 3, 1)   # a dense layer in the other net

    def forward(self, x):
        x = self.norm(self.lstm(self.embedding(x.long()))[0])
        return self.head(x.permute(1, 2, 0)).permute(2, 0, 1)


class GluonSequence(nn.HybridBlock):
    def __init__(self):
        super().__init__()
        self.output = nn.Dense(3, flatten=False)
        self.body = nn.HybridSequential()
        self.body.add(nn.Embedding(20, 6), mx.gluon.rnn.LSTM(6, num_layers=2, bidirectional=True), nn.LayerNorm())

    def hybrid_forward(self, F, x):
        return self.output(self.body(x))


def gluon_resnet(classes=10):
    block = vision.resnet.BasicBlockV1
    return vision.ResNetV1(block, [2, 2, 2, 2], [8, 8, 16, 24, 32], classes=classes)


def squeezenet():
    return vision.SqueezeNet("1.1", classes=10)


IMAGES = np.random.RandomState(0).uniform(-1, 1, (2, 3, 64, 64)).astype(np.float32)
LARGER_IMAGES = np.random.RandomState(0).uniform(-1, 1, (2, 3, 224, 224)).astype(np.float32)
TOKENS = np.random.RandomState(0).randint(0, 20, (7, 2)).astype(np.float32)
NETS = {"resnet": (ResNet, gluon_resnet, IMAGES), "squeezenet": (SqueezeNet, squeezenet, LARGER_IMAGES),
        "sequence": (Sequence, GluonSequence, TOKENS)}


def random_net(make):
    """A net of torch in evaluation mode whose parameters and states are all random."""
    torch.manual_seed(0)
    net = make().eval()
    for value in net.state_dict().values():
        if value.is_floating_point() and value.dim() == 1:
            value.uniform_(0.5, 1.5)
    return net


def initialized(net, data):
    net.initialize()
    net(mx.nd.array(data))
    return net


@pytest.mark.parametrize("name", NETS)
def test_the_outputs_agree(name):
    make, make_gluon, data = NETS[name]
    theirs, ours = random_net(make), initialized(make_gluon(), data)
    matched = gops.convert.from_torch(theirs.state_dict(), ours)
    assert set(matched.values()) == set(ours.collect_params())
    assert set(matched) == {key for key in theirs.state_dict() if not key.endswith("num_batches_tracked")}
    expected = theirs(torch.from_numpy(data)).detach().numpy()
    np.testing.assert_allclose(ours(mx.nd.array(data)).asnumpy(), expected, rtol=1e-3, atol=1e-4)


def test_there_and_back(tmp_path):
    """What gops.export.torch writes fills a new net with the old weights."""
    from safetensors.numpy import load_file
    _, make, data = NETS["resnet"]
    mx.random.seed(1)
    net, other = initialized(make(), data), initialized(make(), data)
    gops.export.torch(net, tmp_path, data.shape)
    gops.convert.from_torch(load_file(tmp_path / "net.safetensors"), other)
    for one, two in zip(net.collect_params().values(), other.collect_params().values()):
        assert (one.data() == two.data()).min() == 1, one.name


def projections(order):
    """A block of two equal layers with names."""
    block = nn.HybridSequential()
    for name in order:
        block.register_child(nn.Dense(2, in_units=2), name)
    return block


def weights_of(names):
    """Weights and biases of dense layers: those of each layer are its number."""
    return {f"{name}.{kind}": np.full((2, 2)[:2 if kind == "weight" else 1], float(number))
            for number, name in enumerate(names) for kind in ("weight", "bias")}


@pytest.mark.parametrize("around", ["", "module.", "module.attention."])
def test_names_say_which_of_equal_layers_is_meant(around):
    """They also do inside DataParallel, which the net does not have."""
    net = projections(("query", "key"))
    net.initialize()
    gops.convert.from_torch(weights_of([f"{around}key", f"{around}query"]), net)
    assert [layer.weight.data().copy().asnumpy().max() for layer in net._children.values()] == [1, 0]


def test_names_that_do_not_agree_with_the_order_are_refused():
    """The blocks around the layers have other names, so that names alone do not match them."""
    net = nn.HybridSequential()
    net.add(projections(("query", "key")), nn.Dense(2, in_units=2))
    net.initialize()
    with pytest.raises(gops.OpError, match="key.weight and attention.query.weight have the same shape"):
        gops.convert.from_torch(weights_of(["attention.key", "attention.query", "head"]), net)


def test_a_parameter_for_each_of_equal_names():
    """A block may have parameters that Gluon's and torch's layers have under one name."""
    block = nn.HybridSequential()
    for name in ("weight", "gamma"):
        block._reg_params[name] = block.params.get(name, shape=(2,))
    block.initialize()
    gops.convert.from_torch({"weight": np.array([1, 2]), "gamma": np.array([3, 4])}, block)
    assert [parameter.data().copy().asnumpy().tolist() for parameter in block._reg_params.values()] == [[1, 2], [3, 4]]
    with pytest.raises(gops.OpError, match="without a counterpart"):
        gops.convert.from_torch({"weight": np.array([1, 2])}, block)


def test_shared_parameters_have_one_value():
    layer = nn.Dense(2, in_units=2)
    net = nn.HybridSequential()
    net.add(layer, nn.Activation("relu"), layer)
    net.initialize()
    weights = weights_of(["0", "2"])
    with pytest.raises(gops.OpError, match="layers of the net share dense.*_weight, and 0.weight and 2.weight differ"):
        gops.convert.from_torch(weights, net)
    weights.update({f"2.{kind}": weights[f"0.{kind}"] for kind in ("weight", "bias")})
    assert len(gops.convert.from_torch(weights, net)) == 4


@pytest.mark.parametrize("layer", ["blocks.", "blocks.layer"])
def test_numbered_layers_are_matched_by_number(layer):
    """Files of safetensors have their names sorted: 10 is in front of 2."""
    net = nn.HybridSequential()
    net.add(*[nn.Dense(2, in_units=2) for _ in range(11)])
    net.initialize()
    weights = {f"{layer}{number}.{kind}": np.full((2, 2)[:2 if kind == "weight" else 1], number)
               for number in sorted(range(11), key=str) for kind in ("bias", "weight")}
    gops.convert.from_torch(weights, net)
    assert [layer.weight.data().copy().asnumpy().max() for layer in net] == list(range(11))


def test_branches_are_matched_in_order():
    """Inception's branches are lists of layers in one net, and blocks in the other one."""
    net = nn.HybridSequential()
    for branch in ((2, 3), (3,), (3, 3)):
        block = nn.HybridSequential()
        block.add(*[nn.Dense(units, in_units=2 if place == 0 else branch[place - 1])
                    for place, units in enumerate(branch)])
        net.add(block)
    net.initialize()
    layers = [layer for block in net for layer in block]
    weights = {f"branch{place}.linear.{kind}": np.full(getattr(layer, kind).shape, place)
               for place, layer in enumerate(layers) for kind in ("weight", "bias")}
    gops.convert.from_torch(weights, net)
    assert [layer.weight.data().copy().asnumpy().max() for layer in layers] == list(range(len(layers)))


def test_equal_layers_in_another_order_are_refused():
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=2), nn.Dense(2, in_units=2), nn.Dense(2, in_units=2))
    net.initialize()
    shapes = {"a": (2, 2), "c": (3, 2), "b": (2, 2)}
    weights = {f"{name}.{kind}": np.zeros(shape[:2 if kind == "weight" else 1])
               for name, shape in shapes.items() for kind in ("weight", "bias")}
    with pytest.raises(gops.OpError, match="a.weight and b.weight have the same shape, and the net has such layers in"):
        gops.convert.from_torch(weights, net)


def test_what_does_not_match_is_named_and_nothing_is_changed():
    net = initialized(gluon_resnet(classes=7), IMAGES)
    before = net.output.weight.data().copy().asnumpy()
    weights = ResNet().state_dict()
    with pytest.raises(gops.OpError, match=r"fc.weight \(10, 32\), fc.bias \(10,\) without a counterpart in the net, "
                       r"and the net has "
                                           r"output.weight \(7, 32\), output.bias \(7,\)"):
        gops.convert.from_torch(weights, net)
    assert (net.output.weight.data().copy().asnumpy() == before).all()
    del weights["fc.weight"], weights["fc.bias"]
    with pytest.raises(gops.OpError, match="state_dict has nothing without"):
        gops.convert.from_torch(weights, net)


def test_what_is_refused():
    net = nn.Dense(2, in_units=3)
    with pytest.raises(gops.OpError, match="dense.*_weight of Dense has no values yet"):
        gops.convert.from_torch({}, net)
    net.initialize()
    nested = {"state_dict": {}}
    for wrong, text in ((ResNet(), "state_dict is ResNet"), (nested, r"state_dict\['state_dict'\] is dict"),
                        ({0: torch.ones(2, 3)}, "state_dict has the name 0; expected one such as"),
                        ({"weight": torch.ones(2, 3).to_sparse()}, r"state_dict\['weight'\] cannot be read: .*parse"),
                        ({"weight": mx.nd.ones((2, 3))}, r"state_dict\['weight'\] is NDArray; expected a tensor"),
                        ({"dtype": torch.qint8}, r"state_dict\['dtype'\] is dtype; expected a tensor"),
                        ({"weight": torch.ones(2, 3) * 1j}, r"\['weight'\] is of complex64; expected real numbers")):
        with pytest.raises(gops.OpError, match=text):
            gops.convert.from_torch(wrong, net)
    convolution = nn.Conv2D(3, 3, in_channels=3, layout="NHWC")
    convolution.initialize()
    with pytest.raises(gops.OpError, match="conv.* has the layout NHWC"):
        gops.convert.from_torch(torch.nn.Conv2d(3, 3, 3).state_dict(), convolution)
    norm = nn.BatchNorm(scale=False, in_channels=2)
    norm.initialize()
    weights = torch.nn.BatchNorm2d(2).state_dict()
    assert len(gops.convert.from_torch(weights, norm)) == 4
    weights["weight"] += 1
    with pytest.raises(gops.OpError, match="gamma is fixed at 1"):
        gops.convert.from_torch(weights, norm)


def test_the_example():
    from gluonops import convert
    failed, tried = doctest.testmod(convert, globs={"gops": gops, "np": np, "from_torch": convert.from_torch})
    assert tried and not failed
