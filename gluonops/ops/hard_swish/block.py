"""The layer ``gluonops.nn.HardSwish``."""
from ...core.block import OpBlock
from .. import hard_swish as _hard_swish
from .contract import OP


class HardSwish(OpBlock):
    """x times a sigmoid of three straight lines."""

    _op, _function = OP, staticmethod(_hard_swish)
