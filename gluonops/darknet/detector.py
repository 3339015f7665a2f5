"""Decodes a net's maps into detections: the layers ``[region]`` and ``[yolo]``, boxes, non-maximum suppression.

With A anchors and K classes a map is (B, A*(5+K), H, W), or (B, A, 5+K, H, W) with the axis of x, y, w, h, objectness
and the classes apart. Sources: Redmon and Farhadi, "YOLO9000" (2016); pjreddie/darknet ``src/region_layer.c``,
``src/yolo_layer.c`` and ``src/box.c``, commit f6afaabc.
"""
from __future__ import annotations

import warnings
from collections.abc import Sequence
from types import ModuleType

import mxnet as mx
import numpy as np
from mxnet.gluon import HybridBlock

from ..core.attributes import Attr, Float, Int
from ..core.backend import Array
from ..core.errors import OpError
from ..ops import region_decode

__all__ = ["Boxes", "Detector", "Region"]


class Region(HybridBlock):
    """Darknet's ``[region]`` and ``[yolo]``: sigmoid on x, y and objectness, softmax or sigmoid on the classes.

    See :func:`gluonops.ops.region_decode`.

    Parameters
    ----------
    anchors : array_like
        (A, 2), widths and heights in cells.
    classes : int
        Number of classes.
    class_softmax : bool, default True
        Softmax over the classes. If False, a sigmoid on each class.

    Inputs:
        - **data**: (B, A*(5+classes), H, W).

    Outputs:
        - **out**: the same shape.
    """

    def __init__(self, anchors: np.ndarray, classes: int, class_softmax: bool = True, **kwargs):
        super().__init__(**kwargs)
        flat_anchors = tuple(map(float, np.ravel(anchors)))
        self._options = {"anchors": flat_anchors, "classes": classes, "softmax": class_softmax}

    def hybrid_forward(self, F, data: Array) -> Array:
        return region_decode(data, layout="map", **self._options)


class Boxes(HybridBlock):
    """The candidates of an activated map: a box and a score for each class, anchor and cell.

    The boxes of a float16 map are computed in float32, because float16 cannot hold half pixels above 1024.

    Parameters
    ----------
    anchors : array_like
        (A, 2), widths and heights in pixels. They are a constant parameter, so that an export contains them.
    classes : int
        Number of classes.
    stride : int
        Pixels from one cell to the next.

    Inputs:
        - **data**: the output of ``Region``, (B, A*(5+classes), H, W).

    Outputs:
        - **out**: (B, classes*A*H*W, 6): class, objectness times class probability, and left, top, right, bottom in
          pixels.
    """

    def __init__(self, anchors: np.ndarray, classes: int, stride: int, **kwargs):
        super().__init__(**kwargs)
        anchors = np.asarray(anchors, "float32")
        self._anchors = len(anchors)
        self._classes = classes
        self._stride = stride
        self._takes_float16 = False
        with self.name_scope():
            self.anchors = _constant(self.params, "anchors", mx.nd.array(anchors.reshape(1, -1, 2, 1)))
            self.ids = _constant(self.params, "ids", mx.nd.arange(classes).reshape((1, 1, -1, 1)))

    def cast(self, dtype: str | np.dtype) -> None:
        """Change the type of the maps that the block takes.

        Parameters
        ----------
        dtype : str or numpy.dtype
        """
        self._takes_float16 = np.dtype(dtype) == np.float16
        super().cast("float32" if self._takes_float16 else dtype)

    def hybrid_forward(self, F, data: Array, anchors: Array, ids: Array) -> Array:
        if self._takes_float16:
            data = F.cast(data, dtype="float32")
        cells = F.reshape(data, shape=(0, self._anchors, 5 + self._classes, -1))   # B, A, 5+K, H*W

        offsets = F.slice_axis(cells, axis=2, begin=0, end=2)
        centres = F.broadcast_add(offsets, _grid(F, data)) * self._stride
        sizes = F.slice_axis(cells, axis=2, begin=2, end=4)
        halves = F.broadcast_mul(F.exp(sizes), anchors) / 2
        corners = F.concat(centres - halves, centres + halves, dim=2)              # B, A, 4, H*W

        probabilities = F.slice_axis(cells, axis=2, begin=5, end=None)
        objectness = F.slice_axis(cells, axis=2, begin=4, end=5)
        scores = F.broadcast_mul(probabilities, objectness)                        # B, A, K, H*W

        columns = [F.broadcast_like(ids, scores), scores]
        for i in range(4):
            corner = F.slice_axis(corners, axis=2, begin=i, end=i + 1)
            columns.append(F.broadcast_like(corner, scores))
        return F.reshape(F.stack(*columns, axis=-1), shape=(0, -1, 6))


def _constant(params: mx.gluon.ParameterDict, name: str, value: mx.nd.NDArray) -> mx.gluon.Constant:
    """``params.get_constant``. MXNet names an initializer after the address of the constant, and warns if an earlier
    constant had the same one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*New initializer", UserWarning)
        return params.get_constant(name, value)


def _grid(F: ModuleType, data: Array) -> Array:
    """Column and row of each cell of a map, (1, 1, 2, H*W)."""
    columns = F.reshape(F.contrib.arange_like(data, axis=3), shape=(1, 1, 1, -1))
    rows = F.reshape(F.contrib.arange_like(data, axis=2), shape=(1, 1, -1, 1))
    first_image = F.slice_axis(data, axis=0, begin=0, end=1)
    zeros = F.zeros_like(F.slice_axis(first_image, axis=1, begin=0, end=1))
    grid = F.concat(F.broadcast_add(zeros, columns), F.broadcast_add(zeros, rows), dim=1)
    return F.reshape(grid, shape=(1, 1, 2, -1))


class Detector(HybridBlock):
    """A net with the decoding of its maps: it takes images and returns detections.

    As in Darknet, each class of each box is a candidate if objectness times class probability is above ``threshold``.
    Non-maximum suppression follows, class by class.

    Parameters
    ----------
    net : HybridBlock
        Returns a map, or a tuple of maps.
    heads : sequence of HybridBlock
        One for each map, which returns candidates as ``Boxes`` does.
    classes : int
        Number of classes.
    size_multiple : int
        Height and width of the images must be multiples of it.
    threshold : float, default 0.25
        From 0 to 1. Candidates with a probability up to this are dropped.
    nms : float, default 0.45
        IoU above 0. A candidate is dropped if its IoU with a more probable one of its class is above this.
    topk : int, default 400
        Number of candidates of an image that go into the suppression, the most probable ones.

    Inputs:
        - **data**: images, (B, 3, H, W).

    Outputs:
        - **ids**: (B, N, 1), class ids. N is ``topk``, or the number of candidates if that is smaller. Rows without a
          detection are -1 in all three outputs.
        - **scores**: (B, N, 1), probabilities in decreasing order.
        - **boxes**: (B, N, 4), left, top, right, bottom in pixels of the input. They may reach beyond the image.

    Raises
    ------
    OpError
        An argument is out of range, or the sides of the images are not multiples of ``size_multiple``.
    """

    def __init__(self, net: HybridBlock, heads: Sequence[HybridBlock], classes: int, size_multiple: int,
                 threshold: float = 0.25, nms: float = 0.45, topk: int = 400, **kwargs):
        super().__init__(**kwargs)
        self.classes = classes
        self._multiple = size_multiple
        self.threshold = Attr("threshold", Float(0, below=1), 0.25, "").parse("darknet.Detector", threshold)
        self.nms = Attr("nms", Float(above=0), 0.45, "").parse("darknet.Detector", nms)
        self.topk = Attr("topk", Int(1), 400, "").parse("darknet.Detector", topk)
        with self.name_scope():
            self.net = net
            for i, head in enumerate(heads):
                self.register_child(head, f"head{i}")
        self._heads = tuple(heads)

    def forward(self, x: Array, *args: Array) -> tuple[Array, Array, Array]:
        if isinstance(x, mx.nd.NDArray):   # hybrid_forward sees no shapes
            self._check_shape(x.shape)
        return super().forward(x, *args)

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if len(shape) != 4 or any(side % self._multiple for side in shape[2:]):
            raise OpError("darknet.Detector", f"data has shape {shape}; expected (batch, channels, height, width) "
                          f"with sides that divide by {self._multiple}",
                          "Resize the images, for instance with gluonops.data.letterbox")

    def hybrid_forward(self, F, data: Array) -> tuple[Array, Array, Array]:
        maps = self.net(data)
        if not isinstance(maps, (list, tuple)):
            maps = [maps]
        candidates = [head(activated) for head, activated in zip(self._heads, maps)]
        rows = F.concat(*candidates, dim=1) if len(candidates) > 1 else candidates[0]
        rows = F.contrib.box_nms(rows, overlap_thresh=self.nms, valid_thresh=self.threshold, topk=self.topk,
                                 coord_start=2, score_index=1, id_index=0, force_suppress=False)
        rows = F.slice(rows, begin=(None, 0, None), end=(None, self.topk, None))
        ids = F.slice_axis(rows, axis=2, begin=0, end=1)
        scores = F.slice_axis(rows, axis=2, begin=1, end=2)
        boxes = F.slice_axis(rows, axis=2, begin=2, end=6)
        return ids, scores, boxes
