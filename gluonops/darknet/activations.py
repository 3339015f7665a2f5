"""Darknet's activations as HybridBlocks, by the names that a cfg uses.

AlexeyAB's CPU build returns zeros for ``relu6``, because one of its tables lacks it. Here it is what his GPU build
computes. Sources: ``src/activations.h`` and ``src/activations.c`` of pjreddie/darknet, commit f6afaabc, and of
AlexeyAB/darknet, commit 59596d78.
"""
from __future__ import annotations

from collections.abc import Callable

from mxnet.gluon import HybridBlock, nn

from ..core.emitter import Array
from ..ops import mish, swish

__all__ = ["ACTIVATIONS", "Formula", "Identity", "Mish", "activation_block"]

SLOPE = 0.1
SELU_SCALE, SELU_ALPHA = 1.0507, 1.6732
# Darknet's digits of sqrt(2 / pi), and of 0.044715 times it.
GELU_LINEAR, GELU_CUBIC = 0.797885, 0.035677


class Mish(HybridBlock):
    """See :func:`gluonops.ops.mish`.

    Inputs:
        - **data**: any shape.

    Outputs:
        - **out**: the same shape.
    """

    def hybrid_forward(self, F, data: Array) -> Array:
        return mish(data)


class Identity(HybridBlock):
    """A layer that acts in training only: its output is its input.

    Inputs:
        - **data**: any shape.

    Outputs:
        - **out**: `data`.
    """

    def hybrid_forward(self, F, data: Array) -> Array:
        return F.identity(data)


class Formula(HybridBlock):
    """A function of every element.

    ``function``: takes MXNet's namespace and the data.

    Inputs:
        - **data**: any shape.

    Outputs:
        - **out**: the same shape.
    """

    def __init__(self, function: Callable, **kwargs):
        super().__init__(**kwargs)
        self._function = function

    def hybrid_forward(self, F, data: Array) -> Array:
        return self._function(F, data)


def _elu(F, x: Array) -> Array:
    return F.where(x >= 0, x, F.expm1(F.minimum(x, 0)))


def _selu(F, x: Array) -> Array:
    return SELU_SCALE * F.where(x >= 0, x, SELU_ALPHA * F.expm1(F.minimum(x, 0)))


def _gelu(F, x: Array) -> Array:
    return 0.5 * x * (1 + F.tanh(GELU_LINEAR * x + GELU_CUBIC * x * x * x))


def _hard_mish(F, x: Array) -> Array:
    below = F.maximum(x, -2)
    return F.where(x > 0, x, below * below / 2 + below)


def _loggy(F, x: Array) -> Array:
    return 2 * F.sigmoid(x) - 1


def _ramp(F, x: Array) -> Array:
    return F.relu(x) + SLOPE * x


def _plse(F, x: Array) -> Array:
    beyond = 0.01 * (x - F.clip(x, -4, 4))
    return 0.125 * F.clip(x, -4, 4) + 0.5 + beyond


def _lhtan(F, x: Array) -> Array:
    inside = F.clip(x, 0, 1)
    return inside + 0.001 * (x - inside)


def _stair(F, x: Array) -> Array:
    """Steps of height 1 and width 2, with a slope of 1 between an odd number and the next even one."""
    half = F.floor(x / 2)
    return half + F.maximum(x - 2 * half - 1, 0)


def _formula(function: Callable) -> Callable:
    return lambda: Formula(function)


ACTIVATIONS = {
    "elu": _formula(_elu),
    "gelu": _formula(_gelu),
    "hard_mish": _formula(_hard_mish),
    "hardtan": _formula(lambda F, x: F.clip(x, -1, 1)),
    "leaky": lambda: nn.LeakyReLU(SLOPE),
    "lhtan": _formula(_lhtan),
    "linear": Identity,
    "loggy": _formula(_loggy),
    "logistic": lambda: nn.Activation("sigmoid"),
    "mish": Mish,
    "plse": _formula(_plse),
    "ramp": _formula(_ramp),
    "relie": lambda: nn.LeakyReLU(0.01),
    "relu": lambda: nn.Activation("relu"),
    "relu6": _formula(lambda F, x: F.clip(x, 0, 6)),
    "selu": _formula(_selu),
    "stair": _formula(_stair),
    "swish": _formula(lambda F, x: swish(x)),
    "tanh": lambda: nn.Activation("tanh"),
}


def activation_block(name: str) -> HybridBlock | None:
    """A new block of the activation, or None for ``linear``."""
    return None if name == "linear" else ACTIVATIONS[name]()
