"""The layer ``gluonops.nn.L2Normalize``."""
from __future__ import annotations

from mxnet.initializer import Initializer

from .. import l2_normalize as _l2_normalize
from .._rms.block import ScaledRows
from .contract import OP


class L2Normalize(ScaledRows):
    """Rows divided by their Euclidean length, with a learned scale. See :func:`gluonops.ops.l2_normalize`.

    Parameters
    ----------
    axis : int, default 1
        The axis of the channels.
    eps : float, default 1e-10
        What is added under the root, from 1e-12 to below 1.
    in_channels : int, default 0
        The size along `axis`; 0 if it follows from the first input.
    scale_initializer : str or Initializer, default 'ones'
        The scale's first value. SSD starts with 20.

    Inputs:
        - **data**: any shape; float16, float32 or float64.

    Outputs:
        - **out**: the shape and dtype of `data`.

    Raises
    ------
    OpError
        An argument is out of range.
    """

    _op, _function = OP, staticmethod(_l2_normalize)

    def __init__(self, axis: int = 1, eps: float = 1e-10, in_channels: int = 0,
                 scale_initializer: str | Initializer = "ones", **kwargs):
        super().__init__(axis, eps, in_channels, scale_initializer, **kwargs)
