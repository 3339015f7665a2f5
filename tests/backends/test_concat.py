"""gluonops.backends.concat: narrow maps, whose gradient ends MXNet's process, or raises; and many tensors."""
import json

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.backends.concat import MOST, concat, constants
from gluonops.contract import registry
from mxnet.gluon import HybridBlock


class Joined(HybridBlock):
    """A convolution of the maps: oneDNN lays out its gradient in blocks of channels."""

    def __init__(self, channels):
        super().__init__()
        self._channels = channels

    def hybrid_forward(self, F, weight, *maps):
        joined = concat(F, maps, self._channels)
        return F.Convolution(joined, weight, kernel=(1, 1), num_filter=16, no_bias=True)


@pytest.mark.parametrize("channels", [(8, 8), (1, 15), (20, 12), (24, 8, 16), (16, 32, 8)], ids=str)
@pytest.mark.parametrize("are_known", [True, False])
@pytest.mark.parametrize("flags", [None, {}, {"static_alloc": True, "static_shape": True}], ids=str)
def test_gradients(channels, are_known, flags, rng):
    maps = [mx.nd.array(rng.rand(2, count, 4, 6)) for count in channels]
    weight = mx.nd.array(rng.rand(16, sum(channels), 1, 1))
    net = Joined(channels if are_known else None)
    if flags is not None:
        net.hybridize(**flags)
    for data in maps:
        data.attach_grad()
    with mx.autograd.record():
        out = net(weight, *maps)
    out.backward()

    together, rows = np.concatenate([data.asnumpy() for data in maps], axis=1), weight.asnumpy()[:, :, 0, 0]
    np.testing.assert_allclose(out.asnumpy(), np.einsum("kc,bchw->bkhw", rows, together), rtol=1e-5)
    of_channels = np.split(rows.sum(axis=0), np.cumsum(channels)[:-1])   # the gradient of every place of a channel
    for data, expected in zip(maps, of_channels):
        expected = np.broadcast_to(expected[:, None, None], data.shape)
        np.testing.assert_allclose(data.grad.asnumpy(), expected, rtol=1e-5)


def test_a_graph_of_wide_maps_has_nothing_more():
    maps = [mx.sym.var("first"), mx.sym.var("second")]
    assert "slice_axis" not in concat(mx.sym, maps, (32, 7)).tojson()
    assert "slice_axis" in concat(mx.sym, maps, (40, 7)).tojson()


NUMBERS = tuple(range(1, 4001))   # different ones; oneDNN joins 3,070 tensors at most


def test_constants(rng):
    """There may be as many as an operator may have classes, equal neighbours, or a single one."""
    for numbers in (NUMBERS, (1, 1, 1, 2, 2, 1), (7,), (0.5,) * 70):
        filled = constants(mx.nd, mx.nd.zeros((2, 1, 3)), numbers, 1)
        np.testing.assert_array_equal(filled.asnumpy(), np.broadcast_to(np.float32(numbers)[:, None], filled.shape))
        assert filled.shape == (2, len(numbers), 3)


@pytest.mark.parametrize("name, attrs", [
    ("softmax_cross_entropy", {"class_weight": NUMBERS}), ("softmax_focal_loss", {"alpha": NUMBERS}),
    ("softmax_cross_entropy", {"class_weight": NUMBERS, "sparse_label": False}),
    ("margin_softmax_cross_entropy", {"class_weight": NUMBERS}), ("lovasz_softmax", {"class_weight": NUMBERS}),
    ("sigmoid_cross_entropy", {"pos_weight": NUMBERS}), ("region_decode", {"anchors": NUMBERS, "classes": 1}),
    ("yolo_loss", {"anchors": (1, 2), "other_anchors": NUMBERS, "classes": 1}), ("tile", {"tiles": 4000})])
def test_no_node_joins_many(name, attrs):
    """A graph that did would leave the process in a state where most of MXNet's operators fail."""
    with gops.backend("builtin"):
        graph = getattr(gops.ops, name)(*[mx.sym.var(arg.name) for arg in registry.get(name).op.inputs], **attrs)
    counts = [len(node["inputs"]) for node in json.loads(graph.tojson())["nodes"] if node["op"] == "Concat"]
    assert counts and max(counts) < 2 * MOST


def test_many_class_weights(rng):
    data, label = mx.nd.array(rng.randn(2, len(NUMBERS))), mx.nd.array([17, 3999])
    plain, weighted = (gops.ops.softmax_focal_loss(data, label, alpha=alpha) for alpha in (None, NUMBERS))
    with gops.backend("builtin"):
        loss = gops.ops.softmax_focal_loss(data, label, alpha=NUMBERS)
    np.testing.assert_allclose(weighted.asnumpy(), plain.asnumpy() * [18, 4000], rtol=1e-5)
    np.testing.assert_allclose(loss.asnumpy(), weighted.asnumpy(), rtol=1e-5)
