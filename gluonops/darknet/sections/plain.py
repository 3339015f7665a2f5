"""Sections that keep the shape: activations, ``[softmax]``, and layers that act in training only."""
from __future__ import annotations

import math

from mxnet.gluon import HybridBlock, nn

from ...core.emitter import Array
from ..activations import ACTIVATIONS
from ..builder import Builder
from ..cfg import Section
from ..layers import Identity, Softmax
from ..registry import Layer, Shape, kind
from ..tree import Tree, TreeSoftmax
from .head_losses import cost_loss, softmax_loss

__all__ = ["activation", "contrastive", "cost", "dropout", "empty", "softmax"]


@kind("dropout", takes_row=True)
def dropout(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    probability = section.number("probability", 0.5)
    if not 0 <= probability < 1:
        raise section.error(f"probability is {probability}; expected 0 to 1, without 1", "Correct probability",
                            section.line_of("probability"))
    return Layer(nn.Dropout(probability, prefix=prefix), shape)


@kind("activation", takes_row=True)
def activation(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    block = nn.HybridSequential(prefix=prefix)
    with block.name_scope():
        block.add(ACTIVATIONS[section.text("activation", "linear", sorted(ACTIVATIONS))]())
    return Layer(block, shape)


@kind("cost", takes_row=True)
def cost(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    source, loss = build.loss_of(build.number - 1)
    build.trains(lambda: cost_loss(section, loss), source)
    return Layer(Identity(prefix=prefix), shape)


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
    build.trains(lambda: softmax_loss(section, tree))
    if tree is None:
        return Layer(Softmax(groups, temperature, prefix=prefix), (size,))
    return Layer(_RowTreeSoftmax(tree, temperature, prefix=prefix), (size,))
