"""The layer ``gluonops.nn.SwiGLU``."""
from ...backends.block import OpBlock
from .. import swiglu as _swiglu


class SwiGLU(OpBlock, function=_swiglu):
    """Swish of the first half along an axis, times the second half."""
