"""Layers of a net that exists already are replaced."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.io.optional import require
from mxnet.gluon import nn


def net_of(*layers):
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(*layers)
    net.initialize(mx.init.Xavier())
    return net


def mish_of(data):
    return data * np.tanh(np.logaddexp(0, data))


@pytest.mark.parametrize("hybridized", [False, True])
def test_the_net_computes_with_the_new_layers(hybridized):
    data = mx.nd.random.normal(shape=(2, 3, 6, 6))
    with gops.backend("builtin"):
        net = net_of(nn.Conv2D(4, 3), nn.Activation("relu"), nn.Conv2D(4, 3, activation="relu"))
        net.hybridize(hybridized)
        net(data)
        before = {name: value.data().copy().asnumpy() for name, value in net.collect_params().items()}
        first, second = net[0], net[2]
        assert gops.nn.replace(net, nn.Activation, lambda old: gops.nn.Mish()) == ["1", "2.act"]

        assert list(net.collect_params()) == list(before)
        for name, value in net.collect_params().items():
            np.testing.assert_array_equal(value.data().copy().asnumpy(), before[name])
        hidden = mish_of(first(data).asnumpy())
        second_conv = mx.nd.Convolution(mx.nd.array(hidden), second.weight.data(), second.bias.data(), kernel=(3, 3),
                                        num_filter=4)
        np.testing.assert_allclose(net(data).asnumpy(), mish_of(second_conv.asnumpy()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name, options", [("resnet18_v1b", {}), ("mobilenetv3_small", {}),
                                           ("yolo3_darknet53_voc", {"pretrained_base": False})])
def test_nets_of_gluoncv(name, options):
    """An exported graph has no old layer any more, and as many new ones."""
    net = require("gluoncv", "tests").model_zoo.get_model(name, **options)
    kind = (nn.Activation, nn.LeakyReLU)
    replaced = gops.nn.replace(net, kind, lambda old: gops.nn.HardSwish())
    net.initialize()
    with gops.backend("custom"):
        graph = net(mx.sym.var("data"))
    graph = graph[0] if isinstance(graph, (list, tuple)) else graph
    text = graph.tojson()
    assert text.count('"op_type": "gluonops_hard_swish"') >= len(replaced) > 10
    assert '"op": "Activation"' not in text and '"op": "LeakyReLU"' not in text


def test_a_layer_in_two_places_is_one_layer():
    shared = nn.Activation("relu")
    net = net_of(shared, nn.Dense(2), shared)
    made = []

    def make(old):
        made.append(gops.nn.Mish())
        return made[-1]

    assert gops.nn.replace(net, nn.Activation, make) == ["0", "2"]
    assert len(made) == 1 and net[0] is net[2] is made[0]


def test_parameters_of_the_old_layer():
    net = net_of(nn.Dense(3, in_units=2), nn.Dense(3, in_units=3))
    names = list(net.collect_params())
    gops.nn.replace(net, nn.Dense, lambda old: nn.Dense(3, activation="relu", in_units=old.weight.shape[1],
                                                        params=old.params))
    assert list(net.collect_params()) == names
    net(mx.nd.ones((1, 2))).wait_to_read()


def test_what_it_refuses():
    net = net_of(nn.Dense(2), nn.Activation("relu"))
    for kind, make, message in [
            (nn.Conv2D, lambda old: gops.nn.Mish(), "net contains no Conv2D; it has Activation, Dense"),
            (nn.HybridSequential, lambda old: old, "net is a HybridSequential itself"),
            (nn.Activation, lambda old: None, "make returned a NoneType for 1; expected a HybridBlock"),
            ((nn.Activation, nn.Dense), lambda old: nn.Sequential(), "expected a HybridBlock")]:
        layers = list(net)
        with pytest.raises(gops.OpError, match=message):
            gops.nn.replace(net, kind, make)
        assert list(net) == layers
