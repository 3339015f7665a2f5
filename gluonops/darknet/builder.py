"""Adds the layers of a cfg's sections to a net: a child for each, in order, named by its number and kind.

A module of ``sections`` registers the functions that make layers; they return a :class:`Layer`.
"""
from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import NamedTuple

from mxnet.gluon import HybridBlock

from .cfg import MAX_INT, Section
from .losses import HeadLoss
from .net import DarknetNet, Head, preprocessing_for
from .options import IGNORED
from .tree import Tree, read_map, read_tree

__all__ = ["SECTIONS", "Builder", "Kind", "Layer", "Shape", "check_shape", "kind"]

Shape = tuple[int, ...]   # an output's, without the batch: (channels, height, width), or (numbers,)


class Layer(NamedTuple):
    """A section as a block.

    - ``shape``: shape of its output, without the batch.
    - ``sources``: numbers of the layers that it reads. The default is the layer in front of it.
    - ``head``: what turns its map into detections.
    - ``loss``: makes its HeadLoss.
    - ``loss_source``: number of the layer whose output the loss takes. The default is the layer in front of it.
    """
    block: HybridBlock
    shape: Shape
    sources: list[int] | None = None
    head: Head | None = None
    loss: Callable[[], HeadLoss] | None = None
    loss_source: int | None = None


class Kind(NamedTuple):
    """A kind of section.

    - ``name``: the name of the options that the kind ignores.
    - ``make``: makes the layer. It takes the builder, the section, the shape of the layer's input and the prefix of the
      block's names.
    - ``takes_row``: whether the input may be a row of numbers instead of an image.
    """
    name: str
    make: Callable
    takes_row: bool


SECTIONS = {}   # word in the brackets -> Kind


def kind(*words: str, takes_row: bool = False) -> Callable:
    """Register a function for sections with these words in their brackets."""
    def register(make: Callable) -> Callable:
        SECTIONS.update(dict.fromkeys(words, Kind(make.__name__, make, takes_row)))
        return make
    return register


class Builder:
    """Adds layers to a net.

    - ``net``: without layers.
    - ``folder``: folder of the cfg.
    - ``dialect``: 'pjreddie' or 'alexeyab'; the program that the net is for.
    - ``epsilon``: epsilon of the batch norms; see :func:`gluonops.darknet.load`.
    - ``letter_box``: the option of AlexeyAB's ``[net]``: whether detectors take letterboxed images.
    - ``layers``: the layers that are added, with all that may be left out.
    - ``binary_outputs``: layers with the option ``bin_output``, by number. AlexeyAB's Darknet takes their activations
      away, except where another layer than the next reads the output.
    """

    def __init__(self, net: DarknetNet, folder: str, dialect: str, epsilon: float | None, letter_box: bool):
        self.net = net
        self.letter_box = letter_box
        self.folder = folder
        self.dialect = dialect
        self.epsilon = epsilon
        self.layers = []
        self.binary_outputs = {}
        self._kinds = []    # names of the layers' kinds
        self._trees = {}

    @property
    def number(self) -> int:
        """The number of the layer that is made."""
        return len(self.layers)

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of the layers' outputs, without the batch."""
        return [layer.shape for layer in self.layers]

    def add(self, section: Section) -> None:
        """Add the layer of a section."""
        kind = SECTIONS.get(section.kind)
        if kind is None:
            known = ", ".join(sorted(SECTIONS))
            raise section.error(f"a section of this kind is not supported; expected one of {known}",
                                "Remove the layer, if the network computes the same without it")
        before = self.layers[-1].shape if self.layers else self.net.input_shape
        if len(before) == 1 and not kind.takes_row:
            rows = ", ".join(sorted(word for word, other in SECTIONS.items() if other.takes_row))
            raise section.error("the layer before it returns no image",
                                f"Behind a row of numbers only {rows} can follow")

        section.skip(*IGNORED.get(kind.name, ()))
        name = f"layer{self.number:02d}_{section.kind}"
        with self.net.name_scope():
            layer = kind.make(self, section, before, f"{name}_")
        section.close()
        if min(layer.shape) < 1:
            raise section.error(f"its output would be {layer.shape} (channels, height, width) for an input of {before}",
                                "Make [net] larger, or take a layer away")
        check_shape(section, "output", layer.shape)

        self.net.register_child(layer.block, name)
        self.net._sources.append(layer.sources or [self.number - 1])
        self._kinds.append(kind.name)
        self.layers.append(layer if layer.loss_source is not None else layer._replace(loss_source=self.number - 1))

    def finish(self) -> None:
        """Set what the net returns: the maps of all detecting layers if it ends in one, else the last output."""
        if self.dialect == "alexeyab":
            for block in self.binary_outputs.values():
                block.remove_activation()
        last = self._last()
        detecting = [number for number, layer in enumerate(self.layers) if layer.head is not None]
        returned = detecting if last in detecting else [last]
        self.net._outputs = tuple(returned)
        self.net._detections = [self.layers[number].head for number in detecting if last in detecting]
        if self.net._detections and self.dialect == "alexeyab" and not self.letter_box:
            self.net.preprocessing = preprocessing_for(self.net.input_shape[0], "stretch")
        layers = [(self._kinds[number], self.layers[number]) for number in returned]
        self.net._losses = [(kind, layer.loss_source, layer.loss) for kind, layer in layers]

    def _last(self) -> int:
        """The number of the last layer without a trailing ``[contrastive]``, and the route in front of it."""
        last = self.number - 1
        if self._kinds[last] != "contrastive":
            return last
        while last > 0 and self._kinds[last] in ("contrastive", "route"):
            last -= 1
        return last

    # -- what sections use ---------------------------------------------------------------------------------------
    def earlier(self, section: Section, key: str, number: int) -> int:
        """The absolute number of an earlier layer. A section counts from itself (negative) or from the start."""
        here = self.number
        absolute = number + here if number < 0 else number
        if not 0 <= absolute < here:
            raise section.error(f"{key} names layer {number}; this is layer {here}, expected {-here} to {here - 1}",
                                "Name an earlier layer", key)
        if len(self.layers[absolute].shape) == 1:
            raise section.error(f"{key} names layer {number}, which returns no image", "Name another layer", key)
        return absolute

    def uses(self, *numbers: int) -> None:
        """Note that a layer reads these, so that they keep their activations; see ``binary_outputs``."""
        for number in numbers:
            self.binary_outputs.pop(number, None)

    def tree(self, section: Section, classes: int) -> Tree:
        """The tree of so many classes that the option ``tree`` names."""
        path = self._find(section, "tree")
        if path not in self._trees:
            self._trees[path] = read_tree(path)
        tree = self._trees[path]
        if len(tree) != classes:
            raise section.error(f"{section.text('tree')} has {len(tree)} classes; expected {classes}",
                                "Correct the number of classes", "tree")
        return tree

    def class_map(self, section: Section, classes: int) -> tuple[int, ...] | None:
        """What the file that the option ``map`` names makes of each class of the ground truth; None without one."""
        if "map" not in section:
            return None
        return read_map(self._find(section, "map"), classes)

    def _find(self, section: Section, key: str) -> str:
        """The file that a cfg names, from the current folder, from the cfg's or from the one above."""
        written = section.text(key)
        above = os.path.join(self.folder, os.pardir)
        places = [written]
        for folder in (self.folder, above):
            places += [os.path.join(folder, written), os.path.join(folder, os.path.basename(written))]
        found = next((path for path in places if os.path.isfile(path)), None)
        if found is None:
            raise section.error(f"the {key} {written} is neither in the current folder nor at the cfg",
                                "Put the file beside the cfg", key)
        return found


def check_shape(section: Section, what: str, shape: Shape) -> None:
    """Raise an OpError if there are more numbers than Darknet can count."""
    count = math.prod(shape)
    if count > MAX_INT:
        raise section.error(f"its {what} would have {count} numbers, {shape} (channels, height, width); expected at "
                            f"most {MAX_INT}, as in Darknet", "Make [net] smaller")
