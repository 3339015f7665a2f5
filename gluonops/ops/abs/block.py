"""The layer ``gluonops.nn.Abs``."""
from mxnet.gluon import HybridBlock

from ...core.text import call_text
from .. import abs as _abs


class Abs(HybridBlock):
    """Absolute value. See :func:`gluonops.ops.abs`.

    Inputs:
        - **data**: any shape.

    Outputs:
        - **out**: the shape of `data`.
    """

    def hybrid_forward(self, F, data):
        return _abs(data)

    def __repr__(self):
        return call_text(self, {})
