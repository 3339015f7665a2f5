"""hard_swish: x times a sigmoid of three straight lines, element by element.

``output = x * min(max(x / 6 + 1 / 2, 0), 1)``, which is 0 up to -3 and x from 3 on. The gradient is ``output_grad``
times 0 up to -3, ``x / 3 + 1 / 2`` between -3 and 3, and 1 from 3 on. The output of minus infinity is NaN.

float16 is computed in float32, except in a builtin graph of variables with unknown types.

Work, in bytes of the tensor: forward moves 2 (read, write) and backward 3. Only the input stays in memory for backward.

Sources: Howard et al., "Searching for MobileNetV3" (2019), section 5.2; ``torch.nn.functional.hardswish``.
"""
from __future__ import annotations

from ...core.backend import Array, call
from .contract import OP

__all__ = ["hard_swish"]


def hard_swish(data: Array, name: str | None = None) -> Array:
    """``x * min(max(x / 6 + 1 / 2, 0), 1)`` of every element.

    Parameters
    ----------
    data : NDArray or Symbol
        Any shape; float16, float32 or float64.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        The shape and dtype of ``data``.

    Raises
    ------
    OpError
        The dtype is not a float.
    """
    return call(OP, locals())
