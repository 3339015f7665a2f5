"""gluonops.core.concat: narrow maps, whose gradient ends MXNet's process, or raises."""
import mxnet as mx
import numpy as np
import pytest
from gluonops.core.concat import concat
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
