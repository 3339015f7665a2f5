"""The layer ``gluonops.nn.RMSNorm``."""
from __future__ import annotations

from mxnet.initializer import Initializer

from .. import rms_norm as _rms_norm
from .._rms.block import ScaledRows
from .contract import OP


class RMSNorm(ScaledRows):
    """Rows divided by the root mean square of their elements, with a learned scale. See :func:`gluonops.ops.rms_norm`.

    Parameters
    ----------
    axis : int, default -1
        The axis of the channels.
    eps : float, default 1e-6
        What is added under the root, from 1e-12 to below 1.
    in_channels : int, default 0
        The size along `axis`; 0 if it follows from the first input.
    scale_initializer : str or Initializer, default 'ones'
        The scale's first value.

    Inputs:
        - **data**: any shape; float16, float32 or float64.

    Outputs:
        - **out**: the shape and dtype of `data`.

    Raises
    ------
    OpError
        An argument is out of range.
    """

    _op, _function = OP, staticmethod(_rms_norm)

    def __init__(self, axis: int = -1, eps: float = 1e-6, in_channels: int = 0,
                 scale_initializer: str | Initializer = "ones", **kwargs):
        super().__init__(axis, eps, in_channels, scale_initializer, **kwargs)
