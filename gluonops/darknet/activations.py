"""Darknet's activations as HybridBlocks, by the names that a cfg uses.

AlexeyAB's CPU build returns zeros for ``relu6``, because one of its tables lacks it. Here it is what his GPU build
computes. Sources: ``src/activations.h`` and ``src/activations.c`` of pjreddie/darknet, commit f6afaabc, and of
AlexeyAB/darknet, commit 59596d78.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mxnet.gluon import HybridBlock, nn

from ..core.emitter import Array
from ..ops import mish, softmax, swish
from .blocks import layer

__all__ = ["ACTIVATIONS", "Formula", "Identity", "Mish", "Softmax", "activation_block"]

SLOPE = 0.1
SELU_SCALE, SELU_ALPHA = 1.0507, 1.6732
# Darknet's digits of sqrt(2 / pi), and of 0.044715 times it.
GELU_LINEAR, GELU_CUBIC = 0.797885, 0.035677


@layer
def Mish(F, data: Array) -> Array:
    """See :func:`gluonops.ops.mish`."""
    return mish(data)


@layer
def Identity(F, data: Array) -> Array:
    """A layer that acts in training only: its output is its input."""
    return F.identity(data)


@layer
def Formula(F, data: Array, *, function: Callable[..., Array]) -> Array:
    """A function of every element. ``function``: takes MXNet's namespace and the data."""
    return function(F, data)


def _hard_mish(F, x: Array) -> Array:
    below = F.maximum(x, -2)
    return F.where(x > 0, x, below * below / 2 + below)


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


FORMULAS = {
    "elu": lambda F, x: F.where(x >= 0, x, F.expm1(F.minimum(x, 0))),
    "gelu": lambda F, x: 0.5 * x * (1 + F.tanh(GELU_LINEAR * x + GELU_CUBIC * x * x * x)),
    "hard_mish": _hard_mish,
    "hardtan": lambda F, x: F.clip(x, -1, 1),
    "lhtan": _lhtan,
    "loggy": lambda F, x: 2 * F.sigmoid(x) - 1,
    "plse": _plse,
    "ramp": lambda F, x: F.relu(x) + SLOPE * x,
    "relu6": lambda F, x: F.clip(x, 0, 6),
    "selu": lambda F, x: SELU_SCALE * F.where(x >= 0, x, SELU_ALPHA * F.expm1(F.minimum(x, 0))),
    "stair": _stair,
    "swish": lambda F, x: swish(x),
}
ACTIVATIONS = {
    **{name: partial(Formula, function) for name, function in FORMULAS.items()},
    "leaky": partial(nn.LeakyReLU, SLOPE),
    "linear": Identity,
    "logistic": partial(nn.Activation, "sigmoid"),
    "mish": Mish,
    "relie": partial(nn.LeakyReLU, 0.01),
    "relu": partial(nn.Activation, "relu"),
    "tanh": partial(nn.Activation, "tanh"),
}


@layer
def Softmax(F, data: Array, *, groups: int = 1, temperature: float = 1.0) -> Array:
    """Darknet's ``[softmax]``: the numbers of an image in a row, in ``groups`` of one size, and the softmax of each.

    ``temperature``: the input is divided by it. The output is (B, N).
    """
    rows = F.reshape(data, shape=(0, groups, -1))
    return F.Flatten(softmax(rows, axis=-1, temperature=temperature))


def activation_block(name: str) -> HybridBlock | None:
    """A new block of the activation, or None for ``linear``."""
    return None if name == "linear" else ACTIVATIONS[name]()
