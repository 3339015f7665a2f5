r"""box_iou: the intersection over union of every box of one set with every box of another.

.. math::

    y_{ij} = \frac{I_{ij}}{U_{ij}}

with the intersection I and the union U of box i of ``lhs`` and box j of ``rhs``. The sets of a batch are paired:
(batch, N, 4) and (batch, M, 4) give (batch, N, M). MXNet's ``contrib.box_iou`` gives (batch, N, batch, M) for them, and
the same as this operator for (N, 4) and (M, 4). The gradient is exact for both inputs; MXNet's is 0.

Sources
-------
Jaccard (1912); ``contrib.box_iou`` of Apache MXNet 1.9.1 (names and formats); torchvision's ``box_iou``.

Notes
-----
The IoU is 0, and so is its gradient, for boxes that do not overlap and for boxes without an area, also with
themselves: 1e-18 is added to every union. (torchvision gives NaN for two boxes without an area.) A box whose corners
are exchanged overlaps nothing. A NaN in a box makes its row or column NaN. If ends of two boxes coincide, the gradient
is that of the end of ``lhs``, where PyTorch divides it between both.

Where float16 is not computed in float32, two boxes without an area give NaN.

Work: forward reads the boxes and writes the output. Backward reads the head gradient twice.
"""
from __future__ import annotations

from ...backends.emitter import Array, call
from .contract import OP


def box_iou(lhs: Array, rhs: Array, format: str = "corner",   # pylint: disable=redefined-builtin
            name: str | None = None) -> Array:
    """Compute the intersection over union of every pair of boxes.

    Examples
    --------
    >>> boxes = mx.nd.array([[0, 0, 4, 4], [2, 0, 6, 4]])
    >>> truth = mx.nd.array([[0, 0, 4, 4], [4, 4, 8, 8], [0, 0, 4, 8]])
    >>> print(gops.ops.box_iou(boxes, truth).asnumpy().round(3))
    [[1.    0.    0.5  ]
     [0.333 0.    0.2  ]]
    """
    return call(OP, lhs, rhs, format=format, name=name)
