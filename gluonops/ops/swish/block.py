"""The layer ``gluonops.nn.Swish``."""
from __future__ import annotations

from mxnet.gluon import HybridBlock

from ...core.text import call_text
from .. import swish as _swish
from .contract import OP


class Swish(HybridBlock):
    """x sigmoid(beta x); SiLU with beta = 1. See :func:`gluonops.ops.swish`.

    Parameters
    ----------
    beta : float, default 1.0
        Factor of x in the sigmoid, from 0 to below 1000.

    Inputs:
        - **data**: any shape; float16, float32 or float64.

    Outputs:
        - **out**: the shape and dtype of `data`.

    Raises
    ------
    OpError
        `beta` is out of range.
    """

    def __init__(self, beta: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        OP.parse({"beta": beta})
        self._beta = beta

    def hybrid_forward(self, F, data):
        return _swish(data, self._beta)

    def __repr__(self):
        return call_text(self, {"beta": self._beta})
