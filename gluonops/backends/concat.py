"""Tensors beside each other, as MXNet can compute them and their gradient."""
from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import ModuleType

from .emitter import Array

MOST = 64    # The most inputs of a node. oneDNN fails with 3,071, and so do most operators of MXNet from then on.

BLOCK = 16   # The number of channels that oneDNN keeps together.


def concat(F: ModuleType, maps: Sequence[Array], channels: Sequence[int] | None = None) -> Array:
    """Concatenate maps along the channels.

    The gradient of MXNet's ``concat`` fails if a map begins within a block of 16 channels, and the gradient comes in
    such blocks, as that of a convolution does. It then divides by zero, which ends the process, or raises "could not
    construct a sub-memory" (``MKLDNNConcatBackward`` in MXNet 1.9.1). A slice of the whole tensor behind the ``concat``
    lays out the gradient anew. The slice is added where a map may begin within a block, and costs a copy.

    The maps are (B, C, H, W) with the same B, H and W, and the result is (B, sum of C, H, W). ``channels`` has the C of
    each map, and may leave out that of the last one. Without ``channels`` the slice is always added.
    """
    together = F.concat(*maps, dim=1)
    if channels is not None:
        starts = itertools.accumulate(channels[:len(maps) - 1])
        if all(start % BLOCK == 0 for start in starts):
            return together
    return F.slice_axis(together, axis=1, begin=0, end=None)


def constants(F: ModuleType, zero: Array, numbers: Sequence[float], axis: int) -> Array:
    """Return numbers along an axis, at each index of the others. Equal neighbours take one node of a graph.

    ``zero`` has zeros in the dtype of the result, and size 1 along the axis.
    """
    parts = []
    for number, equal in itertools.groupby(numbers):
        count = len(list(equal))
        parts.append(zero + number if count == 1 else F.repeat(zero + number, repeats=count, axis=axis))
    while len(parts) > 1:
        parts = [F.concat(*parts[i:i + MOST], dim=axis) for i in range(0, len(parts), MOST)]
    return parts[0]
