"""Mixed precision: the same net in 16 bits, with the same parameters; where it is refused; the scale of the loss."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops import train
from gluonops.runtime import processor
from mxnet import autograd, gluon
from toy_run import assert_same_run, dense, finish, make, stopped

NEEDS_BFLOAT16 = pytest.mark.skipif(not processor.has_bfloat16(), reason="oneDNN has no bfloat16 here")


@pytest.fixture(scope="module")
def net():
    """Convolutions, batch norm, reorg and a concat: amp has to put casts around all of them."""
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.fine = gluon.nn.Conv2D(4, 3, padding=1, use_bias=False)
                self.coarse = gluon.nn.Conv2D(8, 3, 2, 1)
                self.norm, self.reorg, self.output = gluon.nn.BatchNorm(), gops.nn.Reorg(2), gluon.nn.Conv2D(3, 1)

        def hybrid_forward(self, F, data):
            fine = F.LeakyReLU(self.norm(self.fine(data)), slope=0.1)
            return self.output(F.concat(self.reorg(fine), self.coarse(fine), dim=1))

    mx.random.seed(0)
    net = Net()
    net.initialize(mx.init.Xavier())
    net(mx.nd.zeros((1, 3, 8, 8)))
    return net


@NEEDS_BFLOAT16
def test_bfloat16_is_close_to_float32(net):
    """Outputs and gradients are, within the eight bits of a mantissa; the parameters are the net's own, in float32."""
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    mixed = train.MixedPrecision("bfloat16", trainer)
    low = mixed.lower(net)
    assert mixed.lower(net) is low and low is not net
    assert {id(value) for value in low.collect_params().values()} == {id(v) for v in net.collect_params().values()}
    images, results = mx.nd.random.uniform(shape=(2, 3, 8, 8)), []
    for block in (net, low):
        with autograd.record():
            output = block(images)
            loss = (output ** 2).sum()
        mixed.backward([loss])
        results.append([output.asnumpy(), *(p.grad().asnumpy() for p in net.collect_params().values()
                                            if p.grad_req != "null")])
    for full, half in zip(*results):
        assert half.dtype == np.float32
        assert np.abs(full - half).max() <= 0.03 * np.abs(full).max()
    assert (results[0][0] != results[1][0]).any(), "nothing was computed in 16 bits"
    mixed.reset()
    assert mixed.lower(net) is not low and mixed.loss_scale == 1


@NEEDS_BFLOAT16
def test_a_run_in_bfloat16(tmp_path):
    """It learns, stops and resumes to the same numbers; the exported and saved parameters are float32."""
    def hybrid():
        net = dense()
        net.hybridize()
        return net

    whole = finish(make(tmp_path / "whole", net=hybrid(), dtype="bfloat16"))
    stopped(make(tmp_path / "stopped", net=hybrid(), dtype="bfloat16"), 7)
    run = make(tmp_path / "stopped", net=hybrid(), dtype="bfloat16")
    run.resume()
    finish(run)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")
    assert whole.net.weight.dtype == "float32"


def test_scaled_losses(tmp_path):
    """The trainer takes the scale out again; an update that overflows is left out, and the next scale is smaller.

    On the CPU, in float32: what float16 adds are the kernels of a GPU.
    """
    plain, scaled = make(tmp_path / "plain", clip=0.5), make(tmp_path / "scaled", clip=0.5)
    train.precision.scale_losses(scaled.trainer)
    assert scaled.precision.loss_scale == 2 ** 16
    for run in (plain, scaled):
        finish(run)
    np.testing.assert_allclose(scaled.net.weight.data().copy().asnumpy(), plain.net.weight.data().copy().asnumpy(),
                               rtol=1e-4)
    before = scaled.net.weight.data().copy().asnumpy()
    with autograd.record():
        loss = scaled.net(mx.nd.full((1, 3), 1e36)).sum()
    scaled.precision.backward([loss])
    scaled.trainer.step(1)
    np.testing.assert_array_equal(scaled.net.weight.data().copy().asnumpy(), before)
    state = scaled.precision.state()
    assert state["_next_loss_scale"] == 2 ** 15
    other = make(tmp_path / "other")
    train.precision.scale_losses(other.trainer)
    other.precision.restore(state)
    assert other.precision.state() == state


@pytest.mark.parametrize("dtype, device, text", [
    ("float16", mx.cpu(), "float16 needs GPUs"), ("bfloat16", mx.gpu(), "bfloat16 needs a CPU"),
    ("float64", mx.cpu(), "dtype is 'float64'; expected 'float32', 'bfloat16' or 'float16'"),
    ("bfloat16", mx.cpu(), "this CPU has no instructions for bfloat16")])
def test_refused(monkeypatch, dtype, device, text):
    monkeypatch.setattr(processor, "instructions", frozenset)
    with pytest.raises(gops.OpError, match=text):
        train.check_dtype(dtype, [device])


def test_a_cpu_that_has_it(monkeypatch):
    """oneDNN uses it unless the environment forbids it."""
    monkeypatch.setattr(processor, "instructions", lambda: frozenset({"avx512f", "avx512_bf16"}))
    monkeypatch.delenv(processor.LIMIT, raising=False)
    train.check_dtype("bfloat16", [mx.cpu()])
    train.check_dtype("float16", [mx.gpu()])
    for limit in ("AVX2", "AVX512_CORE_VNNI"):
        monkeypatch.setenv(processor.LIMIT, limit)
        with pytest.raises(gops.OpError, match="or DNNL_MAX_CPU_ISA forbids them"):
            train.check_dtype("bfloat16", [mx.cpu()])
