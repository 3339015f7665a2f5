"""The layer ``gluonops.nn.Mish``."""
from ...backends.block import OpBlock
from .. import mish as _mish


class Mish(OpBlock, function=_mish):
    """x tanh(softplus(x))."""
