"""The losses of ``[softmax]`` and of ``[cost]``. Sources: ``src/softmax_layer.c`` and ``src/cost_layer.c``."""
from __future__ import annotations

from ..backends.emitter import Array
from ..ops import softmax_cross_entropy
from .blocks import layer


@layer
def ClassLoss(F, pred: Array, label: Array, *, temperature: float = 1.0) -> Array:
    """The loss of ``[softmax]``: the cross-entropy times the temperature, (B,).

    The factor makes the gradient that of Darknet, which does not divide its delta by the temperature.

    - ``pred``: the input of the softmax, (B, ...), before it is divided by the temperature.
    - ``label``: the class of each image, (B,).
    """
    return softmax_cross_entropy(F.Flatten(pred) / temperature, label) * temperature


@layer
def SquareLoss(F, pred: Array, truth: Array) -> Array:
    """The loss of a ``[cost]`` without a ``[softmax]``: half the sum of the squared errors of each image, (B,).

    ``truth`` has as many numbers as ``pred``.
    """
    return F.sum(F.square(pred - F.reshape_like(truth, pred)), axis=0, exclude=True) / 2
