"""The layer ``gluonops.nn.RMSNorm``."""
from __future__ import annotations

from mxnet.initializer import Initializer

from .. import rms_norm as _rms_norm
from .._rms.block import ScaledRows


class RMSNorm(ScaledRows, function=_rms_norm):
    """Rows divided by the root mean square of their elements, with a learned scale."""

    def __init__(self, axis: int = -1, eps: float = 1e-6, in_channels: int = 0,
                 scale_initializer: str | Initializer = "ones", **kwargs):
        super().__init__(axis, eps, in_channels, scale_initializer, **kwargs)
