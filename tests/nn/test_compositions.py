"""The layers without a kernel: against their definitions in NumPy, hybridized, and their refusals."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd

IMAGES = (2, 8, 6, 10)


def run(block, data):
    block.initialize()
    block.hybridize()
    return block(mx.nd.array(data)).asnumpy()


def test_pixel_shuffle(rng):
    """PyTorch's definition: out[b, c, h r + i, w r + j] = data[b, (c r + i) r + j, h, w]."""
    data = rng.randn(*IMAGES)
    shuffled = run(gops.nn.PixelShuffle(2), data)
    blocks = data.reshape(2, 2, 2, 2, 6, 10).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 12, 20)
    np.testing.assert_array_equal(shuffled, blocks.astype("float32"))
    np.testing.assert_array_equal(run(gops.nn.PixelUnshuffle(2), shuffled), data.astype("float32"))


def test_spp(rng):
    data = rng.randn(*IMAGES).astype("float32")
    output = run(gops.nn.SPP((3, 5)), data)
    expected = [data]
    for size in (3, 5):
        padded = np.pad(data, ((0, 0), (0, 0), (size // 2,) * 2, (size // 2,) * 2), constant_values=-np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(2, 3))
        expected.append(windows.max((-2, -1)))
    np.testing.assert_array_equal(output, np.concatenate(expected, axis=1))


@pytest.mark.parametrize("size, row", [(2, [1, 1]), (3, [1, 2, 1]), (4, [1, 3, 3, 1]), (5, [1, 4, 6, 4, 1])])
def test_blur_pool(size, row, rng):
    data = rng.randn(*IMAGES)
    output = run(gops.nn.BlurPool(8, size), data)
    pad = ((size - 1) // 2, size // 2)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(data, ((0, 0), (0, 0), pad, pad), mode="reflect"),
                                                       (size, size), axis=(2, 3))[:, :, ::2, ::2]
    weight = np.outer(row, row) / np.sum(row) ** 2
    np.testing.assert_allclose(output, (windows * weight).sum((-2, -1)), rtol=1e-5, atol=1e-5)
    assert output.shape == (2, 8, 3, 5)


def test_the_filter_of_blur_pool_is_not_trained():
    block = gops.nn.BlurPool(3)
    block.initialize()
    parameter, = block.collect_params().values()
    assert parameter.grad_req == "null"


def test_squeeze_excite(rng):
    data = rng.randn(*IMAGES)
    block = gops.nn.SqueezeExcite(8, reduction=3)
    output = run(block, data)
    squeeze, expand = (layer.weight.data().copy().asnumpy()[:, :, 0, 0] for layer in (block.squeeze, block.expand))
    assert squeeze.shape == (2, 8)
    weights = 1 / (1 + np.exp(-np.maximum(data.mean((2, 3)) @ squeeze.T, 0) @ expand.T))
    np.testing.assert_allclose(output, data * weights[:, :, None, None], rtol=1e-5, atol=1e-5)


class TestDropBlock:
    def test_inference_changes_nothing(self, rng):
        data = rng.randn(*IMAGES).astype("float32")
        np.testing.assert_array_equal(run(gops.nn.DropBlock(0.3, 3), data), data)

    @pytest.mark.parametrize("size", [1, 4, 5])
    def test_squares_are_dropped_with_the_probability(self, size):
        """A dropped element is in a dropped square, or next to the border; the mean stays."""
        block = gops.nn.DropBlock(0.2, size)
        block.hybridize()
        data = mx.nd.ones((8, 16, 40, 40))
        data.attach_grad()
        with autograd.record():
            output = block(data)
        output.backward()
        kept = output.asnumpy() > 0
        assert abs((~kept).mean() - 0.2) < 0.02
        np.testing.assert_allclose(output.asnumpy()[kept], 1 / kept.mean(), rtol=1e-5)
        np.testing.assert_array_equal(data.grad.asnumpy(), output.asnumpy())
        windows = np.lib.stride_tricks.sliding_window_view(~kept, (size, size), axis=(2, 3)).all((-2, -1))
        inside = (~kept)[:, :, size - 1:1 - size or None, size - 1:1 - size or None]
        covered = np.lib.stride_tricks.sliding_window_view(windows, (size, size), axis=(2, 3)).any((-2, -1))
        np.testing.assert_array_equal(inside, covered)

    def test_nothing_is_kept(self):
        """If every element is dropped, the output is 0 and not NaN."""
        block = gops.nn.DropBlock(1 - 1e-9, 3)
        with autograd.record():
            output = block(mx.nd.ones((1, 1, 4, 4)))
        np.testing.assert_array_equal(output.asnumpy(), 0)


@pytest.mark.parametrize("block, text", [
    (lambda: gops.nn.DropBlock(), "DropBlock(drop_prob=0.1, block_size=7)"),
    (lambda: gops.nn.BlurPool(3), "BlurPool(channels=3, filter_size=4, stride=2)"),
    (lambda: gops.nn.SPP(), "SPP(sizes=(5, 9, 13))"),
    (lambda: gops.nn.SqueezeExcite(64), "SqueezeExcite(channels=64, reduction=16)"),
    (lambda: gops.nn.PixelShuffle(2), "PixelShuffle(factor=2)"),
    (lambda: gops.nn.PixelUnshuffle(2), "PixelUnshuffle(factor=2)"),
])
def test_repr(block, text):
    assert repr(block()) == text


@pytest.mark.parametrize("make, text", [
    (lambda: gops.nn.DropBlock(1.0), "drop_prob is 1.0; expected a finite number of at least 0 and below 1"),
    (lambda: gops.nn.DropBlock(0.1, 0), "block_size is 0"),
    (lambda: gops.nn.BlurPool(0), "channels is 0"), (lambda: gops.nn.BlurPool(3, 1), "filter_size is 1"),
    (lambda: gops.nn.SPP((5, 4)), r"sizes is (5, 4); expected odd numbers"),
    (lambda: gops.nn.SqueezeExcite(8, 0), "reduction is 0"), (lambda: gops.nn.PixelShuffle(0), "factor is 0"),
])
def test_refusals(make, text):
    with pytest.raises(gops.OpError) as caught:
        make()
    assert text in str(caught.value)
