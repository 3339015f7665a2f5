"""Ranges of tensors by each method, against NumPy from the definitions, and weights as integers."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.export import ExportedModel, passes
from gluonops.export.quantization.calibration import (
    BINS,
    Statistics,
    entropy_bins,
    magnitude_histogram,
    percentile_bins,
)
from gluonops.export.quantization.quantizable import (
    ALL,
    SAFE,
    layers_of,
    per_channel,
    quantized_weight,
    with_corrected_biases,
)
from gluonops.export.quantization.running import relative_error, run, simulated
from mxnet.gluon import nn


def divergence(histogram, kept, levels):
    """How far a quantized distribution is from its reference, by Migacz's steps, one bin at a time."""
    reference = histogram[:kept].astype(np.float64)
    reference[-1] += histogram[kept:].sum()
    level = [i * levels // kept for i in range(kept)]
    quantized = np.zeros(kept)
    for number in range(levels):
        members = [i for i in range(kept) if level[i] == number]
        filled = [i for i in members if histogram[i]]
        for i in filled:
            quantized[i] = sum(histogram[j] for j in members) / len(filled)
    if any(p and not q for p, q in zip(reference, quantized)):
        return np.inf
    reference, quantized = reference / reference.sum(), quantized / quantized.sum()
    return sum(p * np.log(p / q) for p, q in zip(reference, quantized) if p)


@pytest.mark.parametrize("levels", [8, 16])
@pytest.mark.parametrize("kind", ["bell", "tails", "gaps"])
def test_entropy(kind, levels, rng):
    values = {"bell": rng.randn(4000), "tails": rng.standard_t(2, 4000), "gaps": np.rint(rng.randn(300) * 3)}[kind]
    histogram = magnitude_histogram(values.astype(np.float32), np.abs(values).max(), 96)
    found = {kept: divergence(histogram, kept, levels) for kept in range(levels, 97)}
    least = min(found.values())
    assert found[entropy_bins(histogram, levels)] == pytest.approx(least, abs=1e-12)


def test_entropy_saturates_outliers(rng):
    values = np.append(rng.randn(20000), [40.0]).astype(np.float32)
    kept = entropy_bins(magnitude_histogram(values, 40), 128)
    assert 2.5 < kept * 40 / BINS < 6


@pytest.mark.parametrize("percentile", [50, 99, 99.9, 100])
def test_percentile(percentile, rng):
    values = rng.standard_t(3, 5000).astype(np.float32)
    largest = np.abs(values).max()
    kept = percentile_bins(magnitude_histogram(values, largest), percentile)
    wanted = np.percentile(np.abs(values), percentile, method="inverted_cdf")
    assert 0 <= kept * largest / BINS - wanted <= largest / BINS * 1.001


def test_a_histogram_counts_no_zeros(rng):
    values = np.array([0, 0, -1, 0.5, 1, -0.26], np.float32)
    np.testing.assert_array_equal(magnitude_histogram(values, 1, 4), [0, 1, 1, 2])


@pytest.fixture
def model(rng):
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3, activation="relu"), nn.Dense(5))
    net.initialize(mx.init.Xavier())
    return passes.lower(ExportedModel.from_net(net, (1, 2, 6, 6)), "builtin")


def calibrate(model, batches, *method):
    return Statistics.of(model, batches).ranges(*method)


def data_of(rng):
    return [{"data": mx.nd.array(rng.standard_t(3, (3, 2, 6, 6)))} for _ in range(2)]


def test_ranges_of_a_model(model, rng):
    """Its input has the lowest and the highest number of all batches, within the threshold."""
    batches = data_of(rng)
    values = np.concatenate([batch["data"].asnumpy().ravel() for batch in batches])
    largest = float(np.abs(values).max())
    naive = calibrate(model, batches, "naive")
    assert naive["data"] == (values.min(), values.max())
    assert naive["net_conv0_relu_fwd_output"][0] == 0
    assert naive.keys() == {"data", "net_conv0_fwd_output", "net_conv0_relu_fwd_output", "net_dense0_fwd_output"}

    wanted = np.percentile(np.abs(values), 90, method="inverted_cdf")
    low, high = calibrate(model, batches, "percentile", 90)["data"]
    assert -low == pytest.approx(high) and 0 <= high - wanted <= largest / BINS * 1.001

    kept = entropy_bins(magnitude_histogram(values, largest), 128)
    threshold = kept * largest / BINS
    low, high = calibrate(model, batches, "entropy")["data"]
    assert (low, high) == pytest.approx((max(values.min(), -threshold), min(values.max(), threshold)))


def test_a_tensor_of_zeros_has_a_range(model):
    zeros = [{"data": mx.nd.zeros((2, 2, 6, 6))}]
    for method in ("naive", "percentile", "entropy"):
        assert calibrate(model, zeros, method)["data"] == (0, 1)


def test_weights(rng):
    weight = rng.randn(5, 3, 2, 2).astype(np.float32)
    weight[1] *= 100
    weight[2] = 0
    for levels, most in ((SAFE, 64), (ALL, 127)):
        integers, scale = quantized_weight(weight, levels)
        for channel in range(5):
            largest = np.abs(weight[channel]).max()
            expected = np.rint(weight[channel].astype(np.float64) / (largest / most)) if largest else 0
            assert scale[channel] == pytest.approx(largest / most if largest else 1)
            np.testing.assert_array_equal(integers[channel], expected)
        assert np.abs(integers).reshape(5, -1).max(1).tolist() == [most, most, 0, most, most]


@pytest.mark.parametrize("layer", [nn.Conv2D(6, 3, groups=2, use_bias=False), nn.Conv2D(6, 1), nn.Dense(6)],
                         ids=["groups", "bias", "dense"])
def test_biases_keep_the_means(layer, rng):
    """With rounded weights, the mean of each channel is what it was before; the borders are no pixels of padding."""
    layer.initialize(mx.init.Normal(1))
    data = mx.nd.array(rng.uniform(1, 2, (3, 4, 1, 1)) * np.ones((3, 4, 5, 5)))
    layer(data)
    model = passes.lower(ExportedModel.from_net(layer, data.shape), "builtin")
    batches, levels = [{"data": data}], (-3, 3)
    name = next(node.name for node in layers_of(model))
    corrected = with_corrected_biases(model, {name}, Statistics.of(model, batches).means, levels)

    def rounded(model):
        model = model.copy()
        weight = next(iter(layers_of(model))).source(1).name
        integers, scale = quantized_weight(model.parameters[weight].asnumpy(), levels)
        model.parameters[weight] = mx.nd.array(integers * per_channel(scale, integers.ndim))
        return run(model, batches)[0][0]

    def means(output):
        return output.mean(tuple(axis for axis in range(output.ndim) if axis != 1))

    expected = means(run(model, batches)[0][0])
    assert np.abs(means(rounded(model)) - expected).max() > 0.1
    np.testing.assert_allclose(means(rounded(corrected)), expected, rtol=1e-4, atol=1e-4)


def test_what_one_layer_loses(model, rng):
    """A simulated dense layer agrees with NumPy."""
    batches = data_of(rng)
    ranges = calibrate(model, batches, "naive")
    weight, bias = (model.parameters[f"net_dense0_{word}"].asnumpy() for word in ("weight", "bias"))
    hidden = model.copy()
    hidden.graph.outputs = [(node, 0) for node in model.graph.nodes() if node.name == "net_conv0_relu_fwd"]
    found = run(simulated(model, ranges, ["net_dense0_fwd"]), batches)
    for (got,), (features,) in zip(found, run(hidden, batches)):
        step = ranges["net_conv0_relu_fwd_output"][1] / 127.5   # MXNet divides it so
        rounded = np.rint(features.reshape(len(features), -1) / step).clip(-127, 127) * step
        integers, scale = quantized_weight(weight)
        exact = rounded @ (integers * scale[:, None]).T + bias
        step = max(map(abs, ranges["net_dense0_fwd_output"])) / 127.5
        assert np.abs(got - exact.clip(-127 * step, 127 * step)).max() < 0.51 * step
        np.testing.assert_allclose(got / step, np.rint(got / step), atol=1e-3)


def test_relative_error():
    assert relative_error([[np.array([1.0, 2.0])], [np.array([2.0])]], [[np.array([1.0, 2.0])], [np.array([2.0])]]) == 0
    assert relative_error([[np.array([3.0, 5.0])]], [[np.array([3.0, 4.0])]]) == pytest.approx(0.2)
    assert relative_error([[np.array([1.0]), np.array([2.0])]], [[np.array([1.0]), np.array([1.0])]]) == 1
    assert relative_error([[np.array([np.nan])]], [[np.array([1.0])]]) == np.inf
    assert relative_error([[np.array([1.0])]], [[np.array([0.0])]]) == np.inf


def test_an_unknown_method(model, rng):
    with pytest.raises(gops.OpError, match="method is 'max'"):
        calibrate(model, data_of(rng), "max")
    with pytest.raises(gops.OpError, match="there is no data to calibrate with"):
        calibrate(model, [], "naive")
