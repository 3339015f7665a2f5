"""Activates the map of a detecting layer: ``[region]``, ``[yolo]``, ``[Gaussian_yolo]`` and ``[detection]``.

With A anchors and K classes a map is (B, A*(5+K), H, W), or (B, A, 5+K, H, W) with the axis of x, y, w, h, objectness
and the classes apart. Sources: as of ``boxes.py``.
"""
from __future__ import annotations

import mxnet as mx
import numpy as np
from mxnet.gluon import HybridBlock

from ..core.emitter import Array
from ..ops import region_decode
from .blocks import constant, layer
from .tree import Tree, TreeSoftmax

__all__ = ["CellSoftmax", "GaussianYolo", "Region", "TreeRegion", "Yolo"]


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


class Yolo(Region):
    """AlexeyAB's ``[yolo]``: a sigmoid on x, y, objectness and the classes, and x and y scaled about 0.5.

    - ``anchors``: (A, 2), widths and heights in pixels.
    - ``classes``: number of classes.
    - ``scale``: ``scale_x_y``. x and y are from ``(1 - scale) / 2`` to ``(1 + scale) / 2``.
    - ``activated``: ``new_coords``: the layer before has sigmoids already.
    """

    def __init__(self, anchors: np.ndarray, classes: int, scale: float = 1.0, activated: bool = False, **kwargs):
        super().__init__(anchors, classes, class_softmax=False, **kwargs)
        self._activated = activated
        scales = np.ones((len(anchors), 5 + classes), "float32")
        scales[:, :2] = scale
        with self.name_scope():
            self.scale = constant(self.params, "scale", mx.nd.array(scales.reshape(1, -1, 1, 1)))
            self.offset = constant(self.params, "offset", (1 - self.scale.value) / 2)

    def hybrid_forward(self, F, data: Array, scale: Array, offset: Array) -> Array:
        if not self._activated:
            data = super().hybrid_forward(F, data)
        return F.broadcast_add(F.broadcast_mul(data, scale), offset)


@layer
def GaussianYolo(F, data: Array, *, anchors: int, scale: float = 1.0) -> Array:
    """AlexeyAB's ``[Gaussian_yolo]``: sigmoids on all but width and height. Source: Choi et al. (2019).

    The numbers of an anchor are x, its uncertainty, y, w and h likewise, objectness, and the classes: the data is
    (B, A*(9+classes), H, W).

    - ``anchors``: number of anchors.
    - ``scale``: ``scale_x_y``; see :class:`Yolo`.
    """
    cells = F.reshape(data, shape=(0, -4, anchors, -1, 0, 0))

    def part(begin: int, end: int | None) -> Array:
        return F.slice_axis(cells, axis=2, begin=begin, end=end)

    def point(index: int) -> Array:
        return F.sigmoid(part(index, index + 1)) * scale + (1 - scale) / 2

    parts = [point(0), F.sigmoid(part(1, 2)), point(2), F.sigmoid(part(3, 4)), part(4, 5), F.sigmoid(part(5, 6)),
             part(6, 7), F.sigmoid(part(7, None))]
    return F.reshape(F.concat(*parts, dim=2), shape=(0, -3, 0, 0))


class TreeRegion(HybridBlock):
    """Darknet's ``[region]`` with a tree: sigmoid on x, y and objectness, a softmax over each group of classes.

    It computes what pjreddie's GPU build and AlexeyAB's program compute. The softmax of pjreddie's CPU build divides by
    a temperature of 0.

    - ``anchors``: number of anchors.
    - ``tree``: tree of the classes.
    """

    def __init__(self, anchors: int, tree: Tree, **kwargs):
        super().__init__(**kwargs)
        self._anchors = anchors
        with self.name_scope():
            self.softmax = TreeSoftmax(tree)

    def hybrid_forward(self, F, data: Array) -> Array:
        cells = F.reshape(data, shape=(0, -4, self._anchors, -1, 0, 0))
        cells = F.reshape(cells, shape=(-3, 0, -3))   # B*A, 5+K, H*W
        centres = F.sigmoid(F.slice_axis(cells, axis=1, begin=0, end=2))
        sizes = F.slice_axis(cells, axis=1, begin=2, end=4)
        objectness = F.sigmoid(F.slice_axis(cells, axis=1, begin=4, end=5))
        classes = self.softmax(F.slice_axis(cells, axis=1, begin=5, end=None))
        activated = F.concat(centres, sizes, objectness, classes, dim=1)
        return F.reshape_like(activated, data)


@layer
def CellSoftmax(F, data: Array, *, cells: int, classes: int) -> Array:
    """Darknet's ``[detection]`` with ``softmax``: a softmax over the classes of each cell, which are the first numbers.

    The data is (B, ...) with N numbers of an image, at least ``cells * classes``; the output is (B, N).
    """
    data = F.Flatten(data)   # it may be an image, behind a convolution
    rows = F.reshape(F.slice_axis(data, axis=1, begin=0, end=cells * classes), shape=(0, cells, classes))
    rest = F.slice_axis(data, axis=1, begin=cells * classes, end=None)
    return F.concat(F.Flatten(F.softmax(rows, axis=-1)), rest, dim=1)
