"""The registry of sections, and what their functions return."""
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import mxnet as mx

__all__ = ["SECTIONS", "Kind", "Layer", "Shape", "kind"]

Shape = tuple[int, ...]   # an output's, without the batch: (channels, height, width), or (numbers,)


class Layer(NamedTuple):
    """A section as a block.

    - ``shape``: shape of its output, without the batch.
    - ``sources``: numbers of the layers that it reads. The default is the layer in front of it.
    """
    block: mx.gluon.HybridBlock
    shape: Shape
    sources: list[int] | None = None


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
