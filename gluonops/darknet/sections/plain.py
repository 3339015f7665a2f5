"""Sections that keep the shape: activations, ``[softmax]``, and layers that act in training only.

The options of a loss are read when it is asked for. Sources: ``parse_softmax`` and ``parse_cost`` in ``src/parser.c``
of both programs.
"""
from __future__ import annotations

import math
from collections.abc import Callable

from mxnet.gluon import HybridBlock, nn

from ...core.emitter import Array
from ..activations import ACTIVATIONS, Identity, Softmax
from ..builder import Builder, Layer, Shape, kind
from ..cfg import Section
from ..losses import HeadLoss
from ..tree import Tree, TreeSoftmax

__all__ = ["activation", "contrastive", "cost", "dropout", "empty", "softmax"]

# The types of a [cost] behind a loss.
TYPES_BEHIND = {"softmax": ["sse", "masked"], "softmax of a tree": ["masked"]}


@kind("dropout", takes_row=True)
def dropout(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    probability = section.number("probability", 0.5)
    if not 0 <= probability < 1:
        raise section.error(f"probability is {probability}; expected 0 to 1, without 1", "Correct probability",
                            "probability")
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

    The delta of both is the label minus the probability, and Darknet adds them up. With a tree only the type masked
    leaves out the classes that do not count.
    """
    scale = section.number("scale", 1)
    if before is None:
        section.text("type", "sse", ["sse"])
        return HeadLoss("cost", {}, scale)
    head = before()
    if head.kind not in TYPES_BEHIND:
        raise section.error(f"the loss of a [cost] behind the loss of a {head.kind} is not computed", "Remove [cost]")
    section.text("type", "sse", TYPES_BEHIND[head.kind])
    return head._replace(weight=head.weight + scale)


@kind("contrastive", takes_row=True)
def contrastive(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    return Layer(Identity(prefix=prefix), shape)


@kind("empty", "silence", takes_row=True)
def empty(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    return Layer(Identity(prefix=prefix), shape)


class _RowTreeSoftmax(HybridBlock):
    """``TreeSoftmax`` of the numbers of an image in a row."""

    def __init__(self, tree: Tree, temperature: float, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.softmax = TreeSoftmax(tree, temperature)

    def hybrid_forward(self, F, data: Array) -> Array:
        return F.Flatten(self.softmax(F.reshape(data, shape=(0, -1, 1))))


@kind("softmax", "soft", takes_row=True)
def softmax(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    section.refuse("spatial", "Darknet ignores it on a CPU and not on a GPU")
    groups = section.integer("groups", 1, 1)
    temperature = section.number("temperature", 1)
    size = math.prod(shape)
    if size % groups or temperature <= 0:
        raise section.error(f"{size} numbers in {groups} groups at temperature {temperature}; expected groups of "
                            "one size and a temperature above 0", "Correct groups or temperature")
    tree = build.tree(section, size) if "tree" in section else None
    block = Softmax(groups, temperature, prefix=prefix)
    if tree is not None:
        block = _RowTreeSoftmax(tree, temperature, prefix=prefix)
    return Layer(block, (size,), loss=lambda: _softmax_loss(section, temperature, tree))


def _softmax_loss(section: Section, temperature: float, tree: Tree | None) -> HeadLoss:
    section.refuse("groups", "its loss is not computed", neutral=1)
    options = {"temperature": temperature}
    weight = 0 if section.flag("noloss") else 1
    if tree is not None:
        return HeadLoss("softmax of a tree", {**options, "tree": tree}, weight)
    return HeadLoss("softmax", options, weight)
