"""Tensors beside each other, as MXNet can compute them and their gradient."""
from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import ModuleType

from .emitter import Array

MOST = 64    # inputs of a node: oneDNN fails with 3,071, and so do most of MXNet's operators from then on

BLOCK = 16   # channels that oneDNN keeps together


def concat(F: ModuleType, maps: Sequence[Array], channels: Sequence[int] | None = None) -> Array:
    """Concatenate maps along the channels.

    The gradient of MXNet's ``concat`` divides by zero, which ends the process, or raises "could not construct a
    sub-memory": if a map begins within a block of 16 channels, and the gradient comes in such blocks, as that of a
    convolution does (mxnet 1.9.1, ``MKLDNNConcatBackward``). A slice of the whole behind it lays out the gradient anew.
    It is added where a map may begin within a block, and costs a copy.

    The maps are (B, C, H, W) with the same B, H and W, and the result is (B, sum of C, H, W). ``channels`` has C of
    each map; that of the last one may be left out. Without it nothing is known.
    """
    together = F.concat(*maps, dim=1)
    if channels is not None:
        starts = itertools.accumulate(channels[:len(maps) - 1])
        if all(start % BLOCK == 0 for start in starts):
            return together
    return F.slice_axis(together, axis=1, begin=0, end=None)


def constants(F: ModuleType, zero: Array, numbers: Sequence[float], axis: int) -> Array:
    """Numbers along an axis, at each index of the others. Equal neighbours take one node of a graph.

    ``zero``: zeros in the result's dtype. The size of the axis is 1.
    """
    parts = []
    for number, equal in itertools.groupby(numbers):
        count = len(list(equal))
        parts.append(zero + number if count == 1 else F.repeat(zero + number, repeats=count, axis=axis))
    while len(parts) > 1:
        parts = [F.concat(*parts[i:i + MOST], dim=axis) for i in range(0, len(parts), MOST)]
    return parts[0]
