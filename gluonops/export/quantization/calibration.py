"""The ranges that a net's tensors are quantized with, from batches of data.

A method turns the histogram of a tensor's magnitudes into a threshold. Values beyond it saturate.

==============  ====================================================================================================
``naive``       the largest magnitude
``percentile``  the smallest threshold that covers a percentage of the values
``entropy``     the threshold whose 8-bit distribution is closest to the float one, by Kullback-Leibler divergence
==============  ====================================================================================================

The thresholds are computed in :mod:`gluonops.export.quantization.thresholds`.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import mxnet as mx
import numpy as np

from ...core.errors import OpError
from ..constants import parameter_only
from ..model import ExportedModel
from .running import Batch, Runner
from .thresholds import BINS, entropy_bins, magnitude_histogram, percentile_bins

Ranges = dict[str, tuple[float, float]]
METHODS = ("entropy", "percentile", "naive")
ALL_ZERO = (0.0, 1.0)   # the range of a tensor of zeros: any will do that is not empty
SIGNED_LEVELS, UNSIGNED_LEVELS = 128, 256   # magnitudes that int8 and uint8 have


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Magnitudes of the float32 tensors that a model computes, and of its inputs, by MXNet's names.

    - ``extremes``: lowest and highest value.
    - ``histograms``: see :func:`magnitude_histogram`.
    """

    extremes: Ranges
    histograms: dict[str, np.ndarray]

    @classmethod
    def of(cls, model: ExportedModel, batches: Sequence[Batch]) -> Statistics:
        """Run a model of MXNet's operators on batches, twice.

        An OpError if there is no batch, or a tensor is not finite.
        """
        if not batches:
            raise OpError("export.quantize", "there is no data to calibrate with", "Pass a batch or more")
        tensors = _tensors(model)
        extremes = _extremes(model, tensors, batches)
        return cls(extremes, _histograms(model, tensors, batches, extremes))

    def ranges(self, method: str, percentile: float = 99.99) -> Ranges:
        """The range of every tensor by a method.

        - ``method``: 'entropy', 'percentile', 'naive'.
        - ``percentile``: more than 0, at most 100. For the method of that name.

        An OpError if the method is unknown, or the percentile out of range.
        """
        check_method(method, percentile)
        return {name: _range(self.histograms[name], *ends, method, percentile) for name, ends in self.extremes.items()}


def check_method(method: str, percentile: float) -> None:
    """Raise where there is no such method or percentile."""
    if method not in METHODS:
        raise OpError("export.quantize", f"method is {method!r}; expected {', '.join(METHODS)}",
                      "Choose one of them")
    if not 0 < percentile <= 100:
        raise OpError("export.quantize", f"percentile is {percentile!r}; expected more than 0 and at most 100",
                      "Pass for instance 99.99")


def _tensors(model):
    """Name -> symbol of every tensor that depends on an input."""
    symbol = model.graph.symbol()
    fixed = {node.name for node in parameter_only(model.graph, model.parameters)}
    found = {}
    for tensor in symbol.get_internals():
        if tensor.name not in fixed:
            found[tensor.list_outputs()[0]] = tensor
    return found


def _run_all(model, tensors, batches):
    """(name, values) of every tensor in every batch, if it is float32."""
    run = Runner(mx.sym.Group(list(tensors.values())), model.parameters)
    for batch in batches:
        for name, values in zip(tensors, run(batch)):
            if values.dtype == np.float32 and values.size:
                yield name, values


def _extremes(model, tensors, batches):
    extremes = {}
    for name, values in _run_all(model, tensors, batches):
        low, high = float(values.min()), float(values.max())
        if not (np.isfinite(low) and np.isfinite(high)):
            raise OpError("export.quantize", f"the tensor {name!r} is not finite on the calibration data",
                          "Look at the net's parameters and at the data")
        before = extremes.get(name, (low, high))
        extremes[name] = min(low, before[0]), max(high, before[1])
    return {name: ends if any(ends) else ALL_ZERO for name, ends in extremes.items()}


def _histograms(model, tensors, batches, extremes):
    histograms = {name: np.zeros(BINS) for name in extremes}
    for name, values in _run_all(model, tensors, batches):
        histograms[name] += magnitude_histogram(values, max(map(abs, extremes[name])))
    return histograms


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
