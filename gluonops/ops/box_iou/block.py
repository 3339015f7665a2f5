"""The layer ``gluonops.nn.BoxIoU``."""
from __future__ import annotations

from mxnet.gluon import HybridBlock

from ...core.text import call_text
from .. import box_iou as _box_iou
from .contract import OP


class BoxIoU(HybridBlock):
    """Intersection over union of every pair of boxes. See :func:`gluonops.ops.box_iou`.

    Parameters
    ----------
    format : {'corner', 'center'}, default 'corner'
        What the four numbers of a box are: (xmin, ymin, xmax, ymax), or (centre x, centre y, width, height).

    Inputs:
        - **lhs**: boxes, (..., N, 4); any float dtype.
        - **rhs**: boxes, (..., M, 4), with the dtype and the leading sizes of `lhs`.

    Outputs:
        - **out**: (..., N, M).

    Raises
    ------
    OpError
        The format is unknown.
    """

    def __init__(self, format: str = "corner", **kwargs):   # noqa: A002
        super().__init__(**kwargs)
        OP.parse({"format": format})
        self._format = format

    def hybrid_forward(self, F, lhs, rhs):
        return _box_iou(lhs, rhs, format=self._format)

    def __repr__(self):
        return call_text(self, {"format": self._format})
