"""What is exported computes the same where MXNet fuses: Module and optimize_for against the net itself."""
import gluonops as gops
import mxnet as mx
import pytest
from gluonops.export import ExportedModel, passes
from gluonops.export.graph import Graph
from gluonops.io.optional import require
from mxnet import gluon

CHANNELS = 16
SHAPE = (1, CHANNELS, 6, 6)


def conv(data, name, kernel=3):
    pad = kernel // 2
    return mx.sym.Convolution(data, num_filter=CHANNELS, kernel=(kernel, kernel), pad=(pad, pad), name=name)


def norm(data, name):
    return mx.sym.BatchNorm(data, fix_gamma=False, name=name)


def relu(data, name):
    return mx.sym.Activation(data, act_type="relu", name=name)


def block_of(symbol, rng, shape=SHAPE):
    """A SymbolBlock with random parameters."""
    block = gluon.SymbolBlock(symbol, [mx.sym.var("data", dtype="float32")])
    shapes, _, states = symbol.infer_shape(data=shape)
    sizes = dict(zip(symbol.list_arguments() + symbol.list_auxiliary_states(), shapes + states))
    for name, parameter in block.collect_params().items():
        low, high = (0.5, 1.5) if "moving" in name else (-0.3, 0.3)
        parameter.shape = sizes[name]
        parameter.initialize()
        parameter.set_data(mx.nd.array(rng.uniform(low, high, sizes[name])))
    return block


def assert_fused_equals(net, folder, rng, shape=SHAPE, **options):
    """Module and optimize_for compute from the exported files what the net computes."""
    data = mx.nd.array(rng.uniform(-1, 1, shape))
    expected = _arrays(net(data))
    symbol, parameters = gops.export.symbol(net, folder / "net", shape, **options)

    module = mx.mod.Module.load(str(folder / "net"), 0, label_names=None)
    module.bind([("data", shape)], for_training=False)
    block = gluon.SymbolBlock.imports(symbol, ["data"], parameters)
    block.optimize_for(data, backend="MKLDNN", static_alloc=True, static_shape=True)
    for _ in range(2):   # the second pass takes another way through MXNet's dense layer
        module.forward(mx.io.DataBatch([data]), is_train=False)
        _assert_close(_arrays(module.get_outputs()), expected)
        _assert_close(_arrays(block(data)), expected)
    traced = net(mx.sym.var("data"))
    traced = mx.sym.Group(traced) if isinstance(traced, list) else traced
    assert mx.sym.load(symbol).list_outputs() == traced.list_outputs()


def _arrays(outputs):
    return [output.asnumpy() for output in (outputs if isinstance(outputs, (list, tuple)) else [outputs])]


def _assert_close(found, expected):
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        assert abs(ours - theirs).max() <= 1e-5 * abs(theirs).max()


def pre_activation(data, x):
    return conv(relu(norm(x, "bn"), "relu"), "conv") + x


def through_a_dropout(data, x):
    return conv(relu(mx.sym.identity(x), "relu"), "conv") + mx.sym.Dropout(x)


def behind_a_norm(data, x):
    x = norm(x, "bn")
    return x + conv(relu(x, "relu"), "conv")


def overlooked_by_another_sum(data, x):
    left = conv(mx.sym.tanh(x), "conv") + x
    return mx.sym.Group([left, x + data])


def with_itself(data, x):
    return x + x


def an_output_in_a_chain(data, x):
    return mx.sym.Group([x, relu(x, "relu")])


def an_output_that_is_a_sum(data, x):
    x = x + data
    return mx.sym.Group([relu(x, "relu"), mx.sym.identity(x, name="same")])


def three_identities(data, x):
    return mx.sym.identity(mx.sym.identity(mx.sym.Dropout(x, name="first"), name="second"), name="third")


def identities_of_the_input(data, x):
    return mx.sym.identity(mx.sym.Dropout(data, name="first"), name="second") + x


def dense_with_two_readers(data, x):
    x = mx.sym.FullyConnected(x, num_hidden=5, name="dense")
    return mx.sym.Group([mx.sym.tanh(x), relu(x, "relu"), mx.sym.abs(x)])


def dense_and_output(data, x):
    x = mx.sym.FullyConnected(x, num_hidden=5, name="dense")
    return mx.sym.Group([relu(x, "relu"), x])


def pixel(x, groups=CHANNELS):
    """A convolution over the whole map, depthwise by default."""
    return mx.sym.Convolution(x, num_filter=CHANNELS, kernel=SHAPE[2:], num_group=groups, no_bias=True, name="pixel")


def dense_of_a_depthwise_pixel(data, x):
    x = mx.sym.BatchNorm(pixel(x), name="bn")
    return mx.sym.FullyConnected(mx.sym.LeakyReLU(x, act_type="prelu", name="prelu"), num_hidden=5, name="dense")


def dense_of_a_pixel(data, x):
    return mx.sym.FullyConnected(mx.sym.tanh(pixel(x, groups=1)), num_hidden=5, name="dense")


def dense_that_keeps_the_axes_of_a_pixel(data, x):
    return mx.sym.FullyConnected(mx.sym.Dropout(pixel(x)), num_hidden=5, flatten=False, name="dense")


@pytest.mark.parametrize("pattern", [
    pre_activation, through_a_dropout, behind_a_norm, overlooked_by_another_sum, with_itself, an_output_in_a_chain,
    an_output_that_is_a_sum, three_identities, identities_of_the_input, dense_with_two_readers, dense_and_output,
    dense_of_a_depthwise_pixel, dense_of_a_pixel, dense_that_keeps_the_axes_of_a_pixel,
], ids=lambda pattern: pattern.__name__)
def test_patterns(pattern, rng, tmp_path):
    data = mx.sym.var("data")
    assert_fused_equals(block_of(pattern(data, conv(data, "stem")), rng), tmp_path, rng)


def test_a_pre_activation_resnet(rng, tmp_path):
    model_zoo = require("gluoncv.model_zoo", "tests")
    net = model_zoo.get_model("cifar_resnet20_v2", pretrained=False)
    net.initialize(mx.init.Xavier())
    with mx.autograd.record():
        net(mx.nd.array(rng.uniform(-1, 1, (4, 3, 32, 32))))
    for fold in (False, True):
        assert_fused_equals(net, tmp_path, rng, (1, 3, 32, 32), fold_batch_norm=fold)


def test_what_is_fused_rightly_stays(rng, tmp_path):
    """A post-activation block, and a dense layer behind a pooling, have no pattern that MXNet fuses wrongly."""
    x = relu(conv(mx.sym.var("data"), "stem"), "relu1")
    x = relu(norm(conv(relu(norm(conv(x, "a"), "bn1"), "r"), "b"), "bn2") + x, "relu2")
    x = mx.sym.Pooling(x, global_pool=True, pool_type="avg", kernel=(1, 1))
    net = block_of(mx.sym.FullyConnected(x, num_hidden=5, name="dense"), rng)
    assert_fused_equals(net, tmp_path, rng)
    text = (tmp_path / "net-symbol.json").read_text()
    assert "add_n" not in text and "slice_axis" not in text


def test_training_keeps_its_dropouts(rng, tmp_path):
    net = block_of(three_identities(None, conv(mx.sym.var("data"), "stem")), rng)
    gops.export.symbol(net, tmp_path / "net", SHAPE, training=True)
    assert "Dropout" in (tmp_path / "net-symbol.json").read_text()


def random_graph(rng, side):
    """A small graph of what MXNet fuses, and what it does not, wired at random."""
    tensors = [mx.sym.var("data")]
    tensors.append(conv(tensors[0], "first", 1))
    makers = {
        "conv": conv, "bn": norm, "relu": relu,
        "dense": lambda x, name: mx.sym.FullyConnected(x, num_hidden=side, flatten=False, name=name),
        "leaky": lambda x, name: mx.sym.LeakyReLU(x, act_type="leaky", slope=0.1, name=name),
        "clip": lambda x, name: mx.sym.clip(x, 0, 6, name=name),
        "abs": lambda x, name: mx.sym.abs(x, name=name),
        "tanh": lambda x, name: mx.sym.tanh(x, name=name),
        "copy": lambda x, name: mx.sym.identity(x, name=name),
        "dropout": lambda x, name: mx.sym.Dropout(x, name=name),
        "add": lambda x, name: mx.sym.elemwise_add(x, tensors[rng.randint(len(tensors))], name=name),
    }
    kinds = [*makers, "conv", "relu", "add", "add"]
    for i in range(rng.randint(3, 10)):
        kind = kinds[rng.randint(len(kinds))]
        source = tensors[-1] if rng.rand() < 0.6 else tensors[rng.randint(len(tensors))]
        tensors.append(makers[kind](source, f"{kind}{i}"))
    if rng.rand() < 0.3:
        return mx.sym.Group([tensors[-1], tensors[rng.randint(1, len(tensors))]])
    return tensors[-1]


def outputs_of(symbol, arguments, states, backend, monkeypatch):
    monkeypatch.setenv("MXNET_SUBGRAPH_BACKEND", backend)
    executor = symbol.bind(mx.cpu(), arguments, aux_states=states, grad_req="null")
    executor.forward(is_train=False)
    return _arrays(executor.forward(is_train=False))


@pytest.mark.parametrize("side", [6, 1])
@pytest.mark.parametrize("seed", range(4))
def test_random_graphs(seed, side, rng, monkeypatch):
    """Without the pass one in twenty is wrong, and one in fifteen an error; of one pixel, one in six is an error."""
    for _ in range(50):
        symbol = random_graph(rng, side)
        shapes, _, states = symbol.infer_shape(data=(1, CHANNELS, side, side))
        arguments = {name: mx.nd.array(rng.uniform(-0.3, 0.3, shape))
                     for name, shape in zip(symbol.list_arguments(), shapes)}
        states = {name: mx.nd.array(rng.uniform(0.5, 1.5, shape))
                  for name, shape in zip(symbol.list_auxiliary_states(), states)}
        expected = outputs_of(symbol, arguments, states, "NONE", monkeypatch)
        graph = passes.prepare_for_fusion(ExportedModel(Graph.of(symbol), {})).graph
        for backend in ("NONE", "MKLDNN"):
            found = outputs_of(graph.symbol(), arguments, states, backend, monkeypatch)
            for ours, theirs in zip(found, expected):
                assert abs(ours - theirs).max() <= 1e-4 * abs(theirs).max() + 1e-6, graph.text()
