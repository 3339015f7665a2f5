"""The base class of ``gluonops.nn.RMSNorm`` and ``gluonops.nn.L2Normalize``."""
from __future__ import annotations

from mxnet.initializer import Initializer

from ...backends.block import OpBlock


class ScaledRows(OpBlock):
    """Rows divided by a norm, with a learned scale.

    Parameters
    ----------
    in_channels : int, default 0
        The size along ``axis``; 0 if it follows from the first input.
    scale_initializer : str or Initializer, default 'ones'
        The scale's first value.
    """

    _learned = ("scale",)

    def __init__(self, in_channels: int = 0, scale_initializer: str | Initializer = "ones", **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.scale = self.params.get("scale", shape=(in_channels,), init=scale_initializer,
                                         allow_deferred_init=True)

    def hybrid_forward(self, F, data, scale):
        return super().hybrid_forward(F, data, scale)
