"""The layer ``gluonops.nn.Softmax``."""
from __future__ import annotations

from ...core.block import OpBlock
from .. import softmax as _softmax
from .contract import OP


class Softmax(OpBlock):
    """Probabilities along an axis."""

    _op, _function = OP, staticmethod(_softmax)

    def __init__(self, axis: int = -1, temperature: float = 1.0, **kwargs):
        super().__init__(axis=axis, temperature=temperature, **kwargs)
