"""The base class of ``gluonops.nn.RMSNorm`` and ``gluonops.nn.L2Normalize``."""
from __future__ import annotations

from mxnet.gluon import HybridBlock
from mxnet.initializer import Initializer

from ...core.text import call_text


class ScaledRows(HybridBlock):
    """Rows divided by a norm, with a learned scale.

    A subclass sets ``_op``, the :class:`gluonops.core.contract.Op`, and ``_function``, the operator's function.
    """

    def __init__(self, axis: int, eps: float, in_channels: int, scale_initializer: str | Initializer, **kwargs):
        super().__init__(**kwargs)
        self._options = {"axis": axis, "eps": eps}
        self._op.parse(self._options)
        self._shown = {**self._options, "in_channels": in_channels, "scale_initializer": scale_initializer}
        with self.name_scope():
            self.scale = self.params.get("scale", shape=(in_channels,), init=scale_initializer,
                                         allow_deferred_init=True)

    def hybrid_forward(self, F, data, scale):
        return self._function(data, scale, **self._options)

    def __repr__(self):
        return call_text(self, self._shown)
