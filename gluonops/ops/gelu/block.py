"""The layer ``gluonops.nn.GELU``."""
from ...backends.block import OpBlock
from .. import gelu as _gelu


class GELU(OpBlock, function=_gelu):
    """x times the normal distribution function of x."""
