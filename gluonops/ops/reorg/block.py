"""The layer ``gluonops.nn.Reorg``."""
from mxnet.gluon import HybridBlock

from .. import reorg as _reorg
from .contract import OP


class Reorg(HybridBlock):
    """Space to depth and back, exactly as YOLOv2 needs it. See :func:`gluonops.ops.reorg`.

    Parameters
    ----------
    stride : int, default 2
        Side of the blocks of pixels that move into channels.
    mode : {'darknet', 'DCR', 'CRD'}, default 'darknet'
        Order of the output channels.
    reverse : bool, default False
        Depth to space instead.

    Inputs:
        - **data**: (B, C, H, W).

    Outputs:
        - **out**: (B, C*s*s, H/s, W/s), or (B, C/s/s, H*s, W*s) with `reverse`.
    """

    def __init__(self, stride=2, mode="darknet", reverse=False, **kwargs):
        super().__init__(**kwargs)
        OP.parse({"stride": stride, "mode": mode, "reverse": reverse})
        self._stride, self._mode, self._reverse = stride, mode, reverse

    def hybrid_forward(self, F, data):
        return _reorg(data, self._stride, self._mode, self._reverse)

    def __repr__(self):
        return f"Reorg(stride={self._stride}, mode={self._mode}, reverse={self._reverse})"
