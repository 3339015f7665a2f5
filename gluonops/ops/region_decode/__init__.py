r"""region_decode: boxes, objectness and class probabilities of a YOLOv2 output map.

``data`` is (B, A*(5+K), H, W), viewed as (B, A, 5+K, H, W). Each of the A anchors has the channels x, y, w, h, o for
the objectness, and K classes. Anchors :math:`(a_w, a_h)` are in cells. In column i and row j, a box has the centre
:math:`(b_x, b_y)` and the size :math:`(b_w, b_h)`, in fractions of the image, and the objectness :math:`b_o`:

.. math::

    b_x = \frac{i + \mathrm{sigmoid}(x)}{W} \qquad b_y = \frac{j + \mathrm{sigmoid}(y)}{H} \qquad
    b_w = \frac{e^w a_w}{W} \qquad b_h = \frac{e^h a_h}{H} \qquad b_o = \mathrm{sigmoid}(o)

The class probabilities are a softmax over K, or one sigmoid per class with ``softmax=False``. They are not multiplied
by the objectness.

``layout="boxes"`` returns (B, A, H, W, 5+K), with one row (bx, by, bw, bh, objectness, p_0, ...) per anchor and cell.
``reshape((0, -1, 5 + K))`` lists the rows in Darknet's order. ``layout="map"`` returns the output of Darknet's layer,
in the layout of ``data``: x, y, objectness and classes are activated, w and h are raw. Both layouts have a gradient.

Sources
-------
Redmon and Farhadi, "YOLO9000" (2016), section 2 "direct location prediction"; pjreddie/darknet ``src/region_layer.c``,
commit f6afaabc, recorded in ``tests/golden/region.npz``. Softmax trees (yolo9000) and boxes with a number of
coordinates other than 4 are not supported.

Notes
-----
The builtin graph consists of operators that export to ONNX, and takes any H and W.

Work: forward and backward each read the map and write a tensor of its size. Backward also reads the gradient of the
output. On a GPU, one thread loops over the classes of one anchor in one cell. For a softmax it does so several times:
forward reads the class logits three times, backward reads them four times and their head gradients twice. The sizes
decide how many of these reads hit the cache. Rows of boxes go through shared memory, so that neighbouring threads
access neighbouring elements of both tensors.
"""
from __future__ import annotations

from collections.abc import Sequence

from ...backends.emitter import Array, call
from .contract import OP


def region_decode(data: Array, anchors: Sequence, classes: int, softmax: bool = True, layout: str = "boxes",
                  name: str | None = None) -> Array:
    """Decode a YOLOv2 map.

    Examples
    --------
    >>> data = mx.nd.zeros((1, 2 * (5 + 3), 4, 4))    # 2 anchors, 3 classes, 4 x 4 cells
    >>> boxes = gops.ops.region_decode(data, anchors=(1, 1, 2, 3), classes=3)
    >>> print(boxes.shape)
    (1, 2, 4, 4, 8)
    >>> print(boxes[0, 1, 0, 2].asnumpy().round(3))    # the second anchor in row 0, column 2
    [0.625 0.125 0.5   0.75  0.5   0.333 0.333 0.333]
    """
    return call(OP, data, anchors=anchors, classes=classes, softmax=softmax, layout=layout, name=name)
