"""The layer ``gluonops.nn.Mish``."""
from mxnet.gluon import HybridBlock

from ...core.text import call_text
from .. import mish as _mish


class Mish(HybridBlock):
    """x tanh(softplus(x)). See :func:`gluonops.ops.mish`.

    Inputs:
        - **data**: any shape; float16, float32 or float64.

    Outputs:
        - **out**: the shape and dtype of `data`.
    """

    def hybrid_forward(self, F, data):
        return _mish(data)

    def __repr__(self):
        return call_text(self, {})
