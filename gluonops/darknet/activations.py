"""Darknet's activations by the names that a cfg uses, and the other sections that keep the shape of their input.

AlexeyAB's CPU build returns zeros for ``relu6``, because ``relu6`` is missing in one of its tables. The block here
computes what his GPU build computes. The options of a loss are read when the loss is asked for, not when a cfg is
loaded. Sources: ``src/activations.h``, ``src/activations.c``, and ``parse_softmax`` and ``parse_cost`` in
``src/parser.c``.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from mxnet.gluon import HybridBlock, nn

from .. import ops
from ..backends.emitter import Array
from ..contract.attributes import Float
from ..nn import Mish
from .blocks import layer
from .build import Builder, Layer, Shape, kind
from .cfg import Section
from .net_loss import HeadLoss, check_has_loss
from .tree import TreeSoftmax

# The types of a [cost] behind a loss.
TYPES_BEHIND = {"softmax": ["sse", "masked"]}
SLOPE = 0.1
SELU_SCALE, SELU_ALPHA = 1.0507, 1.6732
# Darknet's digits of sqrt(2 / pi), and of 0.044715 times it.
GELU_LINEAR, GELU_CUBIC = 0.797885, 0.035677


@layer
def Identity(F, data: Array) -> Array:
    """A layer that does something in training only, such as ``[dropout]``. Here its output is its input."""
    return F.identity(data)


@layer
def Formula(F, data: Array, *, function: Callable[..., Array]) -> Array:
    """Applies ``function`` to every element. It takes MXNet's namespace, ``mx.nd`` or ``mx.sym``, and the data."""
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
    "swish": lambda F, x: ops.swish(x),
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
    """Darknet's ``[softmax]``: the N numbers of an image are cut into equal ``groups``, and each has its own softmax.

    The input, of shape (B, ...), is divided by ``temperature`` first. The output is (B, N). With ``groups=2``, for
    example, the first N / 2 numbers sum to 1, and so do the others.
    """
    rows = F.reshape(data, shape=(0, groups, -1))
    return F.Flatten(ops.softmax(rows, axis=-1, temperature=temperature))


def activation_block(name: str) -> HybridBlock | None:
    """A new block of the activation, or None for ``linear``."""
    return None if name == "linear" else ACTIVATIONS[name]()


@kind("dropout", takes_row=True)
def dropout(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    probability = section.number("probability", 0.5, Float(low=0, below=1))
    return Layer(nn.Dropout(probability, prefix=prefix), shape)


@kind("activation", takes_row=True)
def activation(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    block = nn.HybridSequential(prefix=prefix)
    with block.name_scope():
        block.add(ACTIVATIONS[section.text("activation", "linear", sorted(ACTIVATIONS))]())
    return Layer(block, shape)


@kind("cost", takes_row=True)
def cost(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    before, source = None, None
    if build.layers and build.layers[-1].loss is not None:
        before, source = build.layers[-1].loss, build.layers[-1].loss_source
    block = Identity(prefix=prefix)
    return Layer(block, shape, loss=lambda: _cost_loss(section, before), loss_source=source)


def _cost_loss(section: Section, before: Callable[[], HeadLoss] | None) -> HeadLoss:
    """The loss of ``[cost]``, which may follow a ``[softmax]``.

    Both layers have the same delta, the label minus the probability. Darknet adds the two.
    """
    scale = section.number("scale", 1)
    if before is None:
        section.text("type", "sse", ["sse"])
        return HeadLoss("cost", {}, scale)
    head = before()
    if head.kind not in TYPES_BEHIND:
        raise section.error(f"gluonops does not compute the loss of a [cost] that follows a [{head.kind}]; expected a "
                            "[cost] behind another section, or none", "Remove [cost]")
    section.text("type", "sse", TYPES_BEHIND[head.kind])
    return head._replace(weight=head.weight + scale)


@kind("contrastive", takes_row=True)
@kind("empty", "silence", takes_row=True)
def identity(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    return Layer(Identity(prefix=prefix), shape)


@layer
def _RowTreeSoftmax(F, data: Array, *, softmax: HybridBlock) -> Array:
    """``TreeSoftmax`` where an image is a row of numbers, (B, N)."""
    return F.Flatten(softmax(F.reshape(data, shape=(0, -1, 1))))


@kind("softmax", "soft", takes_row=True)
def softmax(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    section.refuse("spatial", "Darknet ignores it on a CPU and not on a GPU")
    groups = section.integer("groups", 1, 1)
    temperature = section.number("temperature", 1)
    size = math.prod(shape)
    if size % groups or temperature <= 0:
        raise section.error(f"its input has {size} numbers, groups is {groups} and temperature is {temperature}; "
                            "expected groups of one size, and a temperature above 0", "Correct groups or temperature")
    tree = build.tree(section, size) if "tree" in section else None
    block = Softmax(groups, temperature, prefix=prefix)
    if tree is not None:
        block = _RowTreeSoftmax(partial(TreeSoftmax, tree, temperature), prefix=prefix)
    return Layer(block, (size,), loss=lambda: _softmax_loss(section, temperature))


def _softmax_loss(section: Section, temperature: float) -> HeadLoss:
    check_has_loss(section)
    section.refuse("groups", "gluonops does not compute its loss", neutral=1)
    weight = 0 if section.flag("noloss") else 1
    return HeadLoss("softmax", {"temperature": temperature}, weight)
