"""FusedSGD has the numbers of MXNet's SGD, to the bit, wherever an optimizer runs."""
import itertools
import pickle

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.backends import native
from mxnet import autograd, gluon, nd

NAMES = ("sgd", "fusedsgd")
SHAPES = ((7,), (3, 5), (33, 10), (4096,), (4097,), (1,))   # around the size of a block, 4096
STEPS = 20

needs_native = pytest.mark.skipif(not native.loaded(), reason="without the native library MXNet's SGD runs")


def bits(arrays):
    return [array.asnumpy().tobytes() for array in arrays]


@pytest.fixture
def fused_updates(monkeypatch):
    """How many parameters each call of the node has updated."""
    counts = []
    update_at_once = gops.optimizer.FusedSGD._update_at_once

    def counted(self, weights, *arguments):
        counts.append(len(weights))
        update_at_once(self, weights, *arguments)

    monkeypatch.setattr(gops.optimizer.FusedSGD, "_update_at_once", counted)
    return counts


def updated(name, dtype="float32", steps=2, **options):
    """Parameters and states after some updates with gradients of very different sizes."""
    optimizer = mx.optimizer.create(name, learning_rate=0.0123, **options)
    optimizer.lr_mult, optimizer.wd_mult = {1: 0.37, 3: 0}, {0: 0, 2: 3.3}
    updater = mx.optimizer.get_updater(optimizer)
    rng = np.random.RandomState(1)
    weights = [nd.array(rng.randn(*shape), dtype=dtype) for shape in SHAPES]
    for _ in range(steps):
        grads = [nd.array(rng.randn(*shape) * 10.0**rng.randint(-8, 3, shape), dtype=dtype) for shape in SHAPES]
        updater(list(range(len(weights))), grads, weights)
    states = [updater.states[index] for index in sorted(updater.states)]
    return bits(weights), bits(state for state in states if state is not None)


@needs_native
@pytest.mark.parametrize("momentum, wd", list(itertools.product((0, 0.9, 0.123456789), (0, 5e-4, 1e-5))))
def test_the_node_has_the_bits_of_mxnet(momentum, wd, fused_updates):
    """The numbers among the attributes are parsed as MXNet does it, too: 1e-5 is not the nearest float32."""
    for clip, rescale in itertools.product((None, 0.3, 1e-6), (1.0, 1 / 16, 1 / 3, 1e-7)):
        options = {"momentum": momentum, "wd": wd, "clip_gradient": clip, "rescale_grad": rescale}
        assert updated("fusedsgd", **options) == updated("sgd", **options), options
    assert set(fused_updates) == {len(SHAPES)}


@needs_native
def test_numbers_that_are_none_are_mxnets():
    """Gradients are infinite and undefined; a clipped NaN stays one."""
    for clip in (None, 0.5):
        results = []
        for name in NAMES:
            updater = mx.optimizer.get_updater(mx.optimizer.create(name, momentum=0.9, wd=0.1, clip_gradient=clip))
            weight = nd.array([1, 1, 1, -0.0, 0, 1e38, 1e-42])
            for _ in range(2):
                updater([0], [nd.array([np.inf, -np.inf, np.nan, 0, -0.0, -1e38, 1e-44])], [weight])
            results.append(weight.asnumpy())
        np.testing.assert_array_equal(*results)
        assert (np.signbit(results[0]) == np.signbit(results[1]))[~np.isnan(results[0])].all()


@pytest.mark.parametrize("dtype, options", [
    ("float64", {"momentum": 0.9}), ("float16", {"momentum": 0.9, "multi_precision": True}),
    ("float32", {"momentum": -0.5})])
def test_mxnet_updates_what_the_node_does_not_take(dtype, options, fused_updates):
    if dtype == "float16":
        results = [multi_precision(name) for name in NAMES]
    else:
        results = [updated(name, dtype, **options) for name in NAMES]
    assert results[0] == results[1]
    assert not fused_updates


def multi_precision(name):
    updater = mx.optimizer.get_updater(mx.optimizer.create(name, momentum=0.9, multi_precision=True))
    weights = [nd.ones(shape, dtype="float16") for shape in SHAPES]
    for _ in range(3):
        updater(list(range(len(weights))), [0.3 * weight for weight in weights], weights)
    return bits(weights)


def test_without_the_native_library_mxnet_updates(monkeypatch, fused_updates):
    monkeypatch.setattr(native, "loaded", lambda: False)
    assert updated("fusedsgd", momentum=0.9) == updated("sgd", momentum=0.9)
    assert not fused_updates


def make_net():
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Conv2D(32, 3, padding=1, in_channels=16), gluon.nn.BatchNorm(in_channels=32),
                gluon.nn.Conv2D(32, 3, padding=1, in_channels=32), gluon.nn.Dense(32, in_units=32 * 64),
                gluon.nn.Dense(10, in_units=32))
    mx.random.seed(0)
    net.initialize(mx.init.Xavier())
    return net


def trained(name, kvstore="device", update_on_kvstore=None, contexts=1):
    """A net's parameters after some steps, between which inference puts its weights into layouts of oneDNN."""
    devices = [mx.cpu(i) for i in range(contexts)]
    net = make_net()
    net.collect_params().reset_ctx(devices)
    net[0].weight.lr_mult, net[2].weight.wd_mult = 0.5, 2.0
    net[1].gamma.grad_req = "null"
    net[3].weight.grad_req = "add"
    net.hybridize(static_alloc=True)
    schedule = mx.lr_scheduler.FactorScheduler(3, 0.7, base_lr=0.01)
    options = {"learning_rate": 0.01, "momentum": 0.9, "wd": 1e-3, "lr_scheduler": schedule}
    trainer = gluon.Trainer(net.collect_params(), name, options, kvstore, update_on_kvstore=update_on_kvstore)
    rng = np.random.RandomState(0)
    for step in range(STEPS):
        data = [nd.array(rng.randn(2, 16, 8, 8), ctx=device) for device in devices]
        if step == 7:
            net[1].gamma.grad_req = "write"   # counts its updates from here
        if step % 3:
            [net(part) for part in data]   # nobody waits for it
        with autograd.record():
            losses = [(net(part)**2).sum() for part in data]
        autograd.backward(losses)
        trainer.step(100)
    net(data[0])
    return bits(parameter.data(devices[0]) for parameter in net.collect_params().values())


@needs_native
@pytest.mark.parametrize("where", [
    {}, {"update_on_kvstore": False, "contexts": 2}, {"kvstore": "local", "update_on_kvstore": True, "contexts": 2}],
    ids=["one", "two", "kvstore"])
def test_a_trainer_trains_the_same_net(where, fused_updates):
    assert trained("fusedsgd", **where) == trained("sgd", **where)
    assert fused_updates


@needs_native
@pytest.mark.parametrize("kvstore", [None, "local"])
def test_a_module_trains_the_same_net(kvstore, fused_updates):
    graph = make_net()(mx.sym.var("data"))
    graph = mx.sym.LinearRegressionOutput(graph, mx.sym.var("label"), name="out")
    rng = np.random.RandomState(0)
    data, labels = rng.randn(STEPS * 4, 16, 8, 8), rng.randn(STEPS * 4, 10)
    start = {name: value.data() for name, value in make_net().collect_params().items()}
    results = []
    for name in NAMES:
        module = mx.mod.Module(graph, label_names=["label"])
        batches = mx.io.NDArrayIter(data, labels, 4, label_name="label")
        module.fit(batches, optimizer=name, kvstore=kvstore, arg_params=start, aux_params=start, eval_metric="mse",
                   optimizer_params={"learning_rate": 0.01, "momentum": 0.9, "wd": 1e-3}, num_epoch=1)
        parameters = module.get_params()[0]
        results.append(bits(parameters[name] for name in sorted(parameters)))
    assert results[0] == results[1]
    assert len(fused_updates) >= STEPS


def test_it_is_pickled_as_mxnets():
    """A server of a kvstore unpickles it, and need not have gluonops."""
    optimizer = mx.optimizer.create("fusedsgd", learning_rate=0.1, momentum=0.9, wd=0.01, clip_gradient=3)
    optimizer._update_count([0, 1])
    text = pickle.dumps(optimizer)
    assert b"gluonops" not in text
    restored = pickle.loads(text)
    expected = vars(mx.optimizer.create("sgd", learning_rate=0.1, momentum=0.9, wd=0.01, clip_gradient=3))
    assert type(restored) is mx.optimizer.SGD
    assert vars(restored).keys() == expected.keys()
    assert restored.num_update == 1
    assert restored.aggregate_num == expected["aggregate_num"]


def test_states_are_saved_and_loaded(tmp_path):
    results = []
    for name in NAMES:
        net = gluon.nn.Dense(3, in_units=4)
        net.initialize(mx.init.One())
        for part in range(2):
            trainer = gluon.Trainer(net.collect_params(), name, {"learning_rate": 0.1, "momentum": 0.9})
            if part:
                trainer.load_states(str(tmp_path / name))
            for _ in range(2):
                with autograd.record():
                    loss = net(nd.ones((2, 4)))
                loss.backward()
                trainer.step(2)
            trainer.save_states(str(tmp_path / name))
        results.append(bits([net.weight.data(), net.bias.data()]))
    assert results[0] == results[1]


@needs_native
@pytest.mark.parametrize("options, inputs, text", [
    ({"wds": "(0,)"}, 4, r"there are 1 numbers in wds; expected 2, as many as in lrs"),
    ({"lrs": "x"}, 4, r"lrs is 'x'; expected numbers"),
    ({"momentum": "much"}, 6, r"momentum is 'much'; expected a number"),
    ({"depth": "3"}, 4, r"'depth' is not an attribute"),
    ({"clip_gradient": ""}, 4, r"clip_gradient is ''; expected a number")])
def test_bad_nodes_are_refused(options, inputs, text):
    attrs = {"lrs": "(0.1, 0.1)", "wds": "(0, 0)", "rescale_grad": "1", **options}
    with pytest.raises(gops.OpError, match=text):
        call([nd.ones(3) for _ in range(inputs)], attrs)


@needs_native
def test_shapes_and_types_that_do_not_fit_are_refused():
    attrs = {"lrs": "(0.1,)", "wds": "(0,)", "rescale_grad": "1"}
    with pytest.raises(gops.OpError, match=r"input 1 has shape \(4,\); expected \(3,\), the shape of input 0"):
        call([nd.ones(3), nd.ones(4)], attrs)
    with pytest.raises(gops.OpError, match=r"an input has dtype float64; expected float32"):
        call([nd.ones(3), nd.ones(3, dtype="float64")], attrs)


def call(arrays, attrs):
    handle = native.operator_handle(gops.optimizer.NODE)
    result = mx._ctypes.ndarray._imperative_invoke(handle, arrays, list(attrs), list(attrs.values()), None, False,
                                                   False)
    return result.asnumpy()
