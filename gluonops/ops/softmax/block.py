"""The layer ``gluonops.nn.Softmax``."""
from ...core.block import OpBlock
from .. import softmax as _softmax


class Softmax(OpBlock, function=_softmax):
    """Probabilities along an axis."""
