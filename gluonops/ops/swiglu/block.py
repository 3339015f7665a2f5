"""The layer ``gluonops.nn.SwiGLU``."""
from ...core.block import OpBlock
from .. import swiglu as _swiglu
from .contract import OP


class SwiGLU(OpBlock):
    """Swish of the first half along an axis, times the second half."""

    _op, _function = OP, staticmethod(_swiglu)
