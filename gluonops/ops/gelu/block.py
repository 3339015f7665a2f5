"""The layer ``gluonops.nn.GELU``."""
from __future__ import annotations

from mxnet.gluon import HybridBlock

from ...core.text import call_text
from .. import gelu as _gelu
from .contract import OP


class GELU(HybridBlock):
    """x times the normal distribution function of x. See :func:`gluonops.ops.gelu`.

    Parameters
    ----------
    approximation : {'erf', 'tanh'}, default 'erf'
        The function itself, or the approximation by a hyperbolic tangent.

    Inputs:
        - **data**: any shape; float16, float32 or float64.

    Outputs:
        - **out**: the shape and dtype of `data`.

    Raises
    ------
    OpError
        `approximation` is unknown.
    """

    def __init__(self, approximation: str = "erf", **kwargs):
        super().__init__(**kwargs)
        OP.parse({"approximation": approximation})
        self._approximation = approximation

    def hybrid_forward(self, F, data):
        return _gelu(data, self._approximation)

    def __repr__(self):
        return call_text(self, {"approximation": self._approximation})
