"""tile: repeat a tensor along one or several axes.

An integer ``tiles`` repeats ``axis``. A tuple ``tiles`` works as in ``numpy.tile``: one count per axis, counted from
the last axis. The shorter of ``data.shape`` and ``tiles`` is filled with ones in front. The gradient of an element is
the sum of the head gradients of its copies. float16 sums in float32.

Sources
-------
``numpy.tile``; the NumpyOp tutorial.

Notes
-----
Work: forward reads the data and writes the output once. A GPU reads the data once per copy, from the cache if the data
fits there. Backward reads the gradient of the output and writes that of the data, once each.
"""
from __future__ import annotations

from ...backends.emitter import Array, call
from .contract import OP


def tile(data: Array, tiles: int | tuple[int, ...], axis: int = -1, name: str | None = None) -> Array:
    """Repeat a tensor.

    Examples
    --------
    >>> data = mx.nd.array([[1, 2], [3, 4]])
    >>> print(gops.ops.tile(data, 2).asnumpy())
    [[1. 2. 1. 2.]
     [3. 4. 3. 4.]]
    >>> print(gops.ops.tile(data, 2, axis=0).asnumpy())
    [[1. 2.]
     [3. 4.]
     [1. 2.]
     [3. 4.]]
    >>> print(gops.ops.tile(data, (3, 1, 2)).shape)
    (3, 2, 4)
    """
    return call(OP, data, tiles=tiles, axis=axis, name=name)
