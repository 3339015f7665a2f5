"""A hybridized net that is used under another backend than it was traced under."""
import json

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet.gluon import HybridBlock, SymbolBlock, nn


@pytest.fixture(autouse=True)
def restored():
    before = gops.backends.backend._default
    yield
    gops.backends.backend._default = before


class Optional(HybridBlock):
    """A net with a list among its inputs, and one that may be missing."""

    def hybrid_forward(self, F, pair, missing=None, scale=None):
        return gops.ops.abs(pair[0] + pair[1]) * scale


def operators(graph):
    return {node["op"] for node in json.loads(graph.tojson())["nodes"]}


def operators_in(net):
    return operators(net._cached_graph[1])


def made(prefix=None, **flags):
    net = nn.HybridSequential(prefix=prefix)
    net.add(nn.Dense(3), gops.nn.Abs(), nn.Dense(2))
    net.initialize()
    net.hybridize(**flags)
    return net


@pytest.mark.parametrize("prefix", [None, ""])
@pytest.mark.parametrize("flags", [{}, {"static_alloc": True, "static_shape": True}])
def test_a_call_follows_the_backend(prefix, flags):
    net, data = made(prefix, **flags), mx.nd.array([[1, -2, 3]])
    with gops.backend("native"):
        expected = net(data).asnumpy()
        assert "gluonops_abs" in operators_in(net)
    with gops.backend("custom"):
        np.testing.assert_allclose(net(data).asnumpy(), expected, rtol=1e-6)
        assert "Custom" in operators_in(net) and "gluonops_abs" not in operators_in(net)
    gops.backend("builtin")
    np.testing.assert_allclose(net(data).asnumpy(), expected, rtol=1e-6)
    assert "abs" in operators_in(net) and "Custom" not in operators_in(net)


def test_export_follows_the_backend(tmp_path):
    net, data = made(), mx.nd.array([[1, -2, 3]])
    expected = net(data).asnumpy()
    with gops.backend("builtin"):
        net.export(str(tmp_path / "net"))
    exported = operators(mx.sym.load(str(tmp_path / "net-symbol.json")))
    assert "abs" in exported and not {"gluonops_abs", "Custom"} & exported
    again = SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    np.testing.assert_allclose(again(data).asnumpy(), expected, rtol=1e-6)


def test_export_of_a_net_with_several_inputs(tmp_path):
    """Lists and arguments left out come back as they were given."""
    net = Optional()
    net.hybridize()
    pair, scale = [mx.nd.array([-1, 2]), mx.nd.array([-3, 4])], mx.nd.array([2, 2])
    expected = net(pair, None, scale).asnumpy()
    with gops.backend("builtin"):
        net.export(str(tmp_path / "net"))
        assert "Custom" not in operators_in(net) and "gluonops_abs" not in operators_in(net)
        np.testing.assert_array_equal(net(pair, None, scale).asnumpy(), expected)


def test_a_graph_is_kept_where_it_serves():
    """It does under the same backend, under ``auto`` for what it stands for, without our operators, and from a file."""
    net, plain = made(), nn.Dense(2)
    plain.initialize()
    plain.hybridize()
    data = mx.nd.ones((1, 3))
    with gops.backend("native"):
        net(data), plain(data)
        loaded = SymbolBlock(net(mx.sym.var("data")), mx.sym.var("data"), params=net.collect_params())
        loaded.hybridize()
        loaded(data)
    graphs = [block._cached_op for block in (net, plain, loaded)]
    net(data), plain(data), loaded(data)   # auto is native here
    assert net._cached_op is graphs[0]
    with gops.backend("builtin"):
        plain(data), loaded(data)
    assert [plain._cached_op, loaded._cached_op] == graphs[1:]


def test_backward_of_an_older_trace():
    """What was recorded before the backend changed still has its gradient."""
    net, data = made(), mx.nd.array([[1, -2, 3]])
    data.attach_grad()
    with mx.autograd.record():
        loss = net(data).sum()
    loss.backward()
    expected = data.grad.asnumpy()
    with mx.autograd.record():
        loss = net(data).sum()
    with gops.backend("builtin"):
        net(data)
    loss.backward()
    np.testing.assert_allclose(data.grad.asnumpy(), expected, rtol=1e-6)
