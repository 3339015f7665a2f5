"""The layer ``gluonops.nn.Swish``."""
from __future__ import annotations

from ...core.block import OpBlock
from .. import swish as _swish
from .contract import OP


class Swish(OpBlock):
    """x sigmoid(beta x); SiLU with beta = 1."""

    _op, _function = OP, staticmethod(_swish)

    def __init__(self, beta: float = 1.0, **kwargs):
        super().__init__(beta=beta, **kwargs)
