"""From a net's maps to detections: the layers ``[region]`` and ``[yolo]``, boxes, non-maximum suppression.

A map is (B, A*(5+K), H, W) for A anchors and K classes, seen as (B, A, 5+K, H, W): x, y, w, h, objectness, classes.
Sources: Redmon and Farhadi, "YOLO9000" (2016); pjreddie/darknet ``src/region_layer.c``, ``src/yolo_layer.c`` and
``src/box.c``, commit f6afaabc.
"""
import mxnet as mx
import numpy as np
from mxnet.gluon import HybridBlock

from ..core.attributes import Attr, Float, Int
from ..core.errors import OpError
from ..ops import region_decode

__all__ = ["Boxes", "Detector", "Region"]


class Region(HybridBlock):
    """Darknet's ``[region]`` and ``[yolo]``: sigmoid on x, y and objectness, softmax or sigmoid on the classes.

    See :func:`gluonops.ops.region_decode`.

    Parameters
    ----------
    anchors : array_like
        (A, 2): widths and heights in cells.
    classes : int
        Number of classes.
    class_softmax : bool, default True
        Softmax over the classes, instead of a sigmoid on each.

    Inputs:
        - **data**: (B, A*(5+classes), H, W).

    Outputs:
        - **out**: the same shape.
    """

    def __init__(self, anchors, classes, class_softmax=True, **kwargs):
        super().__init__(**kwargs)
        self._options = {"anchors": tuple(map(float, np.ravel(anchors))), "classes": classes, "softmax": class_softmax}

    def hybrid_forward(self, F, data):
        return region_decode(data, layout="map", **self._options)


class Boxes(HybridBlock):
    """A candidate for every class, anchor and cell of an activated map.

    Parameters
    ----------
    anchors : array_like
        (A, 2): widths and heights in pixels. A constant, so that an export carries it.
    classes : int
        Number of classes.
    stride : int
        Pixels from one cell to the next.

    Boxes of float16 maps are computed in float32: float16 has no halves of a pixel from 1024 on.

    Inputs:
        - **data**: what ``Region`` returns, (B, A*(5+classes), H, W).

    Outputs:
        - **out**: (B, classes*A*H*W, 6): class, objectness times class probability, corners in pixels.
    """

    def __init__(self, anchors, classes, stride, **kwargs):
        super().__init__(**kwargs)
        anchors = np.asarray(anchors, "float32")
        self._anchors, self._classes, self._stride = len(anchors), classes, stride
        self._takes_float16 = False
        with self.name_scope():
            self.anchors = self.params.get_constant("anchors", mx.nd.array(anchors.reshape(1, -1, 2, 1)))
            self.ids = self.params.get_constant("ids", mx.nd.arange(classes).reshape((1, 1, -1, 1)))

    def cast(self, dtype):
        """Take maps of another type.

        Parameters
        ----------
        dtype : str or numpy.dtype
        """
        self._takes_float16 = np.dtype(dtype) == np.float16
        super().cast("float32" if self._takes_float16 else dtype)

    def hybrid_forward(self, F, data, anchors, ids):
        if self._takes_float16:
            data = F.cast(data, dtype="float32")
        cells = F.reshape(data, shape=(0, self._anchors, 5 + self._classes, -1))              # B, A, 5+K, H*W
        centres = F.broadcast_add(F.slice_axis(cells, axis=2, begin=0, end=2), _grid(F, data)) * self._stride
        halves = F.broadcast_mul(F.exp(F.slice_axis(cells, axis=2, begin=2, end=4)), anchors) / 2
        corners = F.concat(centres - halves, centres + halves, dim=2)                         # B, A, 4, H*W
        scores = F.broadcast_mul(F.slice_axis(cells, axis=2, begin=5, end=None),
                                 F.slice_axis(cells, axis=2, begin=4, end=5))                 # B, A, K, H*W
        columns = [F.broadcast_like(ids, scores), scores] + [
            F.broadcast_like(F.slice_axis(corners, axis=2, begin=i, end=i + 1), scores) for i in range(4)]
        return F.reshape(F.stack(*columns, axis=-1), shape=(0, -1, 6))


def _grid(F, data):
    """Column and row of every cell: (1, 1, 2, H*W)."""
    zeros = F.zeros_like(F.slice_axis(F.slice_axis(data, axis=0, begin=0, end=1), axis=1, begin=0, end=1))
    columns = F.broadcast_add(zeros, F.reshape(F.contrib.arange_like(data, axis=3), shape=(1, 1, 1, -1)))
    rows = F.broadcast_add(zeros, F.reshape(F.contrib.arange_like(data, axis=2), shape=(1, 1, -1, 1)))
    return F.reshape(F.concat(columns, rows, dim=1), shape=(1, 1, 2, -1))


class Detector(HybridBlock):
    """A net, and what turns its maps into detections; hybridizes, and exports with all it takes.

    As Darknet: every class of every box whose objectness times class probability is above ``threshold``, then
    non-maximum suppression in every class.

    Parameters
    ----------
    net : HybridBlock
        Returns a map, or a tuple of them.
    heads : sequence of HybridBlock
        One for each map: returns candidates as ``Boxes`` does.
    classes : int
        Number of classes.
    size_multiple : int
        What height and width of the images divide by.
    threshold : float, default 0.25
        Least probability, 0 to 1; a candidate has to be above it.
    nms : float, default 0.45
        A candidate is dropped whose intersection over union with a more probable one of its class is above this.
    topk : int, default 400
        Most candidates of an image that go into the suppression, so the most detections that come out.

    Inputs:
        - **data**: images, (B, 3, H, W).

    Outputs:
        - **ids**: (B, N, 1), classes; -1 where there is no detection.
        - **scores**: (B, N, 1), probabilities in decreasing order; -1 likewise.
        - **boxes**: (B, N, 4), left, top, right, bottom in pixels of the input; -1 likewise. They may reach beyond it.
          N is ``topk``, or fewer where there are not as many candidates.

    Raises
    ------
    OpError
        An argument is out of range, or the image's sides do not divide.
    """

    def __init__(self, net, heads, classes, size_multiple, threshold=0.25, nms=0.45, topk=400, **kwargs):
        super().__init__(**kwargs)
        self.classes = classes
        self._multiple = size_multiple
        self._threshold = Attr("threshold", Float(0, below=1), 0.25, "").parse("darknet.Detector", threshold)
        self._nms = Attr("nms", Float(above=0), 0.45, "").parse("darknet.Detector", nms)
        self._topk = Attr("topk", Int(1), 400, "").parse("darknet.Detector", topk)
        with self.name_scope():
            self.net = net
            for i, head in enumerate(heads):
                self.register_child(head, f"head{i}")
        self._heads = tuple(heads)

    def forward(self, x, *args):
        # Here, because hybrid_forward sees no shapes once the net is hybridized.
        if isinstance(x, mx.nd.NDArray) and (x.ndim != 4 or any(side % self._multiple for side in x.shape[2:])):
            raise OpError("darknet.Detector", f"data has shape {x.shape}; expected (batch, channels, height, width) "
                          f"with sides that divide by {self._multiple}",
                          "Resize the images, for instance with gluonops.data.letterbox")
        return super().forward(x, *args)

    def hybrid_forward(self, F, data):
        maps = self.net(data)
        maps = maps if isinstance(maps, (list, tuple)) else [maps]
        rows = [head(x) for head, x in zip(self._heads, maps)]
        rows = F.concat(*rows, dim=1) if len(rows) > 1 else rows[0]
        rows = F.contrib.box_nms(rows, overlap_thresh=self._nms, valid_thresh=self._threshold, topk=self._topk,
                                 coord_start=2, score_index=1, id_index=0, force_suppress=False)
        rows = F.slice(rows, begin=(None, 0, None), end=(None, self._topk, None))
        return (F.slice_axis(rows, axis=2, begin=0, end=1), F.slice_axis(rows, axis=2, begin=1, end=2),
                F.slice_axis(rows, axis=2, begin=2, end=6))
