"""Decides whether a net in 8 bits is good enough to be written, and says what helps where it is not."""
from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np

from ...contract.errors import OpError
from ..warning import ExportWarning
from .quantizable import QuantizedLayer
from .running import Ranges

WHERE = "export.quantize"
MOST_ERROR = 0.1     # A result with a larger error is not written, unless the user sets another limit.
DOUBTFUL = 0.03      # A larger error is worth a warning.
VANISHING = 1e-6     # MXNet's 8-bit operators make zeros of tensors whose values are all smaller.
NAMED_LAYERS = 3     # An error names so many.
# Measured by `python -m benchmarks.networks.int8_accuracy --errors`.
COSTS = ("In a trained classifier of digits, an error of 0.03 changed the class of 0.2 percent of the images, and one "
         "of 0.1 that of 0.5 percent. Nets with many similar classes lose more: pass score to measure it")


def check_outputs(expected: Sequence[Sequence[np.ndarray]], limit: float | None) -> None:
    """Raise an OpError where every output of the float net is zero, so that its error would say nothing."""
    if limit is None and not any(output.any() for outputs in expected for output in outputs):
        raise OpError(WHERE, "all outputs of the float net are zero on the held-out data, so that the error of the "
                      "8-bit net cannot be measured; expected a net that was trained",
                      "Load its trained parameters, or pass other data as held_out")


def check_result(errors: dict[str, float], scores: dict[str, float], limit: float | None,
                 layers: Sequence[QuantizedLayer], ranges: Ranges) -> None:
    """Raise an OpError where a result is worse than it may be, or not finite.

    Warn where it is doubtful, and the user has neither set a limit nor measured a score.

    Parameters
    ----------
    errors, scores, layers
        As in :class:`gluonops.export.Quantized`.
    limit : float or None
        As :func:`gluonops.export.quantize` takes it.
    ranges : dict of str to (float, float)
        The lowest and the highest value of the tensors.
    """
    for name, error in errors.items():
        what = f"the result for {name} has an error of {error:.5g} on the held-out data"
        if not math.isfinite(error):
            raise _refused(f"{what}; expected a finite error", name, layers, ranges)
        if limit is not None and scores:
            lost = scores["float"] - scores[name]
            if not lost <= limit:
                raise _refused(f"the score for {name} is {scores[name]:.5g} on the held-out data, {lost:.5g} below the "
                               f"float net's; expected at most {limit}", name, layers, ranges)
        elif not error <= (MOST_ERROR if limit is None else limit):
            raise _refused(f"{what}; expected at most {MOST_ERROR if limit is None else limit}", name, layers, ranges)
        if error > DOUBTFUL and limit is None and not scores:
            warnings.warn(f"{what}. {COSTS}. {_costly(layers)}. {_helps()}", ExportWarning, stacklevel=3)


def _refused(what, name, layers, ranges):
    tensor = _vanishing(ranges)
    if name == "MXNet" and tensor is not None:
        return OpError(WHERE, f"{what}. MXNet's 8-bit operators make zeros of a tensor whose values are all below "
                       f"{VANISHING:g}, and the largest of {tensor!r} is {max(map(abs, ranges[tensor])):.2g}",
                       "Load the net's trained parameters: values vanish like this in nets without training")
    return OpError(WHERE, f"{what}. {_costly(layers)}", _helps())


def _vanishing(ranges):
    """The first tensor whose values MXNet makes zeros of; None where there is none."""
    return next((name for name, ends in ranges.items() if max(map(abs, ends)) < VANISHING), None)


def _costly(layers):
    """Which layers have the largest errors."""
    worst = sorted((layer for layer in layers if layer.is_quantized), key=lambda layer: -layer.error)[:NAMED_LAYERS]
    return f"The layers that cost most are {', '.join(f'{layer.name!r} ({layer.error:.2g})' for layer in worst)}"


def _helps():
    return ("Keep these in float (keep, or --keep), lower layer_limit, calibrate with more pictures, or accept the "
            "result with a larger limit (limit, or --limit)")
