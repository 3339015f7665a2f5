"""The layer ``gluonops.nn.L2Normalize``."""
from __future__ import annotations

from mxnet.initializer import Initializer

from .. import l2_normalize as _l2_normalize
from .._rms.block import ScaledRows


class L2Normalize(ScaledRows, function=_l2_normalize):
    """Rows divided by their Euclidean length, with a learned scale. SSD starts with a scale of 20."""

    def __init__(self, axis: int = 1, eps: float = 1e-10, in_channels: int = 0,
                 scale_initializer: str | Initializer = "ones", **kwargs):
        super().__init__(axis, eps, in_channels, scale_initializer, **kwargs)
