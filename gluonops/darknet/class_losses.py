"""The losses of ``[softmax]`` and of ``[cost]``. Sources: ``src/softmax_layer.c`` and ``src/cost_layer.c``."""
from __future__ import annotations

from ..backends.emitter import Array
from ..ops import softmax_cross_entropy
from .blocks import layer


@layer
def ClassLoss(F, pred: Array, label: Array, *, temperature: float = 1.0) -> Array:
    """The loss of ``[softmax]``: the cross-entropy, times the temperature, (B,).

    Darknet does not divide its delta by the temperature.

    - ``pred``: what the softmax takes, (B, ...), which is divided by the temperature.
    - ``label``: the class, (B,).
    """
    return softmax_cross_entropy(F.Flatten(pred) / temperature, label) * temperature


@layer
def SquareLoss(F, pred: Array, truth: Array) -> Array:
    """The loss of a ``[cost]`` by itself: half the squared errors of an image, (B,).

    ``truth`` has as many numbers as ``pred``.
    """
    return F.sum(F.square(pred - F.reshape_like(truth, pred)), axis=0, exclude=True) / 2
