"""The layer ``gluonops.nn.Softmax``."""
from ...core.block import OpBlock
from .. import softmax as _softmax
from .contract import OP


class Softmax(OpBlock):
    """Probabilities along an axis."""

    _op, _function = OP, staticmethod(_softmax)
