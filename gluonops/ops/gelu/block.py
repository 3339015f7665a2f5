"""The layer ``gluonops.nn.GELU``."""
from ...core.block import OpBlock
from .. import gelu as _gelu
from .contract import OP


class GELU(OpBlock):
    """x times the normal distribution function of x."""

    _op, _function = OP, staticmethod(_gelu)
