"""The layer ``gluonops.nn.RegionDecode``."""
from __future__ import annotations

from collections.abc import Sequence

from mxnet.gluon import HybridBlock

from .. import region_decode as _region_decode
from .contract import OP


class RegionDecode(HybridBlock):
    """Boxes, objectness and class probabilities of a YOLOv2 output map. See :func:`gluonops.ops.region_decode`.

    Parameters
    ----------
    anchors : sequence of float
        Sizes of the A anchors in cells, above 0: (w0, h0, w1, h1, ...), or pairs.
    classes : int
        Number of classes K, at least 1.
    softmax : bool, default True
        True: a softmax over the classes. False: one sigmoid per class.
    layout : {'boxes', 'map'}, default 'boxes'
        One row per box, or Darknet's map of activations.

    Inputs:
        - **data**: (B, A*(5+K), H, W); float16, float32 or float64.

    Outputs:
        - **out**: (B, A, H, W, 5+K), or the shape of `data` with layout 'map'. The dtype of `data`.

    Raises
    ------
    OpError
        An argument is out of range.
    """

    def __init__(self, anchors: Sequence, classes: int, softmax: bool = True, layout: str = "boxes", **kwargs):
        super().__init__(**kwargs)
        options = {"anchors": anchors, "classes": classes, "softmax": softmax, "layout": layout}
        self._options = OP.parse(options)._asdict()

    def hybrid_forward(self, F, data):
        return _region_decode(data, **self._options)

    def __repr__(self):
        options = ", ".join(f"{name}={value}" for name, value in self._options.items())
        return f"RegionDecode({options})"
