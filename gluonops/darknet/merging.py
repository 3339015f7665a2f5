"""Darknet's layers that join the outputs of several layers, as HybridBlocks."""
from __future__ import annotations

from collections.abc import Sequence

from mxnet.gluon import HybridBlock

from ..core.concat import concat
from ..core.emitter import Array
from .activations import ACTIVATIONS
from .blocks import layer

__all__ = ["Multiply", "PartialShortcut", "Route", "Shortcut", "add_parts"]


@layer
def Route(F, *data: Array, channels: Sequence[int], groups: int = 1, group: int = 0) -> Array:
    """Darknet's ``[route]``: concatenates outputs along the channels, or one of ``groups`` slices of each.

    - ``channels``: channels of every input. Each is a multiple of ``groups``.
    - ``groups``: number of slices.
    - ``group``: number of the slice, from 0.
    """
    counts = [count // groups for count in channels]
    if groups > 1:
        data = [F.slice_axis(x, axis=1, begin=group * count, end=(group + 1) * count) for x, count in zip(data, counts)]
    return concat(F, data, counts) if len(data) > 1 else F.identity(data[0])


class _Activated(HybridBlock):
    """A block with an activation, by the name in a cfg."""

    def __init__(self, activation: str = "linear", **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.activation = ACTIVATIONS[activation]()


class Shortcut(_Activated):
    """Darknet's ``[shortcut]``: ``activation(alpha * data + beta * earlier)``. Both have one shape."""

    def __init__(self, activation: str = "linear", alpha: float = 1.0, beta: float = 1.0, **kwargs):
        super().__init__(activation, **kwargs)
        self._alpha = alpha
        self._beta = beta

    def hybrid_forward(self, F, data: Array, earlier: Array) -> Array:
        data = data if self._alpha == 1 else data * self._alpha
        earlier = earlier if self._beta == 1 else earlier * self._beta
        return self.activation(F.elemwise_add(data, earlier))


def add_parts(F, data: Array, parts: Sequence[Array], channels: Sequence[int]) -> Array:
    """``data`` with every part added to its first channels.

    ``channels`` are those of ``data`` and of each part. No part has more than ``data``.
    """
    own, *others = channels
    for part, count in zip(parts, others):
        if count == own:
            data = F.elemwise_add(data, part)
            continue
        first = F.slice_axis(data, axis=1, begin=0, end=count)
        rest = F.slice_axis(data, axis=1, begin=count, end=None)
        data = concat(F, [F.elemwise_add(first, part), rest], (count, own - count))
    return data


class PartialShortcut(_Activated):
    """Darknet's ``[shortcut]`` of outputs of other shapes: it adds what they have in common.

    Channels are added to the first ones. Of an image that is larger by a factor, every so many pixels are added. An
    image that is smaller by a factor is added to every so many pixels.

    - ``channels``: channels of every input.
    - ``alpha`` and ``beta``: factors of the channels that ``data`` has in common with the others, and of the others.
    - ``step``: factor by which the others are larger.
    - ``repeat``: factor by which they are smaller.
    """

    def __init__(self, channels: Sequence[int], activation: str = "linear", alpha: float = 1.0, beta: float = 1.0,
                 step: int = 1, repeat: int = 1, **kwargs):
        super().__init__(activation, **kwargs)
        own, *others = channels
        self._common = [min(own, count) for count in others]
        self._own = own
        self._alpha = alpha
        self._beta = beta
        self._step = step
        self._repeat = repeat

    def _part(self, F, earlier: Array, channels: int) -> Array:
        """What is added of another output."""
        steps = (None, None, self._step, self._step)
        part = F.slice(earlier, begin=(None, 0, None, None), end=(None, channels, None, None), step=steps)
        if self._repeat > 1:
            part = _spread(F, part, self._repeat)
        return part if self._beta == 1 else part * self._beta

    def hybrid_forward(self, F, data: Array, *earlier: Array) -> Array:
        parts = [self._part(F, x, channels) for x, channels in zip(earlier, self._common)]
        if self._alpha != 1:
            common = F.slice_axis(data, axis=1, begin=0, end=self._common[0])
            parts.append(common * (self._alpha - 1))
        channels = [self._own, *self._common, self._common[0]]
        return self.activation(add_parts(F, data, parts, channels))


def _spread(F, data: Array, repeat: int) -> Array:
    """An image with ``repeat - 1`` rows and columns of zeros behind each of its own."""
    columns = F.expand_dims(data, axis=4)
    zeros = F.zeros_like(columns)
    wide = F.reshape(F.concat(columns, *[zeros] * (repeat - 1), dim=4), shape=(0, 0, 0, -3))
    rows = F.expand_dims(wide, axis=3)
    zeros = F.zeros_like(rows)
    return F.reshape(F.concat(rows, *[zeros] * (repeat - 1), dim=3), shape=(0, 0, -3, 0))


class Multiply(_Activated):
    """AlexeyAB's ``[scale_channels]`` and ``[sam]``: ``activation(data * earlier)``.

    Sides of 1 of `data` count as those of `earlier`.
    """

    def hybrid_forward(self, F, data: Array, earlier: Array) -> Array:
        return self.activation(F.broadcast_mul(earlier, data))
