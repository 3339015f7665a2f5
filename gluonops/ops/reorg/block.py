"""The layer ``gluonops.nn.Reorg``."""
from __future__ import annotations

from mxnet.gluon import HybridBlock

from .. import reorg as _reorg
from .contract import OP


class Reorg(HybridBlock):
    """Space to depth or depth to space. The default mode is Darknet's, for YOLOv2. See :func:`gluonops.ops.reorg`.

    Parameters
    ----------
    stride : int, default 2
        Height and width s of the pixel blocks that move into channels, at least 1.
    mode : {'darknet', 'DCR', 'CRD'}, default 'darknet'
        Order of the output channels.
    reverse : bool, default False
        True: depth to space. False: space to depth.

    Inputs:
        - **data**: (B, C, H, W); any float dtype, uint8, int8, int32 or int64.

    Outputs:
        - **out**: (B, C*s*s, H/s, W/s), or (B, C/s/s, H*s, W*s) with `reverse`. The dtype of `data`.

    Raises
    ------
    OpError
        An argument is out of range.
    """

    def __init__(self, stride: int = 2, mode: str = "darknet", reverse: bool = False, **kwargs):
        super().__init__(**kwargs)
        OP.parse({"stride": stride, "mode": mode, "reverse": reverse})
        self._stride, self._mode, self._reverse = stride, mode, reverse

    def hybrid_forward(self, F, data):
        return _reorg(data, self._stride, self._mode, self._reverse)

    def __repr__(self):
        return f"Reorg(stride={self._stride}, mode={self._mode}, reverse={self._reverse})"
