"""Builds a HybridBlock from a Darknet cfg: a child for each section, in order, named by its number and kind.

Each module of layers registers functions that make a :class:`Layer` of a section.
"""
from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from typing import NamedTuple

import mxnet as mx
from mxnet.gluon import HybridBlock

from ..contract.attributes import Attr, Choice
from ..contract.errors import plural
from .cfg import Section, read_cfg
from .ignored_options import EPSILON, IGNORED, dialect_of
from .net import DarknetNet, Head, preprocessing_for
from .net_loss import HeadLoss
from .tree import Tree, read_map, read_tree
from .weights import load_weights

DIALECT = Attr("dialect", Choice(*EPSILON), "pjreddie")
Shape = tuple[int, ...]   # an output's, without the batch: (channels, height, width), or (numbers,)


class Layer(NamedTuple):
    """The block of a section, and what the builder has to know of it.

    ``sources`` and ``loss_source`` are numbers of other layers. Where they are None, the layer in front is meant.
    """
    block: HybridBlock
    shape: Shape                                     # the shape of its output
    sources: list[int] | None = None                 # numbers of the layers that it reads
    head: Head | None = None                         # what turns its map into detections
    loss: Callable[[], HeadLoss] | None = None
    loss_source: int | None = None                   # number of the layer whose output the loss takes
    kind: str = ""                                   # name of the section's kind


class Kind(NamedTuple):
    """A kind of section."""
    name: str         # names the options that the kind ignores
    make: Callable    # makes the layer of the builder, a section, its input's shape and the prefix of the block's names
    takes_row: bool   # whether the input may be a row of numbers instead of an image


SECTIONS = {}   # word in the brackets -> Kind


def kind(*words: str, takes_row: bool = False) -> Callable:
    """Register a function for sections with these words in their brackets, of which the first is the kind's name."""
    def register(make: Callable) -> Callable:
        SECTIONS.update(dict.fromkeys(words, Kind(words[0], make, takes_row)))
        return make
    return register


class Builder:
    """Adds layers to a net. Its arguments come from :func:`load` and from the section ``[net]``."""

    def __init__(self, net: DarknetNet, folder: str, dialect: str, epsilon: float | None):
        self.net = net
        self.folder = folder   # the cfg lies here
        self.dialect = dialect
        self.epsilon = epsilon
        self.layers = []
        # Layers with the option bin_output, by number. AlexeyAB's Darknet removes the activation of such a layer if
        # only the next layer reads its output.
        self.binary_outputs = {}

    @property
    def number(self) -> int:
        """The number of the layer that is made."""
        return len(self.layers)

    def add(self, section: Section) -> None:
        """Add the layer of a section."""
        kind = SECTIONS.get(section.kind)
        if kind is None:
            kinds = ", ".join(sorted(SECTIONS))
            raise section.error(f"a section of this kind is not supported; expected one of {kinds}",
                                "Remove the layer, if the network computes the same without it")
        before = self.layers[-1].shape if self.layers else self.net.input_shape
        if len(before) == 1 and not kind.takes_row:
            rows = ", ".join(sorted(word for word, other in SECTIONS.items() if other.takes_row))
            raise section.error(f"the layer before it returns a row of numbers; expected an image, or one of {rows}",
                                "Put one of these sections there")

        section.skip(*IGNORED.get(kind.name, ()))
        name = f"layer{self.number:02d}_{section.kind}"
        with self.net.name_scope():
            layer = kind.make(self, section, before, f"{name}_")
        section.close()
        if min(layer.shape) < 1:
            raise section.error(f"its output would be {layer.shape} (channels, height, width) for an input of {before}",
                                "Make [net] larger, or take a layer away")
        section.check_count(math.prod(layer.shape), f"numbers in its output, {layer.shape} (channels, height, width)",
                            "Make [net] smaller")

        self.net.register_child(layer.block, name)
        self.net._sources.append(layer.sources or [self.number - 1])
        loss_source = self.number - 1 if layer.loss_source is None else layer.loss_source
        self.layers.append(layer._replace(loss_source=loss_source, kind=kind.name))

    def finish(self) -> None:
        """Set what the net returns.

        A net that ends in a detecting layer returns the maps of all its detecting layers. Any other net returns the
        output of its last layer.
        """
        if self.dialect == "alexeyab":
            for block in self.binary_outputs.values():
                block.activates = False
        last = self._last()
        detecting = [number for number, layer in enumerate(self.layers) if layer.head is not None]
        returned = detecting if last in detecting else [last]
        self.net._outputs = tuple(returned)
        self.net._detections = [self.layers[number].head for number in detecting if last in detecting]
        layers = [self.layers[number] for number in returned]
        self.net._losses = [(layer.kind, layer.loss_source, layer.loss) for layer in layers]

    def _last(self) -> int:
        """The number of the last layer without a trailing ``[contrastive]``, and the route in front of it."""
        last = self.number - 1
        if self.layers[last].kind != "contrastive":
            return last
        while last > 0 and self.layers[last].kind in ("contrastive", "route"):
            last -= 1
        return last

    # -- what sections use ---------------------------------------------------------------------------------------
    def earlier(self, section: Section, key: str, number: int) -> int:
        """The absolute number of an earlier layer. A section counts from itself (negative) or from the start."""
        here = self.number
        absolute = number + here if number < 0 else number
        if not 0 <= absolute < here:
            raise section.error(f"{key} names layer {number}, and this is layer {here}; expected {-here} to {here - 1}",
                                "Name an earlier layer", key)
        if len(self.layers[absolute].shape) == 1:
            raise section.error(f"{key} names layer {number}, which returns a row of numbers; expected a layer that "
                                "returns an image", "Name another layer", key)
        return absolute

    def uses(self, *numbers: int) -> None:
        """Note that a layer reads the outputs of these layers, so that they keep their activations.

        See ``binary_outputs``.
        """
        for number in numbers:
            self.binary_outputs.pop(number, None)

    def tree(self, section: Section, classes: int) -> Tree:
        """The tree of so many classes that the option ``tree`` names."""
        tree = read_tree(self._find(section, "tree"))
        if len(tree) != classes:
            raise section.error(f"{section.text('tree')} has {plural(len(tree), 'class', 'classes')}; expected "
                                f"{classes}",
                                "Correct the number of classes", "tree")
        return tree

    def class_map(self, section: Section, classes: int) -> tuple[int, ...] | None:
        """The net's class for each class of the ground truth, from the file of the option ``map``. None without it."""
        if "map" not in section:
            return None
        return read_map(self._find(section, "map"), classes)

    def _find(self, section: Section, key: str) -> str:
        """The path of a file that a cfg names.

        It is looked for in the current folder, in the cfg's folder and in the folder above that.
        """
        written = section.text(key)
        above = os.path.join(self.folder, os.pardir)
        candidates = [written]
        for folder in (self.folder, above):
            candidates += [os.path.join(folder, written), os.path.join(folder, os.path.basename(written))]
        existing = next((path for path in candidates if os.path.isfile(path)), None)
        if existing is None:
            raise section.error(f"the {key} {written} is neither in the current folder nor beside the cfg",
                                "Put the file beside the cfg", key)
        return existing


def load(cfg: str | os.PathLike, weights: str | os.PathLike | None = None, ctx: mx.Context | None = None,
         epsilon: float | None = None, progress: Callable | None = None, dialect: str | None = None) -> DarknetNet:
    """Build a Darknet cfg's network as a HybridBlock, and load its weights.

    All networks that pjreddie's and AlexeyAB's Darknet ship can be loaded, except recurrent ones. Options that only
    concern training, speed or tracking are ignored. Any other unknown section or option is an error, because the
    network would compute something else without it.

    Parameters
    ----------
    cfg : str or os.PathLike
        Path of the cfg.
    weights : str or os.PathLike, optional
        Path of the weights. Without them the net is returned uninitialized.
    ctx : Context, optional
        Context of the parameters. The default is the current context.
    epsilon : float, optional
        Batch norms divide by ``sqrt(variance + epsilon)``. The default is the dialect's: AlexeyAB's Darknet does
        so with 1e-5. pjreddie's does so on a GPU. On a CPU it divides by ``sqrt(variance) + 1e-6``, and so does the
        net by default.
    progress : callable, optional
        Wraps the sequence of layers while weights are loaded, as ``tqdm.tqdm`` does.
    dialect : {'pjreddie', 'alexeyab'}, optional
        The program that the net is for. The default is 'alexeyab' if the cfg has a section or an option that only his
        program knows, else 'pjreddie'. The two programs differ in batch norms, xnor layers and the classes of a tree.
        They also prepare images for a detector differently, see ``net.preprocessing``. AlexeyAB's program stretches
        them to the size of the net, unless the cfg has ``letter_box=1``. pjreddie's program letterboxes them.

    Returns
    -------
    DarknetNet
        It takes images, (B, channels, H, W) in RGB from 0 to 1, and returns the last layer's output, or a tuple of maps
        if there are several detecting layers. ``net.detector()`` returns detections.

    Raises
    ------
    OpError
        A file cannot be read. Or a section or an option is not supported or does not fit: the message then names the
        file, the line and the section. Or the weights belong to another network: the message then names the layer and
        the counts.
    """
    net_section, *sections = read_cfg(cfg)
    dialect = DIALECT.parse("darknet.load", dialect or dialect_of([net_section, *sections]))
    net = _empty_net(net_section, cfg)
    epsilon = EPSILON[dialect] if epsilon is None else epsilon
    builder = Builder(net, os.path.dirname(os.fspath(cfg)), dialect, epsilon)
    for section in sections:
        builder.add(section)
    builder.finish()
    if net._detections and dialect == "alexeyab" and not net_section.flag("letter_box"):
        net.preprocessing = preprocessing_for(net.input_shape[0], "stretch")
    if weights is not None:
        load_weights(net, weights, ctx or mx.current_context(), progress)
    return net


def _empty_net(section: Section, cfg: str | os.PathLike) -> DarknetNet:
    """A net without layers, from the section ``[net]``."""
    shape = tuple(section.integer(key, low=1) for key in ("channels", "height", "width"))
    section.check_count(math.prod(shape), f"numbers in its input, {shape} (channels, height, width)",
                        "Make [net] smaller")
    section.refuse("time_steps", "gluonops does not run recurrent networks", neutral=1)
    section.skip(*IGNORED["net"])
    section.close()
    name = os.path.splitext(os.path.basename(os.fspath(cfg)))[0]
    return DarknetNet(shape, prefix=re.sub(r"\W", "_", name) + "_")
