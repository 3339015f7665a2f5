"""The layer ``gluonops.nn.HardSwish``."""
from ...backends.block import OpBlock
from .. import hard_swish as _hard_swish


class HardSwish(OpBlock, function=_hard_swish):
    """x times a sigmoid of three straight lines."""
