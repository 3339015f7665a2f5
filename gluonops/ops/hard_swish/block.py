"""The layer ``gluonops.nn.HardSwish``."""
from mxnet.gluon import HybridBlock

from ...core.text import call_text
from .. import hard_swish as _hard_swish


class HardSwish(HybridBlock):
    """x times a sigmoid of three straight lines. See :func:`gluonops.ops.hard_swish`.

    Inputs:
        - **data**: any shape; float16, float32 or float64.

    Outputs:
        - **out**: the shape and dtype of `data`.
    """

    def hybrid_forward(self, F, data):
        return _hard_swish(data)

    def __repr__(self):
        return call_text(self, {})
