"""The thresholds of a histogram of magnitudes: how many of its bins a quantized tensor covers. It needs NumPy alone.

Source of the entropy: S. Migacz, "8-bit inference with TensorRT", GTC 2017. MXNet's ``calibrate_entropy`` is not used:
it spends half of its levels on values below zero, also where there are none, and counts zeros, which every threshold
represents exactly.
"""
from __future__ import annotations

import numpy as np

BINS = 2048


def magnitude_histogram(values: np.ndarray, largest: float, bins: int = BINS) -> np.ndarray:
    """Counts of the magnitudes in bins of equal width from 0 to ``largest``; zeros are not counted.

    ``largest``: at least every magnitude. The result is float64, (bins,).
    """
    magnitudes = np.abs(values[values != 0]).astype(np.float32)
    if not magnitudes.size:
        return np.zeros(bins)
    places = np.minimum((magnitudes * (bins / largest)).astype(np.int32), bins - 1)
    return np.bincount(places, minlength=bins).astype(np.float64)


def percentile_bins(histogram: np.ndarray, percentile: float) -> int:
    """The smallest number of bins that hold a percentage of the counts."""
    covered = np.cumsum(histogram)
    wanted = covered[-1] * (percentile / 100)
    return min(int(np.searchsorted(covered, wanted)) + 1, len(histogram))


def entropy_bins(histogram: np.ndarray, levels: int) -> int:
    """The number of bins whose quantized distribution diverges least from the whole one.

    The reference distribution of ``n`` bins has all counts beyond them in its last bin: that is what saturation does.
    The quantized one has ``levels`` levels; the counts of a level are spread evenly over its bins that are not empty.

    - ``histogram``: counts, not all 0.
    - ``levels``: at most as many as bins.

    The result is between ``levels`` and the number of bins; of equal ones the largest.
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
    """Sums of the first 0, 1, 2, ... values."""
    return np.concatenate([[0.0], np.cumsum(values)])


def _log(values):
    """Logarithm; 0 where there are no counts."""
    return np.log(np.where(values > 0, values, 1))


def _x_log(values):
    return values * _log(values)
