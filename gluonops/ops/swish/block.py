"""The layer ``gluonops.nn.Swish``."""
from ...core.block import OpBlock
from .. import swish as _swish
from .contract import OP


class Swish(OpBlock):
    """x sigmoid(beta x); SiLU with beta = 1."""

    _op, _function = OP, staticmethod(_swish)
