"""The layer ``gluonops.nn.Softmax``."""
from ...backends.block import OpBlock
from .. import softmax as _softmax


class Softmax(OpBlock, function=_softmax):
    """Probabilities along an axis."""
