"""The layer ``gluonops.nn.Abs``."""
from ...core.block import OpBlock
from .. import abs as _abs
from .contract import OP


class Abs(OpBlock):
    """Absolute value."""

    _op, _function = OP, staticmethod(_abs)
