"""The ranges that a net's tensors are quantized with, from batches of data.

A method turns the histogram of a tensor's magnitudes into a threshold. Values beyond it saturate.

==============  ====================================================================================================
``naive``       the largest magnitude
``percentile``  the smallest threshold that covers a percentage of the values
``entropy``     the threshold whose 8-bit distribution is closest to the float one, by Kullback-Leibler divergence
==============  ====================================================================================================

Source of the entropy: S. Migacz, "8-bit inference with TensorRT", GTC 2017. MXNet's ``calibrate_entropy`` is not used:
it spends half of its levels on values below zero, also where there are none, and counts zeros, which every threshold
represents exactly.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import mxnet as mx
import numpy as np

from ...contract.errors import OpError
from ..constants import parameter_only
from ..model import ExportedModel
from .running import Batch, Ranges, Runner

METHODS = ("entropy", "percentile", "naive")
BINS = 2048   # A histogram has so many.
ALL_ZERO = (0.0, 1.0)   # the range of a tensor of zeros: any will do that is not empty
SIGNED_LEVELS, UNSIGNED_LEVELS = 128, 256   # magnitudes that int8 and uint8 have


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Magnitudes of the float32 tensors that a model computes, and of its inputs, by MXNet's names.

    - ``extremes``: lowest and highest value.
    - ``histograms``: see :func:`magnitude_histogram`.
    - ``means``: of each channel, the second axis; float64, (channels,). A tensor of one axis has one mean.
    """

    extremes: Ranges
    histograms: dict[str, np.ndarray]
    means: dict[str, np.ndarray]

    @classmethod
    def of(cls, model: ExportedModel, batches: Sequence[Batch]) -> Statistics:
        """Run a model of MXNet's operators on batches, twice. An OpError is raised if a tensor is not finite."""
        if not batches:
            raise OpError("export.quantize", "there is no data to calibrate with", "Pass a batch or more")
        extremes, means = _extremes_and_means(model, batches)
        histograms = {name: np.zeros(BINS) for name in extremes}
        for name, values in _values(model, batches):
            histograms[name] += magnitude_histogram(values, max(map(abs, extremes[name])))
        return cls(extremes, histograms, means)

    def ranges(self, method: str, percentile: float = 99.99) -> Ranges:
        """The range of every tensor by a method. An OpError is raised if there is no such method or percentile."""
        check_method(method, percentile)
        return {name: _range(self.histograms[name], *ends, method, percentile) for name, ends in self.extremes.items()}


def check_method(method: str, percentile: float) -> None:
    """Raise an OpError where there is no such method or percentile."""
    if method not in METHODS:
        raise OpError("export.quantize", f"method is {method!r}; expected {', '.join(METHODS)}",
                      "Choose one of them")
    if not 0 < percentile <= 100:
        raise OpError("export.quantize", f"percentile is {percentile!r}; expected more than 0 and at most 100",
                      "Pass for instance 99.99")


def _values(model, batches):
    """(name, values) of every tensor that depends on an input and is float32, in every batch."""
    fixed = {node.name for node in parameter_only(model.graph, model.parameters)}
    internals = model.graph.symbol().get_internals()
    tensors = {tensor.list_outputs()[0]: tensor for tensor in internals if tensor.name not in fixed}
    runner = Runner(mx.sym.Group(list(tensors.values())), model.parameters, model.graph.mode)
    for batch in batches:
        for name, values in zip(tensors, runner(batch)):
            if values.dtype == np.float32 and values.size:
                yield name, values


def _extremes_and_means(model, batches):
    extremes, sums, counts = {}, {}, {}
    for name, values in _values(model, batches):
        low, high = float(values.min()), float(values.max())
        if not (np.isfinite(low) and np.isfinite(high)):
            raise OpError("export.quantize", f"the tensor {name!r} is not finite on the calibration data",
                          "Look at the net's parameters and at the data")
        before = extremes.get(name, (low, high))
        extremes[name] = min(low, before[0]), max(high, before[1])
        channels = values.shape[1] if values.ndim > 1 else 1
        axes = tuple(axis for axis in range(values.ndim) if axis != 1)
        sums[name] = sums.get(name, 0) + values.sum(axes, np.float64).reshape(channels)
        counts[name] = counts.get(name, 0) + values.size // channels
    extremes = {name: ends if any(ends) else ALL_ZERO for name, ends in extremes.items()}
    return extremes, {name: total / counts[name] for name, total in sums.items()}


def _range(histogram, low, high, method, percentile):
    largest = max(abs(low), abs(high))
    if method == "naive" or not histogram.any():
        return low, high
    if method == "percentile":
        kept = percentile_bins(histogram, percentile)
    else:
        kept = entropy_bins(histogram, UNSIGNED_LEVELS if low >= 0 else SIGNED_LEVELS)
    threshold = largest * kept / len(histogram)
    return max(low, -threshold), min(high, threshold)


def magnitude_histogram(values: np.ndarray, largest: float, bins: int = BINS) -> np.ndarray:
    """Counts of the magnitudes in bins of equal width from 0 to ``largest``; zeros are not counted.

    ``largest``: at least every magnitude. The result is float64, (bins,).
    """
    magnitudes = np.abs(values[values != 0]).astype(np.float32)
    if not magnitudes.size:
        return np.zeros(bins)
    indices = np.minimum((magnitudes * (bins / largest)).astype(np.int32), bins - 1)
    return np.bincount(indices, minlength=bins).astype(np.float64)


def percentile_bins(histogram: np.ndarray, percentile: float) -> int:
    """The smallest number of bins that hold a percentage of the counts."""
    covered = np.cumsum(histogram)
    wanted = covered[-1] * (percentile / 100)
    return min(int(np.searchsorted(covered, wanted)) + 1, len(histogram))


def entropy_bins(histogram: np.ndarray, levels: int) -> int:
    """The number of bins whose quantized distribution diverges least from the whole one.

    The reference distribution of ``n`` bins has all counts beyond them in its last bin: that is what saturation does.
    The quantized one has ``levels`` levels; the counts of a level are spread evenly over its bins that are not empty.

    The histogram's counts are not all 0, and there are at most as many levels as bins. The result is between ``levels``
    and the number of bins; of equal ones the largest.
    """
    kept = np.arange(levels, len(histogram) + 1)
    divergences = _divergences(histogram, kept, levels)
    return int(kept[len(kept) - 1 - np.argmin(divergences[::-1])])


def _divergences(histogram, kept, levels):
    """Kullback-Leibler divergence of the quantized from the reference distribution, for each number of bins kept.

    With the counts ``h`` of the bins, the counts ``o`` beyond them, and ``s``, the counts of a bin after its level's
    were spread evenly, it is ``sum(p log(p / q))`` with ``p = h / total``, the last one ``(h + o) / total``, and
    ``q = s / sum(s)``. The sum of ``h log(s)`` over a level is its total times the logarithm of the total divided by
    the number of its bins that are not empty: running sums are all that is needed.
    """
    total, inside = histogram.sum(), np.cumsum(histogram)[kept - 1]
    last, beyond = histogram[kept - 1], total - inside
    starts = -(-np.arange(levels + 1) * kept[:, None] // levels)
    totals = np.diff(_running_sum(histogram)[starts])
    filled = np.diff(_running_sum(histogram > 0)[starts])
    spread = totals / np.maximum(filled, 1)

    reference = _running_sum(_x_log(histogram))[kept - 1] + _x_log(last + beyond)
    quantized = (totals * _log(spread)).sum(axis=1) + beyond * _log(spread[:, -1])
    divergences = (reference - quantized) / total + _log(inside) - np.log(total)
    return np.where((beyond > 0) & (last == 0), np.inf, divergences)


def _running_sum(values):
    return np.concatenate([[0.0], np.cumsum(values)])


def _log(values):
    """Logarithm; 0 where there are no counts."""
    return np.log(np.where(values > 0, values, 1))


def _x_log(values):
    return values * _log(values)
