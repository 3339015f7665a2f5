"""What the page on NumPy mode says of MXNet's own layers: those that fail there, and what to use in their place."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon, npx
from mxnet.gluon import nn, rnn

SHAPE = (2, 4, 6, 6)
FAILING = {
    "GroupNorm": lambda: nn.GroupNorm(2), "InstanceNorm": nn.InstanceNorm,
    "PixelShuffle2D": lambda: gluon.contrib.nn.PixelShuffle2D(2), "ReflectionPad2D": lambda: nn.ReflectionPad2D(1),
    "HybridConcurrent": lambda: concurrent(), "squeezenet": lambda: gluon.model_zoo.vision.squeezenet1_0(classes=3),
    "LSTMCell": lambda: rnn.LSTMCell(3),
}


def concurrent():
    net = gluon.contrib.nn.HybridConcurrent(axis=1)
    net.add(nn.Conv2D(2, 1), nn.Conv2D(2, 1))
    return net


@pytest.mark.parametrize("name", FAILING)
def test_layers_of_mxnet_that_fail(numpy_mode, name):
    net = FAILING[name]()
    net.initialize()
    with pytest.raises((TypeError, AttributeError, ValueError, mx.MXNetError)):
        if name == "LSTMCell":
            net(mx.np.ones((2, 4)), net.begin_state(2, func=mx.np.zeros))
        elif name == "squeezenet":
            net(mx.np.ones((1, 3, 64, 64)))
        else:
            net(mx.np.ones(SHAPE))


class Reflected(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="reflect")


IN_PLACE = {
    "GroupNorm": (lambda: nn.GroupNorm(2), lambda: gops.nn.GroupNorm(2)),
    "InstanceNorm": (nn.InstanceNorm, lambda: gops.nn.GroupNorm(num_groups=4)),
    "PixelShuffle2D": (lambda: gluon.contrib.nn.PixelShuffle2D(2), lambda: gops.nn.PixelShuffle(2)),
    "ReflectionPad2D": (lambda: nn.ReflectionPad2D(1), Reflected),
}


@pytest.mark.filterwarnings("ignore:only the outputs in evaluation mode were compared")   # of the reflection
@pytest.mark.parametrize("name", IN_PLACE)
def test_what_is_in_their_place(name, tmp_path):
    theirs, ours = IN_PLACE[name]
    x = np.random.RandomState(1).rand(*SHAPE).astype("float32")
    old = theirs()
    old.initialize()
    expected = old(mx.nd.array(x)).asnumpy()
    npx.set_np()
    try:
        net = ours()
        net.initialize()
        net.hybridize()
        np.testing.assert_allclose(net(mx.np.array(x)).asnumpy(), expected, 2e-5, 2e-5)
        path = gops.export.onnx(net, str(tmp_path / "net.onnx"), SHAPE)
        output, = pytest.importorskip("onnxruntime").InferenceSession(path).run(None, {"data": x})
        np.testing.assert_allclose(output, expected, 2e-5, 2e-5)
        pytest.importorskip("torch")
        gops.export.torch(net, tmp_path / "torch", SHAPE)
    finally:
        npx.reset_np()
