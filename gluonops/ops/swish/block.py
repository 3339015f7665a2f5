"""The layer ``gluonops.nn.Swish``."""
from ...backends.block import OpBlock
from .. import swish as _swish


class Swish(OpBlock, function=_swish):
    """x sigmoid(beta x); SiLU with beta = 1."""
