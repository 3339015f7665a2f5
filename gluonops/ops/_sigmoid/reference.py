"""The losses of a sigmoid, computed with MXNet's own operators."""
from __future__ import annotations

from ...backends.emitter import Array


def softplus(F, x: Array) -> Array:
    """Return ``log(1 + exp(x))``, which is exact for any x.

    So is its derivative, because MXNet's derivative of max(x, 0) at 0 cancels out.
    """
    positive_part = F.maximum(x, 0)
    return positive_part + F.log1p(F.exp(x - 2 * positive_part))


def without_ignored(F, attrs, data: Array, label: Array) -> tuple[Array, Array, Array | None]:
    """Return the data and the label, with 0 where the label is ignored, and a mask of what counts.

    The mask is None if everything counts.
    """
    label = F.BlockGrad(label)
    if attrs.ignore_label is None:
        return data, label, None
    counts = label != attrs.ignore_label
    zero = F.zeros_like(label)
    return F.where(counts, data, zero), F.where(counts, label, zero), counts
