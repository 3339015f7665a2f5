"""Errors of converters, planted on purpose: the comparison in float32 finds each, and names the node."""
import gluonops as gops
import mxnet as mx
import pytest
from gluonops.export.operators.forms import Form
from gluonops.export.torch.converters import CONVERTERS
from mxnet.gluon import nn

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
# mx.nd.array, with today's SciPy
pytestmark = pytest.mark.filterwarnings("ignore:Please import `csr_matrix`")


class Function(nn.HybridBlock):
    """A convolution, and a function of what it computes."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.conv = nn.Conv2D(4, 3, padding=1, in_channels=4, prefix="conv_")

    def hybrid_forward(self, F, x):
        return self.function(F, self.conv(x))


class Alone(nn.HybridBlock):
    """A function of the data."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F, x):
        return self.function(F, x)


def layers(*blocks):
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3, padding=1), *[block() for block in blocks])
    return net


def changed(**arguments):
    """A converter whose module has other arguments."""
    def change(converter):
        def convert(call):
            form = converter(call) if callable(converter) else converter
            return Form(form.text, form.module, {**form.args, **arguments}, form.state, form.call, form.outputs)
        return convert
    return change


def text(wrong):
    """A converter to another expression."""
    return lambda converter: lambda call: Form(wrong)


# Operator, how its converter is wrong, a net, and the name of the first node that differs, or of the last one behind
# which gradients differ.
OUTPUTS = {
    "eps": ("BatchNorm", changed(eps=1e-2), lambda: layers(nn.BatchNorm), "batchnorm0_fwd"),
    "momentum": ("BatchNorm", changed(momentum=0.11), lambda: layers(nn.BatchNorm), "running_"),
    "statistics": ("BatchNorm", changed(use_global_stats=True), lambda: layers(nn.BatchNorm), "batchnorm0_fwd"),
    "slope": ("LeakyReLU", text("F.leaky_relu({0}, 0.11)"), lambda: layers(lambda: nn.LeakyReLU(0.1)), "leakyrelu0"),
    "padding": ("Pooling", changed(count_include_pad=False),
                lambda: layers(lambda: nn.AvgPool2D(3, 1, 1)), "pool0_fwd"),
    "group norm": ("gluonops_group_norm", changed(eps=1e-2), lambda: layers(lambda: gops.nn.GroupNorm(2)), "groupnorm"),
    "layer norm": ("LayerNorm", changed(eps=1e-2), lambda: layers(nn.LayerNorm), "layernorm0"),
    "cast": ("Cast", text("{0}"), lambda: Function(
        lambda F, x: F.cast(F.cast(x, "float16") * 3, "float32")), "cast"),
    "axis": ("softmax", text("F.softmax({0}, 1)"), lambda: Function(
        lambda F, x: F.softmax(x, axis=-1, name="rows")), "rows"),
    "transpose": ("transpose", text("{0}"), lambda: Function(
        lambda F, x: F.transpose(x, axes=(0, 1, 3, 2), name="turned")), "turned"),
    "sum": ("_plus_scalar", text("{0} + 1.0001"), lambda: Function(lambda F, x: F.sin(x + 1)), "plusscalar"),
    "remainder": ("_mod_scalar", text("torch.fmod({0}, 0.6)"), lambda: Function(lambda F, x: x % 0.6), "mod"),
    "gelu": ("LeakyReLU", text("F.gelu({0}, approximate='tanh')"), lambda: layers(nn.GELU), "gelu0"),
    "bias": ("FullyConnected", text("F.linear({0}, {1})"), lambda: layers(lambda: nn.Dense(3)), None),
    "order": ("topk", text("{0}.sort(dim=1, descending=False)[1].to({0}.dtype)"), lambda: Function(
        lambda F, x: F.topk(F.mean(x, axis=(2, 3)), k=4, name="best")), "best"),
}
GRADIENTS = {
    "fixed gamma": ("BatchNorm", changed(fix_gamma=True), lambda: layers(nn.BatchNorm), "batchnorm0_fwd"),
    "trained gamma": ("BatchNorm", changed(fix_gamma=False), lambda: layers(lambda: nn.BatchNorm(scale=False)),
                      "batchnorm0_fwd"),
    "detached": ("BlockGrad", text("{0}"), lambda: Function(
        lambda F, x: F.sin(x) + F.BlockGrad(F.cos(x))), "conv_fwd"),
    "not passed on": ("sin", text("torch.sin({0}.detach())"), lambda: Function(
        lambda F, x: F.sin(x) + F.cos(x)), "conv_fwd"),
    "masked": ("sin", text("torch.sin({0}.detach())"), lambda: Function(
        lambda F, x: (F.sin(x) + F.cos(x)) * F.Dropout(F.ones_like(x), p=0.5)), "conv_fwd"),   # as in recurrent cells
    "scaled": ("relu", text("F.relu({0}).detach() + 2 * (F.relu({0}) - F.relu({0}).detach())"), lambda: Function(
        lambda F, x: F.relu(x)), "conv_fwd"),
    "at bounds": ("clip", text("{0}.clamp(-0.1, 0.1).detach()"), lambda: Function(
        lambda F, x: F.clip(x, -0.1, 0.1)), "conv_fwd"),
}
# The same without a layer in front: what is wrong where numbers jump alone.
AT_JUMPS = {
    "halves": ("round", text("torch.round({0})"), lambda: Alone(lambda F, x: F.round(x, name="whole")), "whole"),
    "multiples": ("_mod_scalar", text("{0} - torch.floor({0} / 0.6) * 0.6"),
                  lambda: Alone(lambda F, x: x % 0.6), "mod"),
    "equal": ("_greater_scalar", text("({0} >= 0.5).to({0}.dtype)"), lambda: Alone(lambda F, x: x > 0.5), "greater"),
    "ties": ("argmax", text("{0}.shape[1] - 1 - {0}.flip(1).argmax(1).to({0}.dtype)"), lambda: Alone(
        lambda F, x: F.argmax(x, axis=1, name="first")), "first"),
}


def export(case, folder, monkeypatch):
    operator, wrong, make, node = case
    mx.random.seed(3)
    net = make()
    net.initialize(mx.init.Normal(0.3))
    net(mx.nd.zeros((2, 4, 8, 8)))
    for name, parameter in net.collect_params().items():
        if name.endswith(("gamma", "beta", "bias", "mean")):
            parameter.set_data(mx.nd.random.uniform(0.3, 2, parameter.shape))
    gops.export.torch(net, folder, (2, 4, 8, 8))
    written = (folder / "net.py").read_text()
    monkeypatch.setitem(CONVERTERS, operator, wrong(CONVERTERS[operator]))
    with pytest.raises(gops.OpError, match="net.py (does not compute what MXNet does|fails)") as caught:
        gops.export.torch(net, folder, (2, 4, 8, 8))
    assert (folder / "net.py").read_text() == written
    assert node is None or node in caught.value.what
    return caught.value.what


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs(name, tmp_path, monkeypatch):
    assert "begin to differ at the node" in export(OUTPUTS[name], tmp_path, monkeypatch) or name in ("bias", "momentum")


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name, tmp_path, monkeypatch):
    what = export(GRADIENTS[name], tmp_path, monkeypatch)
    assert "the gradient of " in what and "begin to differ behind the node" in what


@pytest.mark.parametrize("name", AT_JUMPS)
def test_jumps(name, tmp_path, monkeypatch):
    assert "begin to differ at the node" in export(AT_JUMPS[name], tmp_path, monkeypatch)
