"""The layer ``gluonops.nn.Softmax``."""
from mxnet.gluon import HybridBlock

from .. import softmax as _softmax
from .contract import OP


class Softmax(HybridBlock):
    """Probabilities along an axis. See :func:`gluonops.ops.softmax`.

    Parameters
    ----------
    axis : int, default -1
        The classes.
    temperature : float, default 1.0
        Divides the logits; above 0.

    Inputs:
        - **data**: any shape.

    Outputs:
        - **out**: the shape of `data`.
    """

    def __init__(self, axis=-1, temperature=1.0, **kwargs):
        super().__init__(**kwargs)
        OP.parse({"axis": axis, "temperature": temperature})
        self._axis, self._temperature = axis, temperature

    def hybrid_forward(self, F, data):
        return _softmax(data, self._axis, self._temperature)

    def __repr__(self):
        return f"Softmax(axis={self._axis}, temperature={self._temperature})"
