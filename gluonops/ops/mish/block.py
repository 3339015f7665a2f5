"""The layer ``gluonops.nn.Mish``."""
from ...core.block import OpBlock
from .. import mish as _mish
from .contract import OP


class Mish(OpBlock):
    """x tanh(softplus(x))."""

    _op, _function = OP, staticmethod(_mish)
