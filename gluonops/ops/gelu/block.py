"""The layer ``gluonops.nn.GELU``."""
from __future__ import annotations

from ...core.block import OpBlock
from .. import gelu as _gelu
from .contract import OP


class GELU(OpBlock):
    """x times the normal distribution function of x."""

    _op, _function = OP, staticmethod(_gelu)

    def __init__(self, approximation: str = "erf", **kwargs):
        super().__init__(approximation=approximation, **kwargs)
