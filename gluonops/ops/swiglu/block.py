"""The layer ``gluonops.nn.SwiGLU``."""
from __future__ import annotations

from mxnet.gluon import HybridBlock

from ...core.text import call_text
from .. import swiglu as _swiglu
from .contract import OP


class SwiGLU(HybridBlock):
    """Swish of the first half along an axis, times the second half. See :func:`gluonops.ops.swiglu`.

    Parameters
    ----------
    axis : int, default -1
        The axis of the halves.

    Inputs:
        - **data**: any shape whose size along `axis` is even; float16, float32 or float64.

    Outputs:
        - **out**: the shape of `data` with half the size along `axis`; its dtype.

    Raises
    ------
    OpError
        `axis` is not an integer.
    """

    def __init__(self, axis: int = -1, **kwargs):
        super().__init__(**kwargs)
        OP.parse({"axis": axis})
        self._axis = axis

    def hybrid_forward(self, F, data):
        return _swiglu(data, self._axis)

    def __repr__(self):
        return call_text(self, {"axis": self._axis})
