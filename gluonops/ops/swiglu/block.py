"""The layer ``gluonops.nn.SwiGLU``."""
from __future__ import annotations

from ...core.block import OpBlock
from .. import swiglu as _swiglu
from .contract import OP


class SwiGLU(OpBlock):
    """Swish of the first half along an axis, times the second half."""

    _op, _function = OP, staticmethod(_swiglu)

    def __init__(self, axis: int = -1, **kwargs):
        super().__init__(axis=axis, **kwargs)
