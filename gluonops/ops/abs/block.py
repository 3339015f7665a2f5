"""The layer ``gluonops.nn.Abs``."""
from ...backends.block import OpBlock
from .. import abs as _abs


class Abs(OpBlock, function=_abs):
    """Absolute value."""
