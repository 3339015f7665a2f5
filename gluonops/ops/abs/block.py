"""The layer ``gluonops.nn.Abs``."""
from mxnet.gluon import HybridBlock

from ...core.text import call_text
from .. import abs as _abs


class Abs(HybridBlock):
    """Absolute value. See :func:`gluonops.ops.abs`.

    Inputs:
        - **data**: any shape; any float dtype, uint8, int8, int32 or int64.

    Outputs:
        - **out**: the shape and dtype of `data`.
    """

    def hybrid_forward(self, F, data):
        return _abs(data)

    def __repr__(self):
        return call_text(self, {})
