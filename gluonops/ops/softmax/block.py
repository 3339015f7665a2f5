"""The layer ``gluonops.nn.Softmax``."""
from __future__ import annotations

from mxnet.gluon import HybridBlock

from .. import softmax as _softmax
from .contract import OP


class Softmax(HybridBlock):
    """Probabilities along an axis. See :func:`gluonops.ops.softmax`.

    Parameters
    ----------
    axis : int, default -1
        Axis of the classes.
    temperature : float, default 1.0
        Divisor of the logits, above 0.

    Inputs:
        - **data**: logits, any shape; float16, float32 or float64.

    Outputs:
        - **out**: the shape and dtype of `data`. Values are from 0 to 1 and sum to 1 along `axis`.

    Raises
    ------
    OpError
        An argument is out of range.
    """

    def __init__(self, axis: int = -1, temperature: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        OP.parse({"axis": axis, "temperature": temperature})
        self._axis, self._temperature = axis, temperature

    def hybrid_forward(self, F, data):
        return _softmax(data, self._axis, self._temperature)

    def __repr__(self):
        return f"Softmax(axis={self._axis}, temperature={self._temperature})"
