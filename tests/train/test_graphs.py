"""Exported nets to be cut: files that are none, layers that there are not, and frozen statistics."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops import train


@pytest.fixture
def start(tmp_path):
    """The prefix of an exported net with a batch norm."""
    net = mx.gluon.nn.HybridSequential(prefix="start_")
    with net.name_scope():
        net.add(mx.gluon.nn.Conv2D(2, 3), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Flatten(), mx.gluon.nn.Dense(5))
    net.initialize()
    net.hybridize()
    gops.export.symbol(net, tmp_path / "start", (1, 1, 8, 8))
    return tmp_path / "start"


def test_files(start, tmp_path):
    symbol, parameters = ((tmp_path / f"start-{part}").read_bytes() for part in ("symbol.json", "0000.params"))
    mx.nd.save(str(tmp_path / "list"), [mx.nd.zeros(3)])
    for cut in ((symbol[:200], parameters), (symbol, parameters[:200]), (symbol, b""),
                (symbol, (tmp_path / "list").read_bytes())):
        for part, content in zip(("symbol.json", "0000.params"), cut):
            (tmp_path / f"bad-{part}").write_bytes(content)
        with pytest.raises(gops.OpError, match="bad-symbol.json is not a symbol|bad-0000.params is not a"):
            train.load_module(tmp_path / "bad")
    with pytest.raises(gops.OpError, match="there is no file .*start-0003.params. Pass another epoch"):
        train.load_module(start, 3)


def test_cutting(start):
    symbol, arguments, states = train.load_module(start)
    assert train.cut_symbol(symbol).list_outputs() == ["start_flatten0_flatten0_output"]
    features = train.cut_symbol(symbol, "start_conv0_fwd_output")
    assert features.list_arguments() == ["data", "start_conv0_weight", "start_conv0_bias"]
    for layer in ("start_conv0_weight", "data", "conv9"):
        with pytest.raises(gops.OpError, match=f"the net has no output {layer}; expected one of start"):
            train.cut_symbol(symbol, layer)
    with pytest.raises(gops.OpError, match="no fully connected layer to replace"):
        train.cut_symbol(features)
    assert train.fits(features, (1, 1, 9, 9), arguments) and not train.fits(features, (1, 3, 9, 9), arguments)
    assert not train.fits(symbol, (1, 1, 9, 9), arguments)


def test_statistics_are_kept(start):
    """A module that trains keeps them bit for bit."""
    symbol, arguments, states = train.load_module(start)
    net = gops.ops.softmax_output(train.keep_statistics(symbol), name="softmax")
    module = mx.mod.Module(net)
    module.bind([("data", (4, 1, 8, 8))], [("softmax_label", (4,))])
    module.set_params(arguments, states)
    module.init_optimizer()
    module.forward_backward(mx.io.DataBatch([mx.nd.ones((4, 1, 8, 8))], [mx.nd.zeros(4)]))
    module.update()
    for name, value in module.get_params()[1].items():
        np.testing.assert_array_equal(value.asnumpy(), states[name].asnumpy())
    assert (module.get_params()[0]["start_dense0_bias"].asnumpy() != 0).any()
