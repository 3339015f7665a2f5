"""The layer ``gluonops.nn.RegionDecode``."""
from mxnet.gluon import HybridBlock

from .. import region_decode as _region_decode
from .contract import OP


class RegionDecode(HybridBlock):
    """A YOLOv2 map to boxes, objectness and class probabilities. See :func:`gluonops.ops.region_decode`.

    Parameters
    ----------
    anchors : sequence of float
        Sizes of the A anchors in cells: (w0, h0, w1, h1, ...), or pairs.
    classes : int
        K.
    softmax : bool, default True
        Whether a softmax makes class probabilities, or a sigmoid for each.
    layout : {'boxes', 'map'}, default 'boxes'
        A row per box, or Darknet's map of activations.

    Inputs:
        - **data**: (B, A*(5+K), H, W).

    Outputs:
        - **out**: (B, A, H, W, 5+K), or the shape of `data` with layout 'map'.
    """

    def __init__(self, anchors, classes, softmax=True, layout="boxes", **kwargs):
        super().__init__(**kwargs)
        options = {"anchors": anchors, "classes": classes, "softmax": softmax, "layout": layout}
        self._options = OP.parse(options)._asdict()

    def hybrid_forward(self, F, data):
        return _region_decode(data, **self._options)

    def __repr__(self):
        return f"RegionDecode({', '.join(f'{name}={value}' for name, value in self._options.items())})"
